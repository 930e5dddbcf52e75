//! What a file's metadata say of the split model that it belongs to.

use smidgen_core::gguf::{Gguf, keys};

/// The place of a file in a split model, by its `split.*` keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Split {
    /// Which shard this is, from 0.
    pub no: u64,
    /// How many shards there are; 0 in a file that llama-gguf-split has merged.
    pub count: u64,
    /// How many tensors all shards have together, if the file says it.
    pub tensors: Option<u64>,
}

impl Split {
    /// The keys of `gguf`; `None` unless it has the first two, as integers.
    #[must_use]
    pub fn of(gguf: &Gguf<'_>) -> Option<Self> {
        let number = |key| gguf.get_u64(key).ok().flatten();
        Some(Self {
            no: number(keys::SPLIT_NO)?,
            count: number(keys::SPLIT_COUNT)?,
            tensors: number(keys::SPLIT_TENSORS_COUNT),
        })
    }

    /// Whether the file is one of several.
    #[must_use]
    pub fn is_shard(&self) -> bool {
        self.count > 1
    }
}
