//! Text to token ids and back, as llama.cpp does it for `tokenizer.ggml.model = llama`
//! (SentencePiece's merges by score, with byte fallback).
//!
//! [`Vocabulary`] borrows the tokens from the file; [`Vocabulary::encode`] works in the caller's
//! scratch; [`Decoder`] turns ids into text as they come.

mod decode;
mod encode;
mod index;
mod merge;
#[cfg(test)]
mod tests;
mod text;
mod vocabulary;

pub use decode::{Decoder, NoSuchToken};
pub use encode::{EncodeError, EncodeOptions, max_scratch_len};
pub use index::{IndexFault, IndexKind};
pub use vocabulary::{TokenType, Vocabulary, VocabularyError};
