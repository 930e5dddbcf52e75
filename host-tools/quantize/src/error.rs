//! Why a model was not quantized.

use std::{fmt, io};

use smidgen_core::gguf::GgmlType;
use smidgen_io::BuildError;

/// A number that cannot be stored, or that no model works with.
#[derive(Clone, Debug, PartialEq)]
pub struct NumberError {
    /// The tensor.
    pub tensor: String,
    /// The element, counted through all rows of the input.
    pub index: u64,
    /// Its value.
    pub value: f32,
    /// The type that it was to be stored in.
    pub ty: GgmlType,
}

impl fmt::Display for NumberError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            tensor,
            index,
            value,
            ty,
        } = self;
        write!(f, "{tensor}: element {index} is {value}, ")?;
        if value.is_finite() {
            write!(f, "which is too large for {ty}")
        } else {
            write!(f, "with which no model works")
        }
    }
}

impl std::error::Error for NumberError {}

/// Why there is no quantized model.
#[derive(Debug)]
#[non_exhaustive]
pub enum QuantizeError {
    /// A tensor is quantized already, and that it may be again was not said.
    Requantize {
        /// The tensor.
        tensor: String,
        /// Its type.
        ty: GgmlType,
    },
    /// A tensor's numbers cannot be read, since its type has no decoder, or not be written.
    Unsupported {
        /// The tensor.
        tensor: String,
        /// The type.
        ty: GgmlType,
    },
    /// A tensor cannot have the type that it should, and another was not allowed.
    Fallback {
        /// The tensor.
        tensor: String,
        /// Elements of a row.
        row_len: u64,
        /// The type that it should have.
        wanted: GgmlType,
        /// The type that it would get.
        instead: GgmlType,
    },
    /// A number cannot be stored.
    Number {
        /// Which, and why.
        source: NumberError,
    },
    /// The feed-forward network cannot be padded.
    Padding {
        /// Why.
        cause: &'static str,
    },
    /// No file was given.
    NoInput,
    /// The tensors do not make a GGUF.
    Build {
        /// Why.
        source: BuildError,
    },
    /// The file cannot be written.
    File {
        /// Why.
        source: smidgen_io::Error,
    },
    /// The sink failed, or threads could not be started.
    Io {
        /// Why.
        source: io::Error,
    },
}

impl fmt::Display for QuantizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Requantize { tensor, ty } => write!(f, "{tensor} is quantized already ({ty})"),
            Self::Unsupported { tensor, ty } => write!(f, "{tensor}: no codec for type {ty}"),
            Self::Fallback {
                tensor,
                row_len,
                wanted,
                instead,
            } => write!(
                f,
                "{tensor}: rows of {row_len} are no whole blocks of {wanted}; it would become \
                 {instead}"
            ),
            Self::Number { source } => source.fmt(f),
            Self::Padding { cause } => write!(f, "the feed-forward network is not padded: {cause}"),
            Self::NoInput => write!(f, "no file was given"),
            Self::Build { source } => source.fmt(f),
            Self::File { source } => source.fmt(f),
            Self::Io { .. } => write!(f, "cannot write the GGUF"),
        }
    }
}

impl std::error::Error for QuantizeError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::File { source } => source.source(),
            Self::Io { source } => Some(source),
            _ => None,
        }
    }
}

impl From<BuildError> for QuantizeError {
    fn from(source: BuildError) -> Self {
        Self::Build { source }
    }
}

impl From<io::Error> for QuantizeError {
    fn from(error: io::Error) -> Self {
        match error.downcast() {
            Ok(source) => Self::Number { source },
            Err(source) => Self::Io { source },
        }
    }
}

impl From<smidgen_io::Error> for QuantizeError {
    fn from(error: smidgen_io::Error) -> Self {
        match error {
            smidgen_io::Error::Write { path, source } => match source.downcast() {
                Ok(source) => Self::Number { source },
                Err(source) => Self::File {
                    source: smidgen_io::Error::Write { path, source },
                },
            },
            source => Self::File { source },
        }
    }
}
