//! What is wrong with a set of shards.

use std::{fmt, path::PathBuf};

use smidgen_core::gguf::KeyError;

/// One thing that is wrong with a set, and the file it is wrong in.
#[derive(Debug)]
pub struct Fault {
    /// The file.
    pub path: PathBuf,
    /// What is wrong.
    pub kind: FaultKind,
}

/// The kinds of fault.
#[derive(Debug)]
#[non_exhaustive]
pub enum FaultKind {
    /// Its name is no shard's.
    Name,
    /// It is a shard, but not the first.
    NotFirst {
        /// Which it is, from 1.
        number: u32,
        /// The first shard's name.
        first: PathBuf,
    },
    /// It is not there.
    Missing {
        /// How many of the shards after it are not there either, one after the other.
        and_more: u32,
    },
    /// It cannot be read, or is no valid GGUF.
    File(smidgen_io::Error),
    /// A `split.*` key is missing or has a value of a wrong type.
    Key(KeyError<'static>),
    /// `split.no`, counted from 0, is not what the file's name says.
    Number {
        /// The value found.
        found: u64,
        /// The number in the name, from 0.
        expected: u64,
    },
    /// `split.count` is not what the file's name says.
    Count {
        /// The value found.
        found: u64,
        /// The count in the name.
        expected: u64,
    },
    /// `split.tensors.count` is not what the first shard says.
    Total {
        /// The value found.
        found: u64,
        /// The first shard's.
        expected: u64,
    },
    /// All shards together have more or fewer tensors than `split.tensors.count` says.
    TensorCount {
        /// Tensors in all shards.
        found: u64,
        /// `split.tensors.count`.
        expected: u64,
    },
    /// A tensor is in the set twice.
    DuplicateTensor {
        /// Its name.
        name: String,
        /// The file that has it first.
        first: PathBuf,
    },
    /// A shard other than the first has metadata that the first has not, or has otherwise: it
    /// belongs to another set, or would be lost in a merge.
    Metadata {
        /// The key.
        key: String,
    },
}

impl FaultKind {
    /// A word for programs, which stays when the sentence is worded anew.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Name => "shard_name",
            Self::NotFirst { .. } | Self::Number { .. } => "shard_no",
            Self::Missing { .. } => "shard_missing",
            Self::File(_) => "shard_file",
            Self::Key(_) => "shard_key",
            Self::Count { .. } => "shard_count",
            Self::Total { .. } | Self::TensorCount { .. } => "shard_total",
            Self::DuplicateTensor { .. } => "duplicate_tensor",
            Self::Metadata { .. } => "shard_metadata",
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.kind)
    }
}

impl std::error::Error for Fault {}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // The path stands before it already.
            Self::File(smidgen_io::Error::Gguf { source, .. }) => source.fmt(f),
            Self::File(smidgen_io::Error::Read { source, .. }) => {
                write!(f, "cannot be read: {source}")
            }
            Self::File(error) => error.fmt(f),
            Self::Name => write!(
                f,
                "is no shard's name, as PREFIX-00001-of-00003.gguf (five digits, from 00001)"
            ),
            Self::NotFirst { number, first } => write!(
                f,
                "is shard {number}, name the first one: {}",
                first.display()
            ),
            Self::Missing { and_more: 0 } => write!(f, "this shard is missing"),
            Self::Missing { and_more } => {
                write!(f, "this shard and the {and_more} after it are missing")
            }
            Self::Key(error) => error.fmt(f),
            Self::Number { found, expected } => {
                write!(
                    f,
                    "split.no is {found}, by the file's name it is {expected}"
                )
            }
            Self::Count { found: 0, .. } => {
                write!(f, "split.count is 0: a whole model, no shard")
            }
            Self::Count { found, expected } => write!(
                f,
                "split.count is {found}, by the file's name it is {expected}"
            ),
            Self::Total { found, expected } => write!(
                f,
                "split.tensors.count is {found}, in the first shard it is {expected}"
            ),
            Self::TensorCount { found, expected } => write!(
                f,
                "the shards have {found} tensors, split.tensors.count is {expected}"
            ),
            Self::DuplicateTensor { name, first } => {
                let name = name.escape_debug();
                write!(f, "tensor {name} is in {} too", first.display())
            }
            Self::Metadata { key } => write!(
                f,
                "metadata key {} is not that of the first shard: from another set",
                key.escape_debug()
            ),
        }
    }
}
