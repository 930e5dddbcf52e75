//! Why a file was not changed.

use std::fmt;

use smidgen_core::gguf::WriteError;

/// Why a file was not changed. Nothing is written then.
#[derive(Debug)]
#[non_exhaustive]
pub enum EditError {
    /// Reading, writing, or a file that is no valid GGUF.
    Io(smidgen_io::Error),
    /// There is no such key.
    NoKey {
        /// The key, or the pattern that fits none.
        key: String,
    },
    /// The key is there already.
    KeyExists {
        /// The key.
        key: String,
    },
    /// A key that the format does not allow: empty, longer than 65,535 bytes, with a NUL.
    BadKey {
        /// The key.
        key: String,
    },
    /// There is no such tensor.
    NoTensor {
        /// The name, or the pattern that fits none.
        pattern: String,
    },
    /// Two tensors would have the same name.
    TensorExists {
        /// The name.
        name: String,
    },
    /// A name that the format does not allow: empty, longer than 63 bytes, with a NUL.
    BadName {
        /// The name.
        name: String,
    },
    /// A pattern, a replacement or a type that cannot be understood.
    Syntax {
        /// What is wrong with it.
        message: String,
    },
    /// A key that nothing is known about is set without a type.
    NoType {
        /// The key.
        key: String,
    },
    /// `general.alignment` is no `u32` that is a power of two up to 2^30.
    Alignment,
    /// The change would make a valid file wrong, or a model that runs one that does not.
    Worse {
        /// What would be wrong.
        faults: Vec<String>,
    },
    /// The change is none that can be made in place: something would have to move.
    NotInPlace {
        /// Bytes of the file's head, up to the tensor data's padding.
        before: u64,
        /// Bytes that it would take.
        after: u64,
    },
    /// The file is one of several, whose number of tensors would be wrong then.
    Shard,
}

impl fmt::Display for EditError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::NoKey { key } => write!(f, "no key {key}"),
            Self::KeyExists { key } => write!(f, "key {key} is there already"),
            Self::BadKey { key } => write!(
                f,
                "`{key}` can be no key: 1 to 65535 bytes without NUL are allowed"
            ),
            Self::NoTensor { pattern } => write!(f, "no tensor {pattern}"),
            Self::TensorExists { name } => write!(f, "two tensors would be called {name}"),
            Self::BadName { name } => write!(
                f,
                "`{name}` can be no tensor's name: 1 to 63 bytes without NUL are allowed"
            ),
            Self::Syntax { message } => f.write_str(message),
            Self::NoType { key } => write!(f, "the type of the new key {key} is not known"),
            Self::Alignment => write!(f, "general.alignment must be a u32 power of two"),
            Self::Worse { faults } => write!(f, "refused: {}", faults.join("; ")),
            Self::NotInPlace { before, after } => write!(
                f,
                "cannot be patched in place: the metadata take {after} bytes, {before} are there"
            ),
            Self::Shard => write!(f, "a shard's tensors are counted in the whole set"),
        }
    }
}

impl std::error::Error for EditError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(error) => error.source(),
            _ => None,
        }
    }
}

impl From<smidgen_io::Error> for EditError {
    fn from(error: smidgen_io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<WriteError<std::convert::Infallible>> for EditError {
    /// The counts are right and the sink cannot fail; what is left is the alignment.
    fn from(_: WriteError<std::convert::Infallible>) -> Self {
        Self::Alignment
    }
}
