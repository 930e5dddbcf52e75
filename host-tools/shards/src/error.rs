//! What can go wrong with splitting and merging.

use std::{fmt, io, path::PathBuf};

use crate::Fault;

/// A failure, with the file it concerns.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// A file cannot be read or written, is no valid GGUF, or exists already.
    File(smidgen_io::Error),
    /// The shards are not all there, or do not fit together. There is at least one fault.
    Set(Vec<Fault>),
    /// A folder holds no shard, or shards of more than one set.
    Folder {
        /// The folder.
        path: PathBuf,
        /// `PREFIX-*-of-COUNT` of each set in it.
        sets: Vec<String>,
    },
    /// What is to be split is a shard itself.
    IsShard {
        /// The file.
        path: PathBuf,
        /// Its `split.count`.
        count: u64,
    },
    /// There is nothing to split: a file without tensors makes a shard without tensors.
    NoTensors {
        /// The file.
        path: PathBuf,
    },
    /// More shards than the format can number.
    TooManyShards {
        /// How many the limit would make.
        count: u64,
    },
    /// A file would be larger than can be counted.
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// An output's prefix is no file name that shards can have.
    Prefix {
        /// The prefix.
        path: PathBuf,
    },
    /// A shard exists and is not what would be written.
    ShardExists {
        /// The shard.
        path: PathBuf,
    },
    /// An output is one of the inputs.
    SameFile {
        /// The output.
        path: PathBuf,
    },
    /// Standard input or output where only files will do.
    Stream,
    /// Another process writes this output.
    Busy {
        /// The output.
        path: PathBuf,
    },
    /// Deleting a symbolic link frees nothing.
    LinkedShard {
        /// The shard.
        path: PathBuf,
    },
    /// A merge that deletes its shards was begun for this output and has not ended.
    Unfinished {
        /// The output.
        path: PathBuf,
        /// Its journal.
        journal: PathBuf,
    },
    /// The journal of an unfinished merge cannot be followed.
    Journal {
        /// The journal, or the shard that does not fit it.
        path: PathBuf,
        /// Why.
        cause: JournalFault,
    },
    /// A shard's bytes in the output are not those of the shard.
    Differs {
        /// The shard.
        shard: PathBuf,
        /// The output under its temporary or final name.
        output: PathBuf,
        /// The first byte of the output that differs.
        at: u64,
    },
}

/// Why a journal cannot be followed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum JournalFault {
    /// It does not read as one.
    Malformed,
    /// It belongs to another set of shards than the one that was named.
    OtherSet {
        /// The first shard of its set.
        first: String,
    },
    /// The merge was begun with, or without, `--keep-split-keys`.
    OtherOptions {
        /// Whether it was begun with it.
        keep_split_keys: bool,
    },
    /// The bytes of a shard that has been deleted are no longer in the output.
    Damaged {
        /// The shard.
        shard: String,
        /// The file that held them.
        output: PathBuf,
    },
    /// What has been written is gone.
    Gone {
        /// The file.
        output: PathBuf,
    },
    /// This shard, which is still to be merged, is not the one that was there at the beginning.
    ShardChanged,
}

impl Error {
    pub(crate) fn read(path: impl Into<PathBuf>, source: io::Error) -> Self {
        let path = path.into();
        Self::File(smidgen_io::Error::Read { path, source })
    }

    pub(crate) fn write(path: impl Into<PathBuf>, source: io::Error) -> Self {
        let path = path.into();
        match source.kind() {
            io::ErrorKind::WouldBlock => Self::Busy { path },
            io::ErrorKind::AlreadyExists => Self::File(smidgen_io::Error::Exists { path }),
            _ => Self::File(smidgen_io::Error::Write { path, source }),
        }
    }

    /// The fault of a copy: only the source ends early.
    pub(crate) fn copy(
        from: impl Into<PathBuf>,
        to: impl Into<PathBuf>,
        source: io::Error,
    ) -> Self {
        if source.kind() == io::ErrorKind::UnexpectedEof {
            Self::read(from, source)
        } else {
            Self::write(to, source)
        }
    }

    pub(crate) fn journal(path: impl Into<PathBuf>, cause: JournalFault) -> Self {
        let path = path.into();
        Self::Journal { path, cause }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(error) => error.fmt(f),
            Self::Set(faults) => {
                if let Some(first) = faults.first() {
                    first.fmt(f)?;
                }
                match faults.len() {
                    0 | 1 => Ok(()),
                    2 => write!(f, " (and 1 more fault)"),
                    n => write!(f, " (and {} more faults)", n - 1),
                }
            }
            Self::Folder { path, sets } if sets.is_empty() => write!(
                f,
                "{}: no shard in this folder: their names are PREFIX-00001-of-00003.gguf",
                path.display()
            ),
            Self::Folder { path, sets } => write!(
                f,
                "{}: more than one set in this folder, name a first shard: {}",
                path.display(),
                sets.join(", ")
            ),
            Self::IsShard { path, count } => write!(
                f,
                "{}: is one of {count} shards (split.count), merge them first",
                path.display()
            ),
            Self::NoTensors { path } => {
                write!(f, "{}: no tensors, nothing to split", path.display())
            }
            Self::TooManyShards { count } => write!(
                f,
                "{count} shards, at most 65535 can be numbered: choose a larger limit"
            ),
            Self::TooLarge { path } => write!(f, "{}: would be too large", path.display()),
            Self::Prefix { path } => write!(
                f,
                "{}: shards cannot be named after this, it is no file name in UTF-8",
                path.display()
            ),
            Self::ShardExists { path } => write!(
                f,
                "{} exists; remove the old set or choose another prefix",
                path.display()
            ),
            Self::SameFile { path } => {
                write!(f, "{}: is both input and output", path.display())
            }
            Self::Stream => write!(f, "-: only files can be split and merged, no streams"),
            Self::Busy { path } => {
                write!(f, "{}: another process is writing it", path.display())
            }
            Self::LinkedShard { path } => write!(
                f,
                "{}: is a symbolic link, deleting it would free nothing; merge without \
                 --delete-splits",
                path.display()
            ),
            Self::Unfinished { path, journal } => write!(
                f,
                "{}: an unfinished merge with --delete-splits is here ({}); run it again to end it",
                path.display(),
                journal.display()
            ),
            Self::Journal { path, cause } => write!(f, "{}: {cause}", path.display()),
            Self::Differs { shard, output, at } => write!(
                f,
                "{}: byte {at} is not what {} has; the shard is kept",
                output.display(),
                shard.display()
            ),
        }
    }
}

impl fmt::Display for JournalFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed => write!(f, "does not read as the journal of a merge"),
            Self::OtherSet { first } => {
                write!(f, "belongs to a merge of another set, {first}")
            }
            Self::OtherOptions {
                keep_split_keys: true,
            } => write!(f, "the merge was begun with --keep-split-keys"),
            Self::OtherOptions {
                keep_split_keys: false,
            } => write!(f, "the merge was begun without --keep-split-keys"),
            Self::Damaged { shard, output } => write!(
                f,
                "{} no longer holds the bytes of {shard}, which has been deleted",
                output.display()
            ),
            Self::Gone { output } => write!(
                f,
                "{}, which held what has been merged, is gone",
                output.display()
            ),
            Self::ShardChanged => {
                write!(f, "is not the shard that was there when the merge began")
            }
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::File(error) => error.source(),
            _ => None,
        }
    }
}

impl std::error::Error for JournalFault {}

impl From<smidgen_io::Error> for Error {
    fn from(error: smidgen_io::Error) -> Self {
        Self::File(error)
    }
}
