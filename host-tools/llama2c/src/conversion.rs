//! Puts checkpoint and vocabulary together as a GGUF.

use std::{
    fmt,
    io::{self, Write},
    path::Path,
};

use smidgen_core::gguf::keys;
use smidgen_io::{BuildError, GgufBuilder, Overwrite, TensorSource};

use crate::{Checkpoint, Role, Vocabulary, Warning, WeightType, encode};

/// What the checkpoint does not say, or not as one wants it.
#[derive(Clone, Debug)]
pub struct Options {
    /// The type of matrices.
    pub ty: WeightType,
    /// `llama.context_length`; the checkpoint's `seq_len` without.
    pub context: Option<u32>,
    /// `general.name`; left out without.
    pub name: Option<String>,
    /// `general.author`; left out without.
    pub author: Option<String>,
    /// `general.license`; left out without.
    pub license: Option<String>,
    /// `general.url`; left out without.
    pub url: Option<String>,
    /// Writes `output.weight` even where it is the embeddings once more, as llama.cpp's converter
    /// does.
    pub keep_tied_output: bool,
    /// `llama.attention.layer_norm_rms_epsilon`; llama2.c's 1e-5 by default.
    pub eps: f32,
    /// `llama.rope.freq_base`; llama2.c's 10000 by default.
    pub rope_base: f32,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            ty: WeightType::F32,
            context: None,
            name: None,
            author: None,
            license: None,
            url: None,
            keep_tied_output: false,
            eps: 1e-5,
            rope_base: 10_000.0,
        }
    }
}

/// A GGUF that is ready to be written.
#[derive(Debug)]
pub struct Conversion<'a> {
    builder: GgufBuilder<'a>,
    tensors: usize,
    warnings: Vec<Warning>,
}

/// Puts checkpoint and vocabulary together. The weights stay where they are until the result is
/// written; then each is checked to be finite.
///
/// # Errors
/// An option is out of range, or the vocabulary is not as large as the model's.
pub fn convert<'a>(
    checkpoint: &Checkpoint<'a>,
    vocabulary: &Vocabulary,
    options: &Options,
) -> Result<Conversion<'a>, ConvertError> {
    let config = checkpoint.config();
    if vocabulary.len() as u64 != u64::from(config.vocab_size()) {
        return Err(ConvertError::Vocabulary {
            found: vocabulary.len(),
            expected: config.vocab_size(),
        });
    }
    let positive = |option, value: f32| {
        if value.is_finite() && value > 0.0 {
            Ok(value)
        } else {
            Err(ConvertError::Option { option })
        }
    };
    let eps = positive("the RMS epsilon", options.eps)?;
    let rope_base = positive("the RoPE base", options.rope_base)?;
    let context = options.context.unwrap_or(config.seq_len());
    if context == 0 {
        let option = "the context";
        return Err(ConvertError::Option { option });
    }
    let mut warnings = vocabulary.warnings().to_vec();
    if context > config.seq_len() {
        let seq_len = config.seq_len();
        warnings.push(Warning::Context { context, seq_len });
    }

    let mut builder = GgufBuilder::new();
    builder.set(keys::GENERAL_ARCHITECTURE, "llama");
    for (key, value) in [
        (keys::GENERAL_NAME, &options.name),
        (keys::GENERAL_AUTHOR, &options.author),
        (keys::GENERAL_LICENSE, &options.license),
        (keys::GENERAL_URL, &options.url),
    ] {
        if let Some(value) = value {
            builder.set(key, value.as_str());
        }
    }
    builder
        .set(keys::GENERAL_FILE_TYPE, options.ty.file_type())
        .set(keys::GENERAL_QUANTIZATION_VERSION, 2_u32)
        .set(keys::LLAMA_CONTEXT_LENGTH, context)
        .set(keys::LLAMA_EMBEDDING_LENGTH, config.dim())
        .set(keys::LLAMA_BLOCK_COUNT, config.n_layers())
        .set(keys::LLAMA_FEED_FORWARD_LENGTH, config.hidden_dim())
        .set(keys::LLAMA_ATTENTION_HEAD_COUNT, config.n_heads())
        .set(keys::LLAMA_ATTENTION_HEAD_COUNT_KV, config.n_kv_heads())
        .set(keys::LLAMA_ROPE_DIMENSION_COUNT, config.head_size())
        .set(keys::LLAMA_ROPE_FREQ_BASE, rope_base)
        .set(keys::LLAMA_ATTENTION_LAYER_NORM_RMS_EPSILON, eps)
        .set(keys::LLAMA_VOCAB_SIZE, config.vocab_size());
    vocabulary.write_to(&mut builder);

    let mut tensors = 0;
    for (role, layer) in tensor_order(checkpoint, options.keep_tied_output) {
        add(&mut builder, checkpoint, role, layer, options.ty)?;
        tensors += 1;
    }
    Ok(Conversion {
        builder,
        tensors,
        warnings,
    })
}

/// All tensors in the order in which llama.cpp's converter writes them.
fn tensor_order(
    checkpoint: &Checkpoint<'_>,
    keep_tied_output: bool,
) -> impl Iterator<Item = (Role, u32)> {
    let output = keep_tied_output || !checkpoint.shared_classifier();
    let first = [Role::TokenEmbd, Role::OutputNorm];
    let first = first.into_iter().chain(output.then_some(Role::Output));
    let layers = 0..checkpoint.config().n_layers();
    let layers = layers.flat_map(|layer| Role::LAYER.map(|role| (role, layer)));
    first.map(|role| (role, 0)).chain(layers)
}

