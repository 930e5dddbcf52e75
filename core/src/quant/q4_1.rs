//! `Q4_1`: an f16 scale, an f16 minimum and 32 nibbles, 20 bytes a block.

use super::block::{Block32, Unpacked32, field, half, nibbles, signed};

/// The type `Q4_1`: `d: f16, m: f16, qs: [u8; 16]`.
#[derive(Debug)]
#[allow(non_camel_case_types)] // ggml's name.
pub(crate) struct Q4_1;

impl Block32<20> for Q4_1 {
    const HAS_MIN: bool = true;

    #[inline(always)]
    fn unpack(block: &[u8; 20]) -> Unpacked32 {
        Unpacked32 {
            d: half::<0, 20>(block),
            m: half::<2, 20>(block),
            qs: nibbles(field::<4, 16, 20>(block)).map(signed),
        }
    }
}
