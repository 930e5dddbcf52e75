//! Text to token ids and back, as llama.cpp does it for `tokenizer.ggml.model = llama`
//! (SentencePiece's merges by score, with byte fallback).
//!
//! [`Vocabulary`] borrows the tokens from the file; [`Vocabulary::encode`] works in the caller's
//! scratch; [`Decoder`] turns ids into text as they come.
//!
//! ```no_run
//! # fn model() -> &'static [u8] { &[] }
//! use smidgen_core::gguf::Gguf;
//! use smidgen_core::tokenizer::{Decoder, Vocabulary, max_scratch_len};
//!
//! const PROMPT: &[u8] = b"Once upon a time";
//!
//! let gguf = Gguf::parse(model(), &mut [0; 64])?;
//! // No memory for an index: the file has one, or tokens are found slowly.
//! let vocabulary = Vocabulary::load(&gguf, &mut [])?;
//! let mut scratch = [0; max_scratch_len(PROMPT.len())];
//! let mut ids = [0; 32];
//! let count = vocabulary.encode_into(
//!     PROMPT,
//!     vocabulary.encode_options(),
//!     &mut scratch,
//!     &mut ids,
//! )?;
//!
//! let mut text = String::new();
//! let mut print = |part: &[u8]| text.push_str(&String::from_utf8_lossy(part));
//! let mut decoder = Decoder::new();
//! for id in &ids[..count] {
//!     decoder.push(&vocabulary, *id, &mut print)?;
//! }
//! decoder.finish(&mut print);
//! assert_eq!(text.as_bytes(), PROMPT);
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```

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
