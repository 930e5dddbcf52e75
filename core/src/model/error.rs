//! Why a GGUF file is no model that can be run.

use super::Name;
use crate::built_in;
use crate::gguf::{GgmlType, KeyError};

/// Why a GGUF file is no model that can be run.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum ModelError {
    /// A key is missing or has another type than it should.
    Key(KeyError<'static>),
    /// Another architecture than `llama`.
    Architecture {
        /// The architecture found.
        found: Name,
    },
    /// A key asks for something that is not supported, or for something impossible.
    Unsupported {
        /// The key.
        key: &'static str,
        /// What it should be.
        expected: &'static str,
    },
    /// Two hyperparameters contradict each other.
    Contradiction {
        /// In words.
        what: &'static str,
    },
    /// A tensor is missing.
    MissingTensor {
        /// The layer that it belongs to, if to one.
        layer: Option<u32>,
        /// Its name, without `blk.N.`.
        name: &'static str,
    },
    /// A tensor that this architecture does not have: the model is not what it says.
    UnexpectedTensor {
        /// Its name.
        name: Name,
    },
    /// A tensor has another shape than the hyperparameters say.
    TensorShape {
        /// Its name.
        name: Name,
        /// Row length and rows by the hyperparameters.
        expected: [u64; 2],
        /// Row length and rows found.
        found: [u64; 2],
    },
    /// A tensor has a type that cannot be used in its place.
    TensorType {
        /// Its name.
        name: Name,
        /// The type found.
        found: GgmlType,
    },
    /// A tensor has a type that is not [built in](crate::built_in).
    NotBuiltIn {
        /// Its name.
        name: Name,
        /// The type found.
        found: GgmlType,
    },
    /// A tensor is in two of the files.
    DuplicateTensor {
        /// Its name.
        name: Name,
    },
    /// The buffer for layers is too small.
    LayersTooSmall {
        /// Layers of the model.
        needed: usize,
        /// Layers that were given.
        given: usize,
    },
    /// The model is larger than this target can address.
    TooLarge,
}

impl From<KeyError<'static>> for ModelError {
    fn from(error: KeyError<'static>) -> Self {
        Self::Key(error)
    }
}

impl core::fmt::Display for ModelError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match *self {
            Self::Key(error) => error.fmt(f),
            Self::Architecture { found } => {
                write!(f, "architecture {found} is not supported, llama is")
            }
            Self::Unsupported { key, expected } => {
                write!(f, "metadata key {key} must be {expected}")
            }
            Self::Contradiction { what } => f.write_str(what),
            Self::MissingTensor {
                layer: Some(layer),
                name,
            } => write!(f, "tensor blk.{layer}.{name} is missing"),
            Self::MissingTensor { layer: None, name } => write!(f, "tensor {name} is missing"),
            Self::UnexpectedTensor { name } => write!(
                f,
                "tensor {name} has no place in a llama model: it would be ignored"
            ),
            Self::TensorShape {
                name,
                expected,
                found,
            } => write!(
                f,
                "tensor {name} has shape {} x {}, the hyperparameters say {} x {}",
                found[0], found[1], expected[0], expected[1]
            ),
            Self::TensorType { name, found } => {
                write!(f, "tensor {name} has type {found}, which cannot be run")
            }
            Self::NotBuiltIn { name, found } => write!(
                f,
                "tensor {name} has type {found}, which is not built in: SMIDGEN_TYPES was {} when \
                 the program was compiled",
                built_in::TYPES.unwrap_or_default()
            ),
            Self::DuplicateTensor { name } => write!(f, "tensor {name} is in two files"),
            Self::LayersTooSmall { needed, given } => {
                write!(
                    f,
                    "the model has {needed} layers, room was given for {given}"
                )
            }
            Self::TooLarge => write!(f, "the model is larger than this target can address"),
        }
    }
}

impl core::error::Error for ModelError {}
