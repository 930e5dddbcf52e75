//! Real GGUF language models from a byte slice: no operating system, no heap, the same bits on
//! every chip.
//!
//! The data flows one way, which is also the order of the modules:
//! bytes → [`gguf`] (parse and validate once) → model → session → sampler → text.
//!
//! On a board, say what to leave out: [`built_in`] has the two variables for it.
#![no_std]
#![deny(unsafe_code)]

#[cfg(any(test, feature = "std"))]
extern crate std;

pub mod built_in;
mod decimal;
mod error;
pub mod gguf;
pub mod kernels;
pub mod kv_cache;
mod logits_hash;
pub mod model;
mod model_image;
pub mod ops;
pub mod quant;
pub mod sampler;
pub mod session;
mod sort;
pub mod tokenizer;

pub use error::Error;
pub use logits_hash::LogitsHash;
pub use model_image::{ModelImage, ModelImageError};
