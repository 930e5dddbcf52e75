//! The numbers that describe a model, from its metadata.

use super::ModelError;
use crate::gguf::{Gguf, KeyError, keys};

/// The numbers that describe a llama model. All sizes are in elements.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Hyperparameters {
    /// Layers (`llama.block_count`).
    pub n_layers: usize,
    /// Width of the residual stream (`llama.embedding_length`).
    pub n_embd: usize,
    /// Hidden width of the feed-forward network (`llama.feed_forward_length`).
    pub n_ff: usize,
    /// Query heads (`llama.attention.head_count`).
    pub n_heads: usize,
    /// KV heads (`llama.attention.head_count_kv`), a divisor of `n_heads`.
    pub n_kv_heads: usize,
    /// Size of a head.
    pub head_dim: usize,
    /// Tokens of the vocabulary: rows of `token_embd.weight`.
    pub n_vocab: usize,
    /// Positions that the model was made for (`llama.context_length`).
    pub n_ctx: usize,
    /// Elements of a head that are rotated (`llama.rope.dimension_count`), even.
    pub rope_dim: usize,
    /// Base of the rotation's frequencies (`llama.rope.freq_base`).
    pub rope_freq_base: f32,
    /// By how much positions are compressed (`llama.rope.scaling.factor` of type `linear`), or 1.
    pub rope_scale: f32,
    /// Epsilon of the normalizations (`llama.attention.layer_norm_rms_epsilon`).
    pub rms_eps: f32,
}

/// Sizes that every model says.
const REQUIRED: [&str; 5] = [
    keys::LLAMA_BLOCK_COUNT,
    keys::LLAMA_EMBEDDING_LENGTH,
    keys::LLAMA_FEED_FORWARD_LENGTH,
    keys::LLAMA_ATTENTION_HEAD_COUNT,
    keys::LLAMA_CONTEXT_LENGTH,
];

/// Sizes that follow from others where they are not said.
const OPTIONAL: [&str; 5] = [
    keys::LLAMA_ATTENTION_HEAD_COUNT_KV,
    keys::LLAMA_ATTENTION_KEY_LENGTH,
    keys::LLAMA_ATTENTION_VALUE_LENGTH,
    keys::LLAMA_ROPE_DIMENSION_COUNT,
    keys::LLAMA_VOCAB_SIZE,
];

impl Hyperparameters {
    /// Reads and checks the hyperparameters of a llama model. The size of the vocabulary is that of
    /// the tensor `token_embd.weight`, which may lie in another shard: it is given.
    ///
    /// # Errors
    /// Another architecture, a key that is missing or mistyped, numbers that contradict each other,
    /// an option that is not supported.
    #[inline(never)] // A frame of its own: boards have little stack.
    pub fn from_metadata(gguf: &Gguf<'_>, n_vocab: usize) -> Result<Self, ModelError> {
        match gguf.get_str(keys::GENERAL_ARCHITECTURE)? {
            Some("llama") => {}
            Some(found) => {
                let found = found.into();
                return Err(ModelError::Architecture { found });
            }
            None => return Err(missing(keys::GENERAL_ARCHITECTURE)),
        }
        let mut required = [0; REQUIRED.len()];
        for (size, key) in required.iter_mut().zip(&REQUIRED) {
            *size = positive(gguf, key)?.ok_or(missing(key))?;
        }
        let [n_layers, n_embd, n_ff, n_heads, n_ctx] = required;
        let mut optional = [None; OPTIONAL.len()];
        for (size, key) in optional.iter_mut().zip(&OPTIONAL) {
            *size = positive(gguf, key)?;
        }
        let [n_kv_heads, key_length, value_length, rope_dim, vocab_size] = optional;
        let n_kv_heads = n_kv_heads.unwrap_or(n_heads);
        let head_dim = key_length.unwrap_or(n_embd / n_heads);
        let rope_dim = rope_dim.unwrap_or(head_dim);
        let contradictions = [
            (
                key_length.is_none() && n_embd % n_heads != 0,
                "llama.embedding_length is no multiple of the head count",
            ),
            (
                value_length.is_some_and(|length| length != head_dim),
                "keys and values of different lengths are not supported",
            ),
            (
                n_heads % n_kv_heads != 0,
                "the head count is no multiple of the KV head count",
            ),
            (head_dim % 2 != 0, "the size of a head is odd"),
            (
                rope_dim > head_dim || rope_dim % 2 != 0,
                "llama.rope.dimension_count must be even and no more than the size of a head",
            ),
            (
                vocab_size.is_some_and(|size| size != n_vocab),
                "llama.vocab_size is not the number of rows of token_embd.weight",
            ),
        ];
        if let Some((_, what)) = contradictions.into_iter().find(|&(holds, _)| holds) {
            return Err(ModelError::Contradiction { what });
        }
        if gguf.get_u64(keys::LLAMA_EXPERT_COUNT)?.unwrap_or(0) != 0 {
            return Err(unsupported(
                keys::LLAMA_EXPERT_COUNT,
                "0: experts are not supported",
            ));
        }
        let key = keys::LLAMA_ATTENTION_LAYER_NORM_RMS_EPSILON;
        let rms_eps = gguf.get_f32(key)?.ok_or(missing(key))?;
        if !(rms_eps >= 0.0 && rms_eps.is_finite()) {
            return Err(unsupported(key, "a number from 0 on"));
        }
        let key = keys::LLAMA_ROPE_FREQ_BASE;
        let rope_freq_base = gguf.get_f32(key)?.unwrap_or(10_000.0);
        if !(rope_freq_base >= 1.0 && rope_freq_base.is_finite()) {
            return Err(unsupported(key, "a number from 1 on"));
        }
        Ok(Self {
            n_layers,
            n_embd,
            n_ff,
            n_heads,
            n_kv_heads,
            head_dim,
            n_vocab,
            n_ctx,
            rope_dim,
            rope_freq_base,
            rope_scale: rope_scale(gguf)?,
            rms_eps,
        })
    }

