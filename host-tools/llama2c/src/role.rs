//! What a tensor is for: its GGUF name and its shape.

use crate::Config;

/// What a tensor is for, by its GGUF name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Token embeddings (`tok_embeddings`).
    TokenEmbd,
    /// The last norm (`norm`).
    OutputNorm,
    /// The classifier (`wcls`), where it is not the embeddings.
    Output,
    /// Query matrix of a layer (`wq`).
    AttnQ,
    /// Key matrix of a layer (`wk`).
    AttnK,
    /// Value matrix of a layer (`wv`).
    AttnV,
    /// Output matrix of a layer's attention (`wo`).
    AttnOutput,
    /// Norm before a layer's attention (`attention_norm`).
    AttnNorm,
    /// Gate matrix of a layer (`w1`).
    FfnGate,
    /// Down matrix of a layer (`w2`).
    FfnDown,
    /// Up matrix of a layer (`w3`).
    FfnUp,
    /// Norm before a layer's feed-forward network (`ffn_norm`).
    FfnNorm,
}

impl Role {
    /// The tensors of one layer, in the order in which llama.cpp's converter writes them.
    pub const LAYER: [Self; 9] = [
        Self::AttnQ,
        Self::AttnK,
        Self::AttnV,
        Self::AttnOutput,
        Self::AttnNorm,
        Self::FfnGate,
        Self::FfnDown,
        Self::FfnUp,
        Self::FfnNorm,
    ];

    /// Whether there is one for each layer.
    #[must_use]
    pub fn in_layer(self) -> bool {
        !matches!(self, Self::TokenEmbd | Self::OutputNorm | Self::Output)
    }

    /// Whether it is a vector of a norm; all others are matrices.
    #[must_use]
    pub fn is_norm(self) -> bool {
        matches!(self, Self::OutputNorm | Self::AttnNorm | Self::FfnNorm)
    }

    /// The GGUF name; `layer` counts for those that every layer has.
    ///
    /// ```
    /// use smidgen_llama2c::Role;
    /// assert_eq!(Role::FfnGate.name(3), "blk.3.ffn_gate.weight");
    /// assert_eq!(Role::Output.name(0), "output.weight");
    /// ```
    #[must_use]
    pub fn name(self, layer: u32) -> String {
        let base = match self {
            Self::TokenEmbd => "token_embd",
            Self::OutputNorm => "output_norm",
            Self::Output => "output",
            Self::AttnQ => "attn_q",
            Self::AttnK => "attn_k",
            Self::AttnV => "attn_v",
            Self::AttnOutput => "attn_output",
            Self::AttnNorm => "attn_norm",
            Self::FfnGate => "ffn_gate",
            Self::FfnDown => "ffn_down",
            Self::FfnUp => "ffn_up",
            Self::FfnNorm => "ffn_norm",
        };
        if self.in_layer() {
            format!("blk.{layer}.{base}.weight")
        } else {
            format!("{base}.weight")
        }
    }

    /// Length of a row and, for a matrix, number of rows.
    #[must_use]
    pub fn dims(self, config: &Config) -> (u32, Option<u32>) {
        let (dim, hidden) = (config.dim(), config.hidden_dim());
        match self {
            Self::OutputNorm | Self::AttnNorm | Self::FfnNorm => (dim, None),
            Self::TokenEmbd | Self::Output => (dim, Some(config.vocab_size())),
            Self::AttnQ | Self::AttnOutput => (dim, Some(dim)),
            Self::AttnK | Self::AttnV => (dim, Some(config.kv_dim())),
            Self::FfnGate | Self::FfnUp => (dim, Some(hidden)),
            Self::FfnDown => (hidden, Some(dim)),
        }
    }

    /// Number of elements.
    #[must_use]
    pub fn elements(self, config: &Config) -> u64 {
        let (row, rows) = self.dims(config);
        u64::from(row) * u64::from(rows.unwrap_or(1))
    }
}
