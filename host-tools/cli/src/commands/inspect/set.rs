//! The file that is inspected, and with the first shard of a set all its siblings.

use std::{
    io::ErrorKind,
    path::{Path, PathBuf},
};

use smidgen_core::gguf::ShardName;
use smidgen_edit::{Finding, Verdict};
use smidgen_io::{Error, FileBytes};

use crate::commands::verify::file_name;

/// A file of the set as it was found.
#[derive(Debug)]
pub(super) struct File {
    name: String,
    found: Result<FileBytes, Error>,
}

/// A file of the set and what is known of it.
#[derive(Debug)]
pub(super) struct Member<'a> {
    /// The name by which it is shown: the path as given, or the sibling's file name.
    pub(super) name: String,
    /// Bytes of the file.
    pub(super) bytes: u64,
    /// `None` for one that is missing or cannot be read.
    pub(super) verdict: Option<Verdict<'a>>,
    /// Why it could not be read; `None` for one that is missing.
    pub(super) error: Option<String>,
}

impl Member<'_> {
    pub(super) fn is_missing(&self) -> bool {
        self.verdict.is_none() && self.error.is_none()
    }

    pub(super) fn faults(&self) -> impl Iterator<Item = &Finding> {
        self.verdict.iter().flat_map(|verdict| &verdict.faults)
    }

    pub(super) fn warnings(&self) -> impl Iterator<Item = &Finding> {
        self.verdict.iter().flat_map(|verdict| &verdict.warnings)
    }
}

/// Opens a file; when its name is that of the first shard of several, also the others.
pub(super) fn open(path: &Path) -> anyhow::Result<Vec<File>> {
    let first = FileBytes::open(path)?;
    let mut files = vec![File {
        name: path.display().to_string(),
        found: Ok(first),
    }];
    let shard = file_name(path).and_then(ShardName::parse);
    if let Some(shard) = shard.filter(|shard| shard.number == 1) {
        for number in 2..=shard.count {
            let name = ShardName { number, ..shard }.to_string();
            let sibling: PathBuf = path.with_file_name(&name);
            let found = FileBytes::open(&sibling);
            files.push(File { name, found });
        }
    }
    Ok(files)
}

/// Checks every file that is there.
pub(super) fn verify(files: &[File]) -> Vec<Member<'_>> {
    files.iter().map(member).collect()
}

fn member(file: &File) -> Member<'_> {
    let name = file.name.clone();
    match &file.found {
        Ok(bytes) => {
            let verdict = smidgen_edit::verify(bytes, file_name(bytes.path()));
            Member {
                name,
                bytes: bytes.len() as u64,
                verdict: Some(verdict),
                error: None,
            }
        }
        Err(error) => {
            let missing =
                matches!(error, Error::Read { source, .. } if source.kind() == ErrorKind::NotFound);
            let text = || format!("{:#}", anyhow::anyhow!("{error}"));
            Member {
                name,
                bytes: 0,
                verdict: None,
                error: (!missing).then(text),
            }
        }
    }
}
