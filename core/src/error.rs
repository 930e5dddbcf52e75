//! All errors of the way from bytes to text in one.

use core::fmt;

use crate::gguf::{self, KeyError};
use crate::model::ModelError;
use crate::sampler::{SampleError, SettingsError};
use crate::session::{GenerateError, SessionError};
use crate::tokenizer::{EncodeError, NoSuchToken, VocabularyError};

macro_rules! errors {
    ($($(#[$doc:meta])* $name:ident($error:ty),)*) => {
        /// Any error on the way from bytes to text, so that one function can go all of it with `?`.
        #[derive(Clone, Copy, Debug, PartialEq)]
        #[cfg_attr(feature = "defmt", derive(defmt::Format))]
        #[non_exhaustive]
        pub enum Error {
            $($(#[$doc])* $name($error),)*
        }

        $(impl From<$error> for Error {
            fn from(error: $error) -> Self {
                Self::$name(error)
            }
        })*

        impl fmt::Display for Error {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(Self::$name(error) => error.fmt(f),)*
                }
            }
        }
    };
}

errors! {
    /// The bytes are no GGUF file.
    Gguf(gguf::Error),
    /// A metadata key is missing, or its value is not what was asked for.
    Key(KeyError<'static>),
    /// The file holds no model that can be run.
    Model(ModelError),
    /// It holds no vocabulary that can be used.
    Vocabulary(VocabularyError),
    /// A text cannot be encoded.
    Encode(EncodeError),
    /// A token is not in the vocabulary.
    Token(NoSuchToken),
    /// Settings of a sampler make no sense.
    Settings(SettingsError),
    /// No token can be chosen.
    Sample(SampleError),
    /// A session cannot be made or go on.
    Session(SessionError),
    /// No text can be generated.
    Generate(GenerateError),
}

impl core::error::Error for Error {}
