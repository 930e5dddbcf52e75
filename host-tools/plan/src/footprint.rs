//! The buffers of a firmware for a model: their lengths, and their bytes on a board.

use std::fmt;

use smidgen_core::gguf::{self, GgmlType, Gguf};
use smidgen_core::kv_cache::KvType;
use smidgen_core::model::{Layer, Model, ModelError};
use smidgen_core::quant::{Q8Act, Q8KAct};
use smidgen_core::session::{Plan, SessionOptions};
use smidgen_core::tokenizer::Vocabulary;

use crate::Memory;

/// The longest flags of a command line before the prompt.
const FLAGS: usize = 192;

/// The buffers of a firmware for a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Footprint {
    /// How the model is run.
    pub options: SessionOptions,
    /// The buffers of a session; `None` if there is no model.
    pub plan: Option<Plan>,
    /// The model's layers.
    pub layers: usize,
    /// Words of the vocabulary's index; 0 if the file has one.
    pub index: usize,
}

/// Why a file has no footprint.
#[derive(Debug)]
#[non_exhaustive]
pub enum FootprintError {
    /// It is no GGUF.
    Gguf(gguf::Error),
    /// It holds no model that can be run.
    Model(ModelError),
}

impl fmt::Display for FootprintError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gguf(error) => error.fmt(f),
            Self::Model(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for FootprintError {}

impl From<gguf::Error> for FootprintError {
    fn from(error: gguf::Error) -> Self {
        Self::Gguf(error)
    }
}

impl From<ModelError> for FootprintError {
    fn from(error: ModelError) -> Self {
        Self::Model(error)
    }
}

impl Footprint {
    /// Without a model: all buffers are empty.
    #[must_use]
    pub const fn empty(options: SessionOptions) -> Self {
        Self {
            options,
            plan: None,
            layers: 0,
            index: 0,
        }
    }

    /// Of a model and the file that it and its vocabulary are from.
    #[must_use]
    pub fn new(
        model: &Model<'_>,
        gguf: &Gguf<'_>,
        memory: &Memory,
        options: SessionOptions,
    ) -> Self {
        let plan = Plan::new(model, &options);
        Self {
            options,
            plan: Some(if memory.has_logits {
                plan
            } else {
                plan.without_logits()
            }),
            layers: model.layers.len(),
            index: Vocabulary::index_len(gguf),
        }
    }

    /// Of a file, which a firmware is to hold, on a board with this memory. Without a `window`, it is
    /// that of `options`, or the model's context if that is less.
    ///
    /// # Errors
    /// The file holds no model that can be run.
    pub fn of_file(
        bytes: &[u8],
        memory: &Memory,
        options: SessionOptions,
        window: Option<usize>,
    ) -> Result<Self, FootprintError> {
        let gguf = Gguf::parse_small(bytes)?;
        let mut layers = vec![Layer::EMPTY; Model::layers_len(&gguf).min(gguf.tensor_count() + 1)];
        let model = Model::load(&[gguf], &mut layers)?;
        let shorter = options.window.min(model.hyperparameters.n_ctx);
        let window = window.unwrap_or(shorter);
        Ok(Self::new(
            &model,
            &gguf,
            memory,
            SessionOptions { window, ..options },
        ))
    }

    /// Tokens that a prompt can become: one for each byte, the one that begins a text, and a space.
    #[must_use]
    pub const fn ids(memory: &Memory) -> usize {
        memory.prompt_bytes + 2
    }

    /// Words to encode a prompt, which a space comes before.
    #[must_use]
    pub const fn scratch(memory: &Memory) -> usize {
        5 * (memory.prompt_bytes + 1)
    }

    /// Bytes of a command line.
    #[must_use]
    pub const fn line(memory: &Memory) -> usize {
        memory.prompt_bytes + FLAGS
    }

    /// Bytes of the KV cache.
    #[must_use]
    pub fn kv_bytes(&self) -> usize {
        let align = match self.options.kv {
            KvType::F16 => 2,
            KvType::F32 | KvType::Q8 | KvType::Q8Row => 4,
        };
        cell(self.plan.map_or(0, |plan| plan.kv_bytes), align)
    }

    /// Bytes of the session's other buffers.
    #[must_use]
    pub fn activation_bytes(&self, memory: &Memory) -> usize {
        self.plan.map_or(0, |plan| {
            let narrow = size_of::<Q8Act>() * plan.q8;
            let wide = (size_of::<Q8Act>() + Q8Act::LEN) * plan.q8;
            let q8 = if memory.wide_activations {
                wide
            } else {
                narrow
            };
            plan.floats * size_of::<f32>()
                + q8
                + plan.q8k * size_of::<Q8KAct>()
                + plan.ints * size_of::<i16>()
                + plan.steps * size_of::<u64>()
        })
    }

    /// Bytes of all buffers but the KV cache, which are one variable: those of the session, the
    /// vocabulary's index, and what a prompt needs.
    #[must_use]
    pub fn work_bytes(&self, memory: &Memory) -> usize {
        let words = self.index + Self::scratch(memory) + Self::ids(memory);
        let text = words * size_of::<u32>() + Self::line(memory);
        cell(self.activation_bytes(memory).saturating_add(text), 8)
    }

    /// Bytes of a layer's places: two norms, and seven matrices of a type, two numbers and a slice.
    #[must_use]
    pub const fn layer_bytes(memory: &Memory) -> usize {
        let pointer = memory.pointer_bytes;
        2 * (2 * pointer) + 7 * (size_of::<GgmlType>() + 4 * pointer)
    }

    /// Bytes of the other variables, among which are the layers' places.
    #[must_use]
    pub const fn variable_bytes(&self, memory: &Memory) -> u64 {
        memory.variable_bytes + (self.layers * Self::layer_bytes(memory)) as u64
    }
}

/// Bytes of a variable that is handed out once and knows whether it was.
fn cell(bytes: usize, align: usize) -> usize {
    let padded = |bytes: usize| bytes.checked_next_multiple_of(align);
    let with_flag = padded(bytes).and_then(|bytes| padded(bytes.checked_add(1)?));
    with_flag.unwrap_or(usize::MAX)
}
