//! How much memory a session needs, and how it is handed over.

use core::ops::Range;

use crate::kernels::{ints_len, scores_len, scores_len_q8};
use crate::kv_cache::{KvBuffers, KvLayout, KvType};
use crate::model::{Hyperparameters, Layer, Model};
use crate::quant::{ActivationKind, Q8Act, Q8KAct, activation_kind};

/// What a session is to be like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct SessionOptions {
    /// How keys and values are stored.
    pub kv: KvType,
    /// Positions that are kept.
    pub window: usize,
    /// Whether the oldest position makes room when all are taken. Without, a full cache is an
    /// error.
    pub ring: bool,
    /// Tokens of a prompt that go through a layer together, 1 or more.
    pub batch: usize,
}

impl SessionOptions {
    /// A cache of `window` positions that is no ring; prompts go token by token.
    #[must_use]
    pub const fn new(kv: KvType, window: usize) -> Self {
        Self {
            kv,
            window,
            ring: false,
            batch: 1,
        }
    }
}

/// Lengths of all buffers, in elements of their types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Plan {
    /// `f32`: activations, scores, rotation, logits.
    pub floats: usize,
    /// Blocks of 32 quantized activations.
    pub q8: usize,
    /// Blocks of 256 quantized activations.
    pub q8k: usize,
    /// `i16`: queries over int8 rows.
    pub ints: usize,
    /// `u64`: steps of the rotation.
    pub steps: usize,
    /// Elements of the KV cache.
    pub kv_elements: usize,
    /// Scales of the KV cache, `u16`.
    pub kv_scales: usize,
    /// Bytes of the KV cache.
    pub kv_bytes: usize,
    parts: Parts,
}

/// Where things lie among the floats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub(super) struct Parts {
    /// The residual stream of each token.
    x: usize,
    /// What goes into a product: normalized, or the result of attention.
    input: usize,
    /// Queries, keys and values; or gate and up; or what is added to the residual stream.
    middle: usize,
    /// A score for each position, of two heads for int8 rows.
    scores: usize,
    /// (cosine, sine) pairs of each token.
    rotation: usize,
    logits: usize,
}

/// The parts of the floats, apart.
pub(super) struct Split<'a> {
    pub(super) x: &'a mut [f32],
    pub(super) input: &'a mut [f32],
    pub(super) middle: &'a mut [f32],
    pub(super) scores: &'a mut [f32],
    pub(super) rotation: &'a mut [f32],
    pub(super) logits: &'a mut [f32],
}

impl Parts {
    const fn new(hp: &Hyperparameters, options: &SessionOptions) -> Self {
        let batch = options.batch;
        let qkv = hp.q_dim() + 2 * hp.kv_dim();
        Self {
            x: batch * hp.n_embd,
            input: batch * max(hp.n_embd, hp.q_dim()),
            middle: batch * max(max(qkv, 2 * hp.n_ff), hp.n_embd),
            scores: match options.kv {
                KvType::Q8 | KvType::Q8Row => scores_len_q8(options.window),
                KvType::F32 | KvType::F16 => scores_len(options.window),
            },
            rotation: batch * hp.rope_dim,
            logits: hp.n_vocab,
        }
    }

    const fn total(&self) -> usize {
        self.x + self.input + self.middle + self.scores + self.rotation + self.logits
    }
}

const fn max(a: usize, b: usize) -> usize {
    if a > b { a } else { b }
}

impl Plan {
    /// The plan for a model, whose types of weights tell which forms of activations are needed.
    #[must_use]
    #[inline(never)] // A frame of its own: boards have little stack.
    pub fn new(model: &Model<'_>, options: &SessionOptions) -> Self {
        let (mut q8, mut q8k) = (false, false);
        let of_model = [&model.token_embd, &model.output];
        let of_layers = model.layers.iter().flat_map(Layer::matrices);
        for matrix in of_model.into_iter().chain(of_layers) {
            let kind = activation_kind(matrix.ty);
            q8 |= kind == Some(ActivationKind::Q8);
            q8k |= kind == Some(ActivationKind::Q8K);
        }
        Self::with_forms(&model.hyperparameters, options, q8, q8k)
    }

