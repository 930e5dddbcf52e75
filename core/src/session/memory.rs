//! All buffers of a session, cut out of one piece of memory.

use zerocopy::{FromBytes, IntoBytes, KnownLayout};

use super::{Buffers, Plan, SessionError};
use crate::kv_cache::{KvBuffers, KvType};

impl Plan {
    /// 64-bit words that all buffers together take: see [`Session::in_memory`].
    ///
    /// [`Session::in_memory`]: super::Session::in_memory
    #[must_use]
    pub const fn words(&self) -> usize {
        self.bytes().div_ceil(size_of::<u64>())
    }
}

impl<'b> Buffers<'b> {
    /// Buffers of the lengths of `plan`, which was made for keys and values of type `kv`, cut out of
    /// `memory` without a gap: [`Plan::words`] are enough. What it holds does not matter.
    ///
    /// # Errors
    /// The memory is too short.
    pub fn cut(plan: &Plan, kv: KvType, memory: &'b mut [u64]) -> Result<Self, SessionError> {
        let (needed, given) = (plan.words(), memory.len());
        let cut = Self::try_cut(plan, kv, memory).filter(|_| needed <= given);
        cut.ok_or(SessionError::BufferTooSmall {
            buffer: "memory",
            needed,
            given,
        })
    }

    fn try_cut(plan: &Plan, kv: KvType, memory: &'b mut [u64]) -> Option<Self> {
        // From the largest alignment to the smallest, so that each begins where the last ends.
        let (steps, memory) = memory.split_at_mut_checked(plan.steps)?;
        let rest = &mut memory.as_mut_bytes();
        let floats = take(rest, plan.floats)?;
        let q8 = take(rest, plan.q8)?;
        let q8k = take(rest, plan.q8k)?;
        let (ints, kv) = match kv {
            KvType::F32 => {
                let elements = take(rest, plan.kv_elements)?;
                (take(rest, plan.ints)?, KvBuffers::F32(elements))
            }
            KvType::F16 => {
                let elements = take(rest, plan.kv_elements)?;
                (take(rest, plan.ints)?, KvBuffers::F16(elements))
            }
            KvType::Q8 | KvType::Q8Row => {
                let ints = take(rest, plan.ints)?;
                let scales = take(rest, plan.kv_scales)?;
                let qs = take(rest, plan.kv_elements)?;
                (ints, KvBuffers::Q8 { qs, scales })
            }
        };
        Some(Self {
            floats,
            q8,
            q8k,
            ints,
            steps,
            kv,
        })
    }
}

/// The first `len` elements of what is left.
fn take<'b, T>(rest: &mut &'b mut [u8], len: usize) -> Option<&'b mut [T]>
where
    [T]: FromBytes + IntoBytes + KnownLayout<PointerMetadata = usize>,
{
    let bytes = core::mem::take(rest);
    let (part, behind) = <[T]>::mut_from_prefix_with_elems(bytes, len).ok()?;
    *rest = behind;
    Some(part)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Hyperparameters;
    use crate::session::SessionOptions;

    const HP: Hyperparameters = Hyperparameters {
        n_layers: 3,
        n_embd: 288,
        n_ff: 768,
        n_heads: 6,
        n_kv_heads: 3,
        head_dim: 48,
        n_vocab: 513,
        n_ctx: 64,
        rope_dim: 46,
        rope_freq_base: 10_000.0,
        rope_scale: 1.0,
        rms_eps: 1e-5,
    };

    /// Length and capacity of the cache's buffers.
    fn kv_lens(kv: &KvBuffers<'_>) -> (usize, usize) {
        match kv {
            KvBuffers::F32(elements) => (elements.len(), 0),
            KvBuffers::F16(elements) => (elements.len(), 0),
            KvBuffers::Q8 { qs, scales } => (qs.len(), scales.len()),
        }
    }

    #[test]
    fn every_buffer_is_as_long_as_planned_and_none_overlap() {
        // An odd window makes odd lengths.
        for kv in [KvType::F32, KvType::F16, KvType::Q8, KvType::Q8Row] {
            for (q8, q8k) in [(false, false), (true, false), (false, true), (true, true)] {
                let options = SessionOptions {
                    batch: 3,
                    ..SessionOptions::new(kv, 7)
                };
                let plan = Plan::with_forms(&HP, &options, q8, q8k);
                let mut memory = std::vec![0; plan.words()];
                let buffers = Buffers::cut(&plan, kv, &mut memory).unwrap();
                assert_eq!(buffers.floats.len(), plan.floats);
                assert_eq!(buffers.q8.len(), plan.q8);
                assert_eq!(buffers.q8k.len(), plan.q8k);
                assert_eq!(buffers.ints.len(), plan.ints);
                assert_eq!(buffers.steps.len(), plan.steps);
                assert_eq!(
                    kv_lens(&buffers.kv),
                    (plan.kv_elements, plan.kv_scales),
                    "{kv:?}"
                );

                let short = plan.words() - 1;
                let error = Buffers::cut(&plan, kv, memory.get_mut(..short).unwrap()).unwrap_err();
                let (buffer, needed, given) = ("memory", plan.words(), short);
                assert_eq!(
                    error,
                    SessionError::BufferTooSmall {
                        buffer,
                        needed,
                        given
                    }
                );
            }
        }
    }

    #[test]
    fn a_plan_that_no_memory_can_hold_is_an_error() {
        let options = SessionOptions::new(KvType::F32, usize::MAX / 4);
        let plan = Plan::with_forms(&HP, &options, true, true);
        assert!(Buffers::cut(&plan, KvType::F32, &mut [0; 64]).is_err());
    }
}
