//! llama2.c checkpoints and vocabularies: read, check, convert to GGUF.
//!
//! [`Checkpoint::parse`] looks at a checkpoint of any version, [`Vocabulary::read`] at a
//! `tokenizer.bin` or the vocabulary of a GGUF; both only borrow the bytes. [`convert`] puts them
//! together as a [`GgufBuilder`](smidgen_io::GgufBuilder), whose weights are streamed from the
//! checkpoint when it is written.
//!
//! ```
//! use smidgen_io::{FileBytes, Overwrite};
//! use smidgen_llama2c::{Checkpoint, Options, Vocabulary, convert};
//!
//! let models = std::path::Path::new("../../examples/models");
//! let checkpoint = FileBytes::open(models.join("smidgen-260k.bin"))?;
//! let checkpoint = Checkpoint::parse(&checkpoint)?;
//! let vocabulary = FileBytes::open(models.join("smidgen-260k-tokenizer.bin"))?;
//! let vocabulary = Vocabulary::read(&vocabulary, checkpoint.config().vocab_size())?;
//! let mut conversion = convert(&checkpoint, &vocabulary, &Options::default())?;
//!
//! let folder = tempfile::tempdir()?;
//! let path = folder.path().join("model.gguf");
//! conversion.write_file(&path, Overwrite::Refuse)?;
//! let file = FileBytes::open(&path)?;
//! assert_eq!(file.gguf()?.get_str("general.architecture")?, Some("llama"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod checkpoint;
mod checkpoint_error;
mod config;
mod conversion;
mod encode;
mod foreign;
mod role;
mod tokenizer_bin;
mod vocabulary;
mod vocabulary_error;
mod warning;
mod weights;

pub use checkpoint::{Checkpoint, Version};
pub use checkpoint_error::{CheckpointError, LengthCause};
pub use config::{Config, ConfigError};
pub use conversion::{Conversion, ConvertError, NumberError, Options, convert};
pub use encode::WeightType;
pub use foreign::Format;
pub use role::Role;
pub use tokenizer_bin::TokenizerBin;
pub use vocabulary::{Vocabulary, VocabularySource};
pub use vocabulary_error::VocabularyError;
pub use warning::Warning;
pub use weights::Weights;
