//! What the commands that change files have in common: where the result goes, and errors.

use std::path::{Path, PathBuf};

use anyhow::anyhow;
use smidgen_edit::{EditError, Rewrite, Target, printable};
use smidgen_io::{FileBytes, Overwrite, same_file};

use crate::output;

/// Where the changed file goes.
#[derive(Debug, clap::Args)]
pub(super) struct Output {
    /// Write another file instead of changing this one.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Do it even if a reader may refuse the result, or the output exists.
    #[arg(long)]
    force: bool,
}

impl Output {
    /// Writes the result: under another name, or in the place of the file.
    pub(super) fn write(&self, file: &Path, rewrite: Rewrite<'_>) -> anyhow::Result<()> {
        let target = match &self.output {
            None => Target::Replace,
            Some(output) if output.as_os_str() == "-" => {
                return Err(anyhow!(
                    "a changed file cannot be written to standard output"
                ));
            }
            Some(output) if same_file(output, file) => {
                let shown = output.display();
                let error = anyhow!("{shown} is the input");
                return Err(output::hinted(
                    error,
                    "without -o the file is changed in place",
                ));
            }
            Some(output) => Target::New(output, self.overwrite()),
        };
        let written = rewrite.write(target, self.force);
        written.map_err(|error| explained(file, error))
    }

    /// Writes the result into the file itself.
    pub(super) fn patch(&self, file: &Path, rewrite: Rewrite<'_>) -> anyhow::Result<()> {
        let written = rewrite.write(Target::Patch, self.force);
        written.map_err(|error| explained(file, error))
    }

    fn overwrite(&self) -> Overwrite {
        if self.force {
            Overwrite::Replace
        } else {
            Overwrite::Refuse
        }
    }
}

/// Opens a file that is to be changed.
pub(super) fn open(file: &Path) -> anyhow::Result<FileBytes> {
    if file.as_os_str() == "-" {
        return Err(anyhow!("standard input cannot be changed"));
    }
    Ok(FileBytes::open(file)?)
}

/// The error with the file it is about, and a hint.
pub(super) fn explained(file: &Path, error: EditError) -> anyhow::Error {
    let hint = match &error {
        EditError::Io(_) => return error.into(),
        EditError::NoType { .. } => "say it with --type, such as --type u32",
        EditError::Worse { .. } => "--force does it all the same",
        EditError::NotInPlace { .. } => "without --patch the file is written anew",
        EditError::Shard => "merge the set first",
        EditError::NoKey { .. } | EditError::NoTensor { .. } => {
            "`smidgen inspect` lists what is there"
        }
        _ => "",
    };
    let path = printable(file.display().to_string().as_bytes());
    let error = anyhow!("{path}: {}", printable(error.to_string().as_bytes()));
    match hint {
        "" => error,
        hint => output::hinted(error, hint),
    }
}
