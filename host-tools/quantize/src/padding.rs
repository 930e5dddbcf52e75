//! Padding of the feed-forward network with zeros.
//!
//! Elements of the hidden state that are added this way are 0: their gate row is zeros, and
//! silu(0) · 0 is 0. They meet columns of zeros in the matrix that leads back. No result changes,
//! and every reader takes the file for a model with a larger hidden size.

use smidgen_core::gguf::Gguf;

use crate::{plan::Source, role::Role};

/// The hidden size is padded to a multiple of this, the elements of the blocks that small models
/// have.
const BLOCK: u64 = 32;

/// A feed-forward network that can be padded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FeedForward {
    /// The key of its size.
    pub(crate) key: String,
    /// Its size in the input.
    pub(crate) size: u64,
}

impl FeedForward {
    /// The network of a llama model whose layers are all alike.
    ///
    /// # Errors
    /// Why padding it is not known to be exact.
    pub(crate) fn of(first: &Gguf<'_>, sources: &[Source<'_>]) -> Result<Self, &'static str> {
        if first.get_str("general.architecture").ok().flatten() != Some("llama") {
            return Err("only that of the architecture llama is known to stay the same");
        }
        let key = "llama.feed_forward_length".to_owned();
        let size = first.get_u64(&key).ok().flatten();
        let size = size.ok_or("llama.feed_forward_length is no number")?;
        for source in sources {
            let name = source.info.name();
            let dims = source.info.dims();
            let hidden = match source.role {
                Role::FfnGate | Role::FfnUp => dims.get(1),
                Role::FfnDown => dims.first(),
                // The norm before it has the size of the embedding.
                _ if name.contains(".ffn_") && !name.ends_with(".ffn_norm.weight") => {
                    return Err("it has other tensors than gate, up and down");
                }
                _ => continue,
            };
            if dims.len() != 2 || hidden != Some(&size) {
                return Err("its tensors do not have the size that the metadata say");
            }
        }
        Ok(Self { key, size })
    }

    /// The padded size.
    pub(crate) fn padded(&self) -> Option<u64> {
        self.size.checked_next_multiple_of(BLOCK)
    }
}

/// The shape that a tensor has when the hidden size is `size`.
pub(crate) fn padded_dims(role: Role, dims: &[u64], size: u64) -> Vec<u64> {
    match (role, dims) {
        (Role::FfnGate | Role::FfnUp, &[row_len, _]) => vec![row_len, size],
        (Role::FfnDown, &[_, rows]) => vec![size, rows],
        _ => dims.to_vec(),
    }
}
