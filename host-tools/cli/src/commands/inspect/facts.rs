//! Sums over the tensors and the bytes of a file, or of all shards of a set.

use std::collections::BTreeMap;

use smidgen_core::gguf::{GgmlType, TensorInfo};
use smidgen_edit::{PartKind, Usage};

use super::set::Member;

/// A tensor and the shard it is in, from 1.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tensor<'a> {
    pub(super) shard: usize,
    pub(super) info: TensorInfo<'a>,
    /// Where the shard's tensor data begin.
    data_offset: u64,
}

impl Tensor<'_> {
    /// Where the tensor begins in its file.
    pub(super) fn file_offset(&self) -> Option<u64> {
        self.data_offset.checked_add(self.info.offset())
    }
}

/// All tensors of one type.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OfType {
    pub(super) tensors: u64,
    pub(super) elements: u64,
    pub(super) bytes: u64,
}

/// What is known of a file or of a whole set.
#[derive(Debug, Default)]
pub(super) struct Facts<'a> {
    pub(super) tensors: Vec<Tensor<'a>>,
    pub(super) types: BTreeMap<GgmlType, OfType>,
    /// Bytes of each part, in the order of the file.
    pub(super) parts: BTreeMap<PartKind, u64>,
    /// Bytes of all files.
    pub(super) bytes: u64,
}

impl<'a> Facts<'a> {
    pub(super) fn of(members: &[Member<'a>]) -> Self {
        let mut facts = Self::default();
        for (shard, member) in (1..).zip(members) {
            let Some(gguf) = member.verdict.as_ref().and_then(|verdict| verdict.gguf) else {
                continue;
            };
            facts.bytes += member.bytes;
            for part in Usage::of(&gguf).parts {
                *facts.parts.entry(part.kind).or_default() += part.bytes;
            }
            let data_offset = gguf.data_offset();
            for info in gguf.tensors() {
                let sum = facts.types.entry(info.ty()).or_default();
                let add = |to: &mut u64, n: Option<u64>| *to = to.saturating_add(n.unwrap_or(0));
                add(&mut sum.tensors, Some(1));
                add(&mut sum.elements, info.elements());
                add(&mut sum.bytes, info.byte_len());
                facts.tensors.push(Tensor {
                    shard,
                    info,
                    data_offset,
                });
            }
        }
        facts
    }

    /// Elements of all tensors.
    pub(super) fn parameters(&self) -> u64 {
        let sums = self.types.values();
        sums.fold(0, |all, sum| all.saturating_add(sum.elements))
    }

    /// Bytes of all tensors.
    pub(super) fn tensor_bytes(&self) -> u64 {
        let sums = self.types.values();
        sums.fold(0, |all, sum| all.saturating_add(sum.bytes))
    }

    /// `None` without elements, or with types of unknown size.
    pub(super) fn bits_per_weight(&self) -> Option<f64> {
        let parameters = self.parameters();
        let known = self.types.keys().all(|ty| ty.geometry().is_some());
        (known && parameters > 0).then(|| self.tensor_bytes() as f64 * 8.0 / parameters as f64)
    }

    pub(super) fn bytes_of(&self, kind: PartKind) -> u64 {
        self.parts.get(&kind).copied().unwrap_or(0)
    }
}
