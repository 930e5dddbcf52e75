//! Why a program could not do what it was asked to.

use core::fmt;

use smidgen_core::gguf;
use smidgen_core::kernels::SelfTestError;
use smidgen_core::model::ModelError;
use smidgen_core::sampler::{SampleError, SettingsError};
use smidgen_core::session::{GenerateError, SessionError};
use smidgen_core::tokenizer::VocabularyError;

use static_cell::StaticCell;

use crate::{ModelFault, RequestError};

macro_rules! failures {
    ($($(#[$doc:meta])* $name:ident($error:ty),)*) => {
        /// Why a program could not do what it was asked to.
        #[derive(Clone, Copy, Debug)]
        #[cfg_attr(feature = "rtt", derive(defmt::Format))]
        #[non_exhaustive]
        pub enum Failure {
            $($(#[$doc])* $name($error),)*
            /// The command line is not UTF-8.
            CommandLine,
        }

        $(impl From<$error> for &'static Failure {
            #[inline(never)] // Not in every frame on the way: boards have little stack.
            fn from(error: $error) -> Self {
                Failure::$name(error).keep()
            }
        })*

        impl fmt::Display for Failure {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(Self::$name(error) => error.fmt(f),)*
                    Self::CommandLine => f.write_str("the command line is not UTF-8"),
                }
            }
        }
    };
}

impl Failure {
    /// In a place of its own, so that what can fail answers with a pointer: a program fails once.
    pub(crate) fn keep(self) -> &'static Self {
        static FAILURE: StaticCell<Failure> = StaticCell::new();
        static ANOTHER: Failure = Failure::CommandLine;
        FAILURE.try_init(self).map_or(&ANOTHER, |failure| failure)
    }
}

failures! {
    /// The bytes where the model should be are not those that were linked.
    Bytes(ModelFault),
    /// The bytes are no GGUF file.
    Gguf(gguf::Error),
    /// They hold no model that can be run.
    Model(ModelError),
    /// They hold no vocabulary that can be used.
    Vocabulary(VocabularyError),
    /// The session cannot be made or go on.
    Session(SessionError),
    /// No text can be generated.
    Generate(GenerateError),
    /// The settings make no sense.
    Settings(SettingsError),
    /// No token can be chosen.
    Sample(SampleError),
    /// A back end gives other bits than the scalar one.
    Kernels(SelfTestError),
    /// The command line is not understood.
    Request(RequestError<'static>),
}
