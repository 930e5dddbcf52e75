//! A look at what goes into matrices.

/// Which matrices numbers go into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Tap {
    /// `attn_q`, `attn_k` and `attn_v` of this layer.
    Attention(usize),
    /// `attn_output` of this layer.
    AttentionOutput(usize),
    /// `ffn_gate` and `ffn_up` of this layer.
    FeedForward(usize),
    /// `ffn_down` of this layer.
    FeedForwardDown(usize),
    /// The classifier.
    Classifier,
}

/// Is shown the input of every product of a [`Session`](super::Session) that has it: where, and as
/// many rows of numbers as tokens.
pub type Probe<'p> = dyn FnMut(Tap, &[f32]) + Send + 'p;
