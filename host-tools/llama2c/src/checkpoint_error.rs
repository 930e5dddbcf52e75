//! What can be wrong with a checkpoint.

use std::fmt;

use crate::{ConfigError, Format};

/// Why bytes are no checkpoint that can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CheckpointError {
    /// The file ends inside the header.
    Header {
        /// Bytes of the header.
        needed: u64,
        /// Bytes of the file.
        found: u64,
    },
    /// A file of another format.
    Foreign {
        /// Which.
        format: Format,
    },
    /// The file begins with the letters `ak42`, which little-endian files store as `24ka`.
    SwappedMagic,
    /// `ak42` with a version other than 1 and 2.
    Version {
        /// The version found.
        found: i32,
    },
    /// A legacy header that makes sense with the bytes of its numbers swapped.
    BigEndian {
        /// What is wrong with it as it stands.
        source: ConfigError,
    },
    /// Hyperparameters that make no model.
    Config {
        /// Which, and why.
        source: ConfigError,
    },
    /// The byte that tells a shared classifier is neither 0 nor 1.
    SharedFlag {
        /// The byte found.
        found: u8,
    },
    /// The group size of version 2 is not positive or does not divide `dim`.
    GroupSize {
        /// The group size found.
        found: i32,
        /// Length of the residual stream.
        dim: u32,
    },
    /// The file has more or fewer bytes than its header asks for.
    Length {
        /// Bytes of the file.
        found: u64,
        /// Bytes by the header.
        expected: u128,
        /// Which mistake would explain it.
        cause: LengthCause,
    },
}

/// Which mistake would explain a length that is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LengthCause {
    /// Too short, and by no number that says more.
    CutShort,
    /// Too long, and by no number that says more.
    TrailingBytes,
    /// Too long by a classifier, where the header says that it is shared.
    ClassifierPresent {
        /// Whether the sign of `vocab_size` says so, else a flag does.
        legacy: bool,
    },
    /// Too short by a classifier, where the header says that there is one.
    ClassifierMissing,
    /// Too short by the tables of RoPE, which only the legacy version has.
    RopeTablesMissing,
    /// The length that another version has with the same hyperparameters.
    OtherVersion {
        /// The number of that version.
        number: u32,
    },
}

impl fmt::Display for CheckpointError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header { needed, found } => write!(
                f,
                "the file ends inside the header: {found} bytes of {needed}; it is cut short or \
                 no llama2.c checkpoint"
            ),
            Self::Foreign { format } => {
                write!(f, "not a llama2.c checkpoint: this is {format}")
            }
            Self::SwappedMagic => write!(
                f,
                "bad magic: the file begins with `ak42`, a little-endian checkpoint with `24ka`"
            ),
            Self::Version { found } => write!(
                f,
                "checkpoint version {found} is not known; there are 0 (legacy), 1 and 2"
            ),
            Self::BigEndian { source } => write!(
                f,
                "the header makes sense only as big-endian, which no tool reads ({source})"
            ),
            Self::Config { source } => write!(f, "the header makes no model: {source}"),
            Self::SharedFlag { found } => write!(
                f,
                "the flag of the shared classifier is {found}, it must be 0 or 1"
            ),
            Self::GroupSize { found, dim } if *found <= 0 => {
                write!(f, "group size {found} must be positive (dim is {dim})")
            }
            Self::GroupSize { found, dim } => {
                write!(f, "group size {found} does not divide dim {dim}")
            }
            Self::Length {
                found,
                expected,
                cause,
            } => write!(
                f,
                "the file has {found} bytes where its header asks for {expected}: {cause}"
            ),
        }
    }
}

impl fmt::Display for LengthCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CutShort => write!(f, "cut short, perhaps by a download that did not end"),
            Self::TrailingBytes => write!(f, "trailing bytes that belong to no tensor"),
            Self::ClassifierPresent { legacy: true } => write!(
                f,
                "the trailing bytes are those of a separate classifier, so vocab_size has lost its \
                 minus sign"
            ),
            Self::ClassifierPresent { legacy: false } => write!(
                f,
                "the trailing bytes are those of a separate classifier, so the flag of the shared \
                 one is wrong"
            ),
            Self::ClassifierMissing => write!(
                f,
                "cut short by just the separate classifier that the header announces"
            ),
            Self::RopeTablesMissing => write!(
                f,
                "cut short by just the tables freq_cis_real and freq_cis_imag of a legacy file"
            ),
            Self::OtherVersion { number } => {
                write!(f, "that is the length of version {number}")
            }
        }
    }
}

impl std::error::Error for CheckpointError {}

impl From<ConfigError> for CheckpointError {
    fn from(source: ConfigError) -> Self {
        Self::Config { source }
    }
}
