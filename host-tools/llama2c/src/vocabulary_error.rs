//! What can be wrong with a vocabulary.

use std::fmt;

use smidgen_core::gguf;

use crate::Format;

/// Why bytes are no vocabulary for a model.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum VocabularyError {
    /// A file of another format.
    Foreign {
        /// Which.
        format: Format,
    },
    /// A `tokenizer.bin` that ends before its first token.
    NoTokens {
        /// Bytes of the file.
        found: usize,
    },
    /// A `tokenizer.bin` that ends inside the score or the length of a token.
    CutShort {
        /// The token.
        id: usize,
    },
    /// A text whose length is negative or greater than what is left of the file.
    TextLength {
        /// The token.
        id: usize,
        /// The length found.
        len: i32,
        /// Bytes that are left.
        left: usize,
    },
    /// A score that is not a number.
    Score {
        /// The token.
        id: usize,
    },
    /// Another number of tokens than the model has.
    Size {
        /// Tokens of the vocabulary.
        found: usize,
        /// Tokens of the model.
        expected: u32,
    },
    /// Fewer tokens than the three that every vocabulary has.
    TooFew {
        /// Tokens of the vocabulary.
        found: usize,
    },
    /// Texts of more than 4 GiB.
    TooLarge,
    /// The bytes of a GGUF are wrong.
    Gguf {
        /// What, and where.
        source: gguf::Error,
    },
    /// A GGUF without an entry that is needed.
    Missing {
        /// The key.
        key: &'static str,
    },
    /// A GGUF with an entry of the wrong type.
    Key {
        /// Which, and what is wrong with it.
        message: String,
    },
    /// A GGUF with a tokenizer of another kind.
    Model {
        /// Its `tokenizer.ggml.model`.
        found: String,
    },
    /// An array of another length than that of the tokens.
    ArrayLength {
        /// The key.
        key: &'static str,
        /// Its elements.
        found: usize,
        /// Tokens.
        expected: usize,
    },
    /// A token type that llama.cpp does not define.
    TokenType {
        /// The token.
        id: usize,
        /// Its type.
        found: i32,
    },
    /// The id of a special token that is no token.
    TokenId {
        /// The key.
        key: String,
        /// Its value.
        found: u32,
        /// Tokens of the model.
        vocab_size: u32,
    },
}

impl fmt::Display for VocabularyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Foreign { format } => {
                write!(f, "neither a tokenizer.bin nor a GGUF: this is {format}")
            }
            Self::NoTokens { found } => write!(
                f,
                "the file ends before its first token, after {found} bytes; it is cut short"
            ),
            Self::CutShort { id } => {
                write!(f, "the file ends inside token {id}; it is cut short")
            }
            Self::TextLength { id, len, left } if *len < 0 => write!(
                f,
                "the length of token {id} is {len} ({left} bytes are left): no tokenizer.bin, or a \
                 damaged one"
            ),
            Self::TextLength { id, len, left } => write!(
                f,
                "the length of token {id} is {len}, but the file ends after {left} bytes more: it \
                 is cut short, or no tokenizer.bin"
            ),
            Self::Score { id } => write!(f, "the score of token {id} is NaN"),
            Self::Size { found, expected } => {
                write!(
                    f,
                    "the vocabulary has {found} tokens, the model has {expected}"
                )?;
                match (found, expected) {
                    (32_000, 512) => write!(f, "; stories260K needs tok512.bin"),
                    (512, 32_000) => write!(
                        f,
                        "; tok512.bin belongs to stories260K, a model of 32000 tokens needs \
                         llama2.c's tokenizer.bin"
                    ),
                    _ => Ok(()),
                }
            }
            Self::TooFew { found } => write!(
                f,
                "the vocabulary has {found} tokens, it needs <unk>, <s> and </s> at least"
            ),
            Self::TooLarge => write!(f, "the texts of the tokens have more than 4 GiB"),
            Self::Gguf { source } => source.fmt(f),
            Self::Missing { key } => write!(f, "the GGUF has no {key}"),
            Self::Key { message } => f.write_str(message),
            Self::Model { found } => write!(
                f,
                "tokenizer.ggml.model is `{found}`; a llama2.c checkpoint needs `llama`"
            ),
            Self::ArrayLength {
                key,
                found,
                expected,
            } => write!(f, "{key} has {found} elements for {expected} tokens"),
            Self::TokenType { id, found } => {
                write!(f, "the type of token {id} is {found}, it must be 0 to 6")
            }
            Self::TokenId {
                key,
                found,
                vocab_size,
            } => write!(f, "{key} is {found}, but there are {vocab_size} tokens"),
        }
    }
}

impl std::error::Error for VocabularyError {}

impl From<gguf::Error> for VocabularyError {
    fn from(source: gguf::Error) -> Self {
        Self::Gguf { source }
    }
}
