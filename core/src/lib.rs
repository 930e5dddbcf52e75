//! Real GGUF language models from a byte slice: no operating system, no heap, the same bits on
//! every chip.
//!
//! The data flows one way, which is also the order of the modules:
//! bytes → [`gguf`] (parse and validate once) → [`model`] → [`session`] → [`sampler`] → text
//! ([`tokenizer`]).
//!
//! ```
//! use core::ops::ControlFlow;
//! use smidgen_core::gguf::Gguf;
//! use smidgen_core::kv_cache::KvType;
//! use smidgen_core::model::{Layer, Model};
//! use smidgen_core::sampler::{Sampler, SamplerSettings};
//! use smidgen_core::session::{
//!     GenerateOptions, Generator, GeneratorBuffers, Plan, Prompt, Session, SessionOptions,
//! };
//! use smidgen_core::tokenizer::Vocabulary;
//!
//! // On a board: `include_bytes!`, or wherever in flash the file lies.
//! let file = std::fs::read("../examples/models/smidgen-260k-Q8_0.gguf")?;
//! let gguf = Gguf::parse_small(&file)?;
//! let mut layers = [Layer::EMPTY; 8];
//! let model = Model::load(&[gguf], &mut layers)?;
//! let vocabulary = Vocabulary::load(&gguf, &mut [])?;
//!
//! // Keys and values of 64 positions, as bytes. Where the model is known, the length is a constant.
//! let options = SessionOptions::new(KvType::Q8, 64);
//! let mut memory = vec![0; Plan::new(&model, &options).words()];
//! let mut session = Session::in_memory(&model, options, &mut memory)?;
//!
//! let mut sampler = Sampler::new(SamplerSettings::GREEDY, 1)?;
//! let buffers = GeneratorBuffers {
//!     ids: &mut [0; 16],
//!     scratch: &mut [0; 128],
//!     ..GeneratorBuffers::default()
//! };
//! let mut story = Vec::new();
//! let generated = Generator::new(&vocabulary, &mut sampler, buffers).generate(
//!     &mut session,
//!     Prompt::Text(b"Once upon a time"),
//!     &GenerateOptions { max_new_tokens: 20, echo: true, ..GenerateOptions::default() },
//!     &mut |text| {
//!         story.extend_from_slice(text); // or to a UART
//!         ControlFlow::Continue(())
//!     },
//! )?;
//! assert!(story.starts_with(b"Once upon a time"));
//! assert_eq!(generated.new_tokens, 20);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! More programs, one of them without a heap and with all memory in statics, are in the folder
//! `examples` of the repository.
//!
//! On a board, say what to leave out: [`built_in`] has the two variables for it.
#![no_std]
#![deny(unsafe_code)]

#[cfg(any(test, feature = "std"))]
extern crate std;

pub mod built_in;
mod error;
pub mod gguf;
pub mod kernels;
pub mod kv_cache;
mod logits_hash;
mod message;
pub mod model;
mod model_image;
mod number;
pub mod ops;
pub mod quant;
pub mod sampler;
pub mod session;
mod sort;
pub mod tokenizer;

pub use error::Error;
pub use logits_hash::LogitsHash;
pub use model_image::{ModelImage, ModelImageError};
pub use number::{Decimal, Hex, Number};
