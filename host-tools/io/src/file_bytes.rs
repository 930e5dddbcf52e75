//! The bytes of an input file: mapped where that is possible, read where it is not.

use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom, Write},
    ops::Deref,
    path::{Path, PathBuf},
};

use smidgen_core::gguf::Gguf;

use crate::{Error, copy_range::copy_range};

/// The bytes of a file, and its path for messages.
#[derive(Debug)]
pub struct FileBytes {
    path: PathBuf,
    bytes: Bytes,
}

#[derive(Debug)]
enum Bytes {
    Mapped {
        map: memmap2::Mmap,
        file: File,
    },
    /// A mapping whose changes nobody else sees.
    Private(memmap2::MmapMut),
    Read(Vec<u8>),
    /// Part of the program.
    BuiltIn(&'static [u8]),
}

impl FileBytes {
    /// The bytes of a file that is part of the program; `name` stands for its path in messages.
    #[must_use]
    pub fn built_in(name: &str, bytes: &'static [u8]) -> Self {
        Self {
            path: name.into(),
            bytes: Bytes::BuiltIn(bytes),
        }
    }

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
        Self::from_file(file, path)
    }

    /// As [`open`](Self::open) for a file that is open already, as for reading it before it has its
    /// name; `path` is for messages.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn from_file(file: File, path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let fail = |source| Error::Read {
            path: path.to_owned(),
            source,
        };
        let metadata = file.metadata().map_err(fail)?;
        if metadata.is_dir() {
            return Err(fail(io::ErrorKind::IsADirectory.into()));
        }
        let can_be_mapped = metadata.is_file() && metadata.len() > 0;
        let bytes = match can_be_mapped.then(|| map(&file)) {
            Some(Ok(map)) => Bytes::Mapped { map, file },
            _ => {
                let mut bytes = Vec::new();
                { file }.read_to_end(&mut bytes).map_err(fail)?;
                Bytes::Read(bytes)
            }
        };
        Ok(Self {
            path: path.to_owned(),
            bytes,
        })
    }

    /// These bytes with some of them replaced, from `at` on: what the file would be. The file
    /// itself stays as it is.
    ///
    /// # Errors
    /// The file cannot be mapped, or the change reaches past its end.
    pub fn with_change(&self, at: usize, change: &[u8]) -> Result<Self, Error> {
        let fail = |source| Error::Read {
            path: self.path.clone(),
            source,
        };
        let mut bytes = match &self.bytes {
            Bytes::Mapped { file, .. } => Bytes::Private(map_copy(file).map_err(fail)?),
            _ => Bytes::Read(self.to_vec()),
        };
        let all: &mut [u8] = match &mut bytes {
            Bytes::Private(map) => map,
            Bytes::Read(bytes) => bytes,
            Bytes::Mapped { .. } | Bytes::BuiltIn(_) => &mut [],
        };
        let end = at.checked_add(change.len());
        match end.and_then(|end| all.get_mut(at..end)) {
            Some(place) => place.copy_from_slice(change),
            None => return Err(fail(io::ErrorKind::UnexpectedEof.into())),
        }
        Ok(Self {
            path: self.path.clone(),
            bytes,
        })
    }

    /// Fills `part` from `at` on, by reading: unlike the mapping this leaves nothing in memory.
    ///
    /// # Errors
    /// Reading fails, or the file has fewer bytes.
    pub fn read_at(&self, part: &mut [u8], at: u64) -> Result<(), Error> {
        let read = match &self.bytes {
            Bytes::Mapped { file, .. } => {
                let mut file = file;
                file.seek(SeekFrom::Start(at))
                    .and_then(|_| file.read_exact(part))
            }
            _ => {
                let start = usize::try_from(at).ok();
                let bytes = start.and_then(|start| {
                    let end = start.checked_add(part.len())?;
                    self.get(start..end)
                });
                match bytes {
                    Some(bytes) => {
                        part.copy_from_slice(bytes);
                        Ok(())
                    }
                    None => Err(io::ErrorKind::UnexpectedEof.into()),
                }
            }
        };
        read.map_err(|source| Error::Read {
            path: self.path.clone(),
            source,
        })
    }

    /// Appends `len` bytes from `at` on to `out`, by the system where it can; holes stay holes.
    ///
    /// # Errors
    /// Reading or writing fails, or the file has fewer bytes.
    pub fn copy_range(&self, at: u64, len: u64, out: &mut File) -> io::Result<()> {
        if let Bytes::Mapped { file, .. } = &self.bytes {
            return copy_range(file, at, len, out);
        }
        let start = usize::try_from(at).ok();
        let len = usize::try_from(len).ok();
        let range = start.zip(len);
        let bytes = range.and_then(|(start, len)| self.get(start..start.checked_add(len)?));
        out.write_all(bytes.ok_or(io::ErrorKind::UnexpectedEof)?)
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
            Bytes::Mapped { map, .. } => map,
            Bytes::Private(map) => map,
            Bytes::Read(bytes) => bytes,
            Bytes::BuiltIn(bytes) => bytes,
        }
    }
}

fn map(file: &File) -> io::Result<memmap2::Mmap> {
    // SAFETY: the mapping is read-only and private to this process. That nobody truncates the file
    // meanwhile is the condition stated at `open`, as for every program that maps its input.
    unsafe { memmap2::Mmap::map(file) }
}

fn map_copy(file: &File) -> io::Result<memmap2::MmapMut> {
    // SAFETY: as in `map`; what is changed are copies of pages that only this process has.
    unsafe {
        // Few pages will be changed: no memory need be set aside for all.
        memmap2::MmapOptions::new().no_reserve_swap().map_copy(file)
    }
}