fn add<'a>(
    builder: &mut GgufBuilder<'a>,
    checkpoint: &Checkpoint<'a>,
    role: Role,
    layer: u32,
    ty: WeightType,
) -> Result<(), ConvertError> {
    let name = role.name(layer);
    let source = match role {
        Role::Output if checkpoint.shared_classifier() => Role::TokenEmbd,
        other => other,
    };
    let weights = checkpoint.weights(source, layer);
    let weights = weights.ok_or_else(|| BuildError::Shape { name: name.clone() })?;
    let ty = if role.is_norm() { WeightType::F32 } else { ty };
    let (row, rows) = role.dims(checkpoint.config());
    let dims: Vec<u64> = [Some(row), rows]
        .into_iter()
        .flatten()
        .map(u64::from)
        .collect();
    let tensor = name.clone();
    let stream = TensorSource::Stream(Box::new(move |out| {
        encode::write(&weights, ty, out).map_err(|failure| match failure {
            encode::Failure::Io(error) => error,
            encode::Failure::Number(bad) => io::Error::new(
                io::ErrorKind::InvalidData,
                NumberError {
                    tensor: tensor.clone(),
                    index: bad.index,
                    value: bad.value,
                    ty,
                },
            ),
        })
    }));
    builder.tensor(&name, &dims, ty.ggml_type(), stream)?;
    Ok(())
}

impl Conversion<'_> {
    /// How many tensors it has.
    #[must_use]
    pub fn tensors(&self) -> usize {
        self.tensors
    }

    /// What is odd, though it can be used.
    #[must_use]
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// Writes the file whole or not at all, and tells its length in bytes.
    ///
    /// # Errors
    /// A weight is not finite or does not fit the type, or writing fails.
    pub fn write_file(
        &mut self,
        path: impl AsRef<Path>,
        overwrite: Overwrite,
    ) -> Result<u64, ConvertError> {
        let written = self.builder.write_file(path, overwrite);
        written.map_err(|error| match error {
            smidgen_io::Error::Write { path, source } => match number_error(source) {
                Ok(error) => ConvertError::Number { source: error },
                Err(source) => smidgen_io::Error::Write { path, source }.into(),
            },
            other => other.into(),
        })
    }

    /// Writes to any sink, and tells the length in bytes.
    ///
    /// # Errors
    /// As [`write_file`](Self::write_file); what has gone to the sink before stays there.
    pub fn write_to(&mut self, out: &mut dyn Write) -> Result<u64, ConvertError> {
        let written = self.builder.write_to(out);
        written.map_err(|error| match number_error(error) {
            Ok(source) => ConvertError::Number { source },
            Err(source) => ConvertError::Sink { source },
        })
    }
}

/// The number that could not be stored, if that is what went wrong.
fn number_error(error: io::Error) -> Result<NumberError, io::Error> {
    error.downcast()
}

/// A weight that is not finite, or does not fit the type that was asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct NumberError {
    /// The tensor.
    pub tensor: String,
    /// The element, counted through all rows.
    pub index: usize,
    /// Its value.
    pub value: f32,
    /// The type that it was to be stored in.
    pub ty: WeightType,
}

impl fmt::Display for NumberError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            tensor,
            index,
            value,
            ty,
        } = self;
        write!(f, "{tensor}: element {index} is {value}, ")?;
        if value.is_finite() {
            write!(f, "which is too large for {}", ty.ggml_type())
        } else {
            write!(f, "with which no model works")
        }
    }
}

impl std::error::Error for NumberError {}

/// Why there is no GGUF.
#[derive(Debug)]
#[non_exhaustive]
pub enum ConvertError {
    /// The vocabulary has another number of tokens than the checkpoint.
    Vocabulary {
        /// Tokens of the vocabulary.
        found: usize,
        /// Tokens of the checkpoint.
        expected: u32,
    },
    /// An option that must be positive is not.
    Option {
        /// Which.
        option: &'static str,
    },
    /// A weight cannot be stored.
    Number {
        /// Which, and why.
        source: NumberError,
    },
    /// The tensors do not make a GGUF.
    Build {
        /// Why.
        source: BuildError,
    },
    /// The file cannot be written.
    File {
        /// Why.
        source: smidgen_io::Error,
    },
    /// The sink failed.
    Sink {
        /// Why.
        source: io::Error,
    },
}

impl fmt::Display for ConvertError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Vocabulary { found, expected } => write!(
                f,
                "the vocabulary has {found} tokens, the checkpoint has {expected}"
            ),
            Self::Option { option } => write!(f, "{option} must be positive"),
            Self::Number { source } => source.fmt(f),
            Self::Build { source } => source.fmt(f),
            Self::File { source } => source.fmt(f),
            Self::Sink { .. } => write!(f, "cannot write the GGUF"),
        }
    }
}

impl std::error::Error for ConvertError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::File { source } => source.source(),
            Self::Sink { source } => Some(source),
            _ => None,
        }
    }
}

impl From<BuildError> for ConvertError {
    fn from(source: BuildError) -> Self {
        Self::Build { source }
    }
}

impl From<smidgen_io::Error> for ConvertError {
    fn from(source: smidgen_io::Error) -> Self {
        Self::File { source }
    }
}
