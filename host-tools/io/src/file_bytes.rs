//! The bytes of an input file: mapped where that is possible, read where it is not.

use std::{
    fs::File,
    io::{self, Read},
    ops::Deref,
    path::{Path, PathBuf},
};

use smidgen_core::gguf::Gguf;

use crate::Error;

/// The bytes of a file, and its path for messages.
#[derive(Debug)]
pub struct FileBytes {
    path: PathBuf,
    bytes: Bytes,
}

#[derive(Debug)]
enum Bytes {
    Mapped(memmap2::Mmap),
    Read(Vec<u8>),
}

impl FileBytes {
    /// Maps a file, or reads it where mapping does not work (a pipe, an empty file); `-` reads
    /// standard input.
    ///
    /// A mapped file must not be cut short by others while it is in use: reading what is gone
    /// ends the process. [`read`](Self::read) holds a copy instead.
    ///
    /// # Errors
    /// The file cannot be opened or read.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        if path.as_os_str() == "-" {
            return Self::read(path);
        }
        let fail = |source| Error::Read {
            path: path.to_owned(),
            source,
        };
        let file = File::open(path).map_err(fail)?;
        let metadata = file.metadata().map_err(fail)?;
        if metadata.is_dir() {
            return Err(fail(io::ErrorKind::IsADirectory.into()));
        }
        if !metadata.is_file() || metadata.len() == 0 {
            return Self::read(path);
        }
        // SAFETY: the mapping is read-only and private to this process. That nobody truncates the
        // file meanwhile is the condition stated above, as for every program that maps its input.
        let Ok(mapped) = (unsafe { memmap2::Mmap::map(&file) }) else {
            return Self::read(path);
        };
        Ok(Self {
            path: path.to_owned(),
            bytes: Bytes::Mapped(mapped),
        })
    }

    /// Reads a file into memory; `-` reads standard input.
    ///
    /// # Errors
    /// The file cannot be opened or read.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let read = if path.as_os_str() == "-" {
            let mut bytes = Vec::new();
            io::stdin().lock().read_to_end(&mut bytes).map(|_| bytes)
        } else {
            std::fs::read(path)
        };
        let bytes = read.map_err(|source| Error::Read {
            path: path.to_owned(),
            source,
        })?;
        Ok(Self {
            path: path.to_owned(),
            bytes: Bytes::Read(bytes),
        })
    }

    /// The path as it was given.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The bytes parsed as GGUF.
    ///
    /// # Errors
    /// The first fault, with the path.
    pub fn gguf(&self) -> Result<Gguf<'_>, Error> {
        let mut scratch = vec![0; Gguf::scratch_len(self)];
        Gguf::parse(self, &mut scratch).map_err(|source| Error::Gguf {
            path: self.path.clone(),
            source,
        })
    }
}

impl Deref for FileBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.bytes {
            Bytes::Mapped(mapped) => mapped,
            Bytes::Read(bytes) => bytes,
        }
    }
}
