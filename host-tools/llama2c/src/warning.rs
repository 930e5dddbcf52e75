//! What is odd, though it can be used.

use std::fmt;

/// What is odd about a vocabulary or a conversion, though it can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Warning {
    /// One of the first three tokens had a text of its own.
    Replaced {
        /// The token.
        id: usize,
        /// Its text.
        text: Vec<u8>,
        /// The text that it has now.
        by: &'static str,
    },
    /// Texts that are not UTF-8, kept as they are.
    NotUtf8 {
        /// How many.
        count: usize,
    },
    /// Texts that several tokens have; the lowest id is the one that is found.
    Repeated {
        /// How many tokens repeat another.
        count: usize,
        /// A token.
        first: u32,
        /// The one that repeats it.
        second: u32,
    },
    /// More positions than the model was trained on.
    Context {
        /// Positions asked for.
        context: u32,
        /// Positions of the training.
        seq_len: u32,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Replaced { id, text, by } => write!(
                f,
                "token {id} was `{}`, it becomes {by}",
                text.escape_ascii()
            ),
            Self::NotUtf8 { count: 1 } => {
                write!(f, "the text of 1 token is not UTF-8; it is kept as it is")
            }
            Self::NotUtf8 { count } => write!(
                f,
                "the texts of {count} tokens are not UTF-8; they are kept as they are"
            ),
            Self::Repeated {
                count,
                first,
                second,
            } => {
                write!(f, "token {second} repeats the text of token {first}")?;
                if *count > 1 {
                    write!(f, ", and {} more do the like", count - 1)?;
                }
                write!(f, "; the lowest id is the one that is found")
            }
            Self::Context { context, seq_len } => write!(
                f,
                "the context of {context} is more than the {seq_len} positions of the training"
            ),
        }
    }
}