    /// Elements of all query heads together.
    #[must_use]
    pub const fn q_dim(&self) -> usize {
        self.n_heads * self.head_dim
    }

    /// Elements of all keys, or values, of a position together.
    #[must_use]
    pub const fn kv_dim(&self) -> usize {
        self.n_kv_heads * self.head_dim
    }

    /// Query heads for each KV head.
    #[must_use]
    pub const fn group(&self) -> usize {
        self.n_heads / self.n_kv_heads
    }
}

fn missing(key: &'static str) -> ModelError {
    ModelError::Key(KeyError::Missing { key })
}

fn unsupported(key: &'static str, expected: &'static str) -> ModelError {
    ModelError::Unsupported { key, expected }
}

/// A count of at least 1 and, so that products of two cannot overflow even on 32 bits, at most
/// 2^24.
fn positive(gguf: &Gguf<'_>, key: &'static str) -> Result<Option<usize>, ModelError> {
    let expected = "from 1 to 16777216";
    let Some(value) = gguf.get_u64(key)? else {
        return Ok(None);
    };
    let value = usize::try_from(value).ok();
    let value = value.filter(|value| (1..=1 << 24).contains(value));
    value
        .map(Some)
        .ok_or(ModelError::Key(KeyError::OutOfRange { key, expected }))
}

fn rope_scale(gguf: &Gguf<'_>) -> Result<f32, ModelError> {
    let factor = match gguf.get_str(keys::LLAMA_ROPE_SCALING_TYPE)? {
        Some("none") => None,
        Some("linear") => {
            let key = keys::LLAMA_ROPE_SCALING_FACTOR;
            Some((key, gguf.get_f32(key)?.ok_or(missing(key))?))
        }
        Some(_) => {
            return Err(unsupported(
                keys::LLAMA_ROPE_SCALING_TYPE,
                "none or linear, other kinds of scaling are not supported",
            ));
        }
        // An old spelling, and a factor without a type means linear in llama.cpp.
        None => [
            keys::LLAMA_ROPE_SCALING_FACTOR,
            keys::LLAMA_ROPE_SCALE_LINEAR,
        ]
        .into_iter()
        .find_map(|key| gguf.get_f32(key).map(|f| f.map(|f| (key, f))).transpose())
        .transpose()?,
    };
    match factor {
        None => Ok(1.0),
        Some((_, factor)) if factor > 0.0 && factor.is_finite() => Ok(factor),
        Some((key, _)) => Err(unsupported(key, "a number above 0")),
    }
}
