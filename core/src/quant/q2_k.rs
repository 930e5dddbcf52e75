//! `Q2_K`: 16 scales and minima of four bits, 256 quants of two bits, 84 bytes a block.

use super::block::{Block256, Unpacked256, field, half, signed};

/// The type `Q2_K`: `scales: [u8; 16], qs: [u8; 64], d: f16, dmin: f16`; the minimum is the upper
/// nibble of a scale byte.
#[derive(Debug)]
pub(crate) struct Q2K;

impl Block256<84> for Q2K {
    const HAS_MIN: bool = true;

    #[inline(always)]
    fn unpack(block: &[u8; 84]) -> Unpacked256 {
        let scales: [u8; 16] = field::<0, 16, 84>(block);
        let qs = pairs_of_bits(field::<16, 64, 84>(block));
        Unpacked256 {
            d: half::<80, 84>(block),
            dmin: half::<82, 84>(block),
            scales: scales.map(|byte| signed(byte & 15)),
            mins: scales.map(|byte| byte >> 4),
            qs: qs.map(signed),
        }
    }
}

/// 256 two-bit numbers: 32 bytes hold 128, the lowest pairs of bits of all 32 bytes first.
#[inline(always)]
pub(super) fn pairs_of_bits(bytes: [u8; 64]) -> [u8; 256] {
    core::array::from_fn(|i| (bytes[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2)) & 3)
}
