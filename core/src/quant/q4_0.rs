//! `Q4_0`: an f16 scale and 32 nibbles that stand for -8..=7, 18 bytes a block.

use super::block::{Block32, Unpacked32, field, half, nibbles, signed};

/// The type `Q4_0`: `d: f16, qs: [u8; 16]`.
#[derive(Debug)]
#[allow(non_camel_case_types)] // ggml's name.
pub(crate) struct Q4_0;

impl Block32<18> for Q4_0 {
    const HAS_MIN: bool = false;

    #[inline(always)]
    fn unpack(block: &[u8; 18]) -> Unpacked32 {
        Unpacked32 {
            d: half::<0, 18>(block),
            m: 0.0,
            qs: nibbles(field::<2, 16, 18>(block)).map(|q| signed(q) - 8),
        }
    }
}
