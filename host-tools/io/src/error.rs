//! What can go wrong with files, with the file's path in it.

use std::{fmt, io, path::PathBuf};

use smidgen_core::gguf;

/// A failure with the file it concerns.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be opened or read.
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file's bytes are no valid GGUF.
    Gguf {
        /// The file.
        path: PathBuf,
        /// What is wrong, and where.
        source: gguf::Error,
    },
    /// The output exists and overwriting was not asked for.
    Exists {
        /// The output.
        path: PathBuf,
    },
    /// The output is there and no regular file: a folder, a device.
    NotAFile {
        /// The output.
        path: PathBuf,
    },
    /// The output cannot be created, written, or given its name.
    Write {
        /// The output.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// What was to be written makes no valid GGUF.
    Build {
        /// Why.
        source: BuildError,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read { path, .. } => write!(f, "cannot read {}", path.display()),
            Self::Gguf { path, .. } => write!(f, "{}", path.display()),
            Self::Exists { path } => {
                write!(f, "{} exists; --force overwrites it", path.display())
            }
            Self::NotAFile { path } => {
                write!(f, "{} is no regular file", path.display())
            }
            Self::Write { path, .. } => write!(f, "cannot write {}", path.display()),
            Self::Build { source } => source.fmt(f),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Read { source, .. } | Self::Write { source, .. } => Some(source),
            Self::Gguf { source, .. } => Some(source),
            Self::Exists { .. } | Self::NotAFile { .. } | Self::Build { .. } => None,
        }
    }
}

/// Why a set of entries and tensors makes no valid GGUF.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BuildError {
    /// A tensor of this name is there already.
    DuplicateTensor {
        /// The name.
        name: String,
    },
    /// More than four dimensions, a row that is no whole number of blocks, an unknown type, or a
    /// size that overflows.
    Shape {
        /// The tensor.
        name: String,
    },
    /// A tensor's bytes are not as many as its type and shape ask for.
    DataLength {
        /// The tensor.
        name: String,
        /// Bytes by type and shape.
        expected: u64,
        /// Bytes given.
        found: u64,
    },
    /// `general.alignment` is no `u32` that is a power of two up to 2^30.
    Alignment,
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DuplicateTensor { name } => write!(f, "tensor {name} is there twice"),
            Self::Shape { name } => {
                write!(f, "tensor {name}: its type and shape do not fit together")
            }
            Self::DataLength {
                name,
                expected,
                found,
            } => write!(
                f,
                "tensor {name} takes {expected} bytes, {found} were given"
            ),
            Self::Alignment => write!(f, "general.alignment must be a u32 power of two"),
        }
    }
}

impl std::error::Error for BuildError {}

impl From<BuildError> for Error {
    fn from(source: BuildError) -> Self {
        Self::Build { source }
    }
}