    /// The plan for hyperparameters alone; `q8` and `q8k` tell which forms of quantized activations
    /// the weights take.
    #[must_use]
    pub const fn with_forms(
        hp: &Hyperparameters,
        options: &SessionOptions,
        q8: bool,
        q8k: bool,
    ) -> Self {
        let widest = max(max(hp.n_embd, hp.n_ff), hp.q_dim());
        let layout = KvLayout::new(hp, options.kv, options.window);
        let ints = match options.kv {
            KvType::Q8 | KvType::Q8Row => ints_len(hp.head_dim),
            KvType::F32 | KvType::F16 => 0,
        };
        let parts = Parts::new(hp, options);
        Self {
            floats: parts.total(),
            q8: if q8 {
                options.batch * widest.div_ceil(Q8Act::LEN)
            } else {
                0
            },
            q8k: if q8k {
                options.batch * widest.div_ceil(Q8KAct::LEN)
            } else {
                0
            },
            ints,
            steps: hp.rope_dim / 2,
            kv_elements: match layout.elements() {
                Some(elements) => elements,
                None => usize::MAX,
            },
            kv_scales: layout.scales(),
            kv_bytes: match layout.bytes() {
                Some(bytes) => bytes,
                None => usize::MAX,
            },
            parts,
        }
    }

    /// The plan of a session [without a buffer for logits](super::Session::without_logits).
    #[must_use]
    pub const fn without_logits(mut self) -> Self {
        self.floats -= self.parts.logits;
        self.parts.logits = 0;
        self
    }

    /// Bytes of all buffers together.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.kv_bytes.saturating_add(self.activation_bytes())
    }

    /// Bytes of all buffers but the KV cache.
    #[must_use]
    pub const fn activation_bytes(&self) -> usize {
        let floats = self.floats.saturating_mul(size_of::<f32>());
        floats
            .saturating_add(self.q8.saturating_mul(size_of::<Q8Act>()))
            .saturating_add(self.q8k.saturating_mul(size_of::<Q8KAct>()))
            .saturating_add(self.ints.saturating_mul(size_of::<i16>()))
            .saturating_add(self.steps.saturating_mul(size_of::<u64>()))
    }

    /// Where the logits lie among the floats.
    pub(super) fn logits(&self) -> Range<usize> {
        self.floats - self.parts.logits..self.floats
    }

    /// The parts of the floats; all empty if there are too few, which a session rules out.
    pub(super) fn split<'a>(&self, floats: &'a mut [f32]) -> Split<'a> {
        let mut rest = floats;
        let mut part = |len| {
            let taken = core::mem::take(&mut rest).split_at_mut_checked(len);
            let (part, left) = taken.unwrap_or_default();
            rest = left;
            part
        };
        Split {
            x: part(self.parts.x),
            input: part(self.parts.input),
            middle: part(self.parts.middle),
            scores: part(self.parts.scores),
            rotation: part(self.parts.rotation),
            logits: part(self.parts.logits),
        }
    }
}

/// The memory of a session, as long as [`Plan`] tells or longer. What it holds does not matter.
///
/// [`Session::in_memory`](super::Session::in_memory) cuts all of it out of one piece; who fills this
/// in can place each buffer in another RAM.
#[derive(Debug)]
pub struct Buffers<'b> {
    /// [`Plan::floats`].
    pub floats: &'b mut [f32],
    /// [`Plan::q8`].
    pub q8: &'b mut [Q8Act],
    /// [`Plan::q8k`].
    pub q8k: &'b mut [Q8KAct],
    /// [`Plan::ints`].
    pub ints: &'b mut [i16],
    /// [`Plan::steps`].
    pub steps: &'b mut [u64],
    /// The KV cache.
    pub kv: KvBuffers<'b>,
}
