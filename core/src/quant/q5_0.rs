//! `Q5_0`: an f16 scale, 32 fifth bits and 32 nibbles that stand for -16..=15, 22 bytes a block.

use super::block::{Block32, Unpacked32, field, half, nibbles, signed};

/// The type `Q5_0`: `d: f16, qh: u32, qs: [u8; 16]`; bit `i` of `qh` is the fifth bit of element `i`.
#[derive(Debug)]
#[allow(non_camel_case_types)] // ggml's name.
pub(crate) struct Q5_0;

impl Block32<22> for Q5_0 {
    const HAS_MIN: bool = false;

    #[inline(always)]
    fn unpack(block: &[u8; 22]) -> Unpacked32 {
        let qs = fifth_bits(nibbles(field::<6, 16, 22>(block)), field::<2, 4, 22>(block));
        Unpacked32 {
            d: half::<0, 22>(block),
            m: 0.0,
            qs: qs.map(|q| signed(q) - 16),
        }
    }
}

/// Puts bit `i` of the little-endian word `qh` on top of nibble `i`.
#[inline(always)]
pub(super) fn fifth_bits(qs: [u8; 32], qh: [u8; 4]) -> [u8; 32] {
    core::array::from_fn(|i| qs[i] | (((qh[i / 8] >> (i % 8)) & 1) << 4))
}
