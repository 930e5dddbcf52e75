//! Why a GGUF file is no model that can be run.

use super::Name;
use crate::built_in;
use crate::gguf::{GgmlType, KeyError};
use crate::message::{Message, display_message};

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

impl ModelError {
    fn describe<'m>(&'m self, message: &mut Message<'m>) {
        match self {
            Self::Key(error) => {
                error.describe(message);
                message
            }
            Self::Architecture { found } => message
                .say("architecture $ is not supported, llama is")
                .words([found.as_str()]),
            Self::Unsupported { key, expected } => message
                .say("metadata key $ must be $")
                .words([key, expected]),
            Self::Contradiction { what } => message.say(what),
            Self::MissingTensor {
                layer: Some(layer),
                name,
            } => message
                .say("tensor blk.#.$ is missing")
                .numbers([(*layer).into()])
                .words([name]),
            Self::MissingTensor { layer: None, name } => {
                message.say("tensor $ is missing").words([name])
            }
            Self::UnexpectedTensor { name } => message
                .say("tensor $ has no place in a llama model: it would be ignored")
                .words([name.as_str()]),
            Self::TensorShape {
                name,
                expected: [cols, rows],
                found: [found_cols, found_rows],
            } => message
                .say("tensor $ has shape # x #, the hyperparameters say # x #")
                .words([name.as_str()])
                .numbers([*found_cols, *found_rows, *cols, *rows]),
            Self::TensorType { name, found } => message
                .say("tensor $ has type $, which cannot be run")
                .words([name.as_str(), found.name().unwrap_or_default()]),
            Self::NotBuiltIn { name, found } => message
                .say(
                    "tensor $ has type $, which is not built in: SMIDGEN_TYPES was $ when the \
                     program was compiled",
                )
                .words([
                    name.as_str(),
                    found.name().unwrap_or_default(),
                    built_in::TYPES.unwrap_or_default(),
                ]),
            Self::DuplicateTensor { name } => message
                .say("tensor $ is in two files")
                .words([name.as_str()]),
            Self::LayersTooSmall { needed, given } => message
                .say("the model has # layers, room was given for #")
                .sizes([*needed, *given]),
            Self::TooLarge => message.say("the model is larger than this target can address"),
        };
    }
}

display_message!(ModelError);
