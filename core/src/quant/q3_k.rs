//! `Q3_K`: 16 signed scales of six bits, 256 quants of three bits, 110 bytes a block.

use super::block::{Block256, Unpacked256, field, half, signed};
use super::q2_k::pairs_of_bits;

/// The type `Q3_K`: `hmask: [u8; 32], qs: [u8; 64], scales: [u8; 12], d: f16`.
#[derive(Debug)]
pub(crate) struct Q3K;

impl Block256<110> for Q3K {
    const HAS_MIN: bool = false;

    #[inline(always)]
    fn unpack(block: &[u8; 110]) -> Unpacked256 {
        let hmask: [u8; 32] = field::<0, 32, 110>(block);
        let low = pairs_of_bits(field::<32, 64, 110>(block));
        Unpacked256 {
            d: half::<108, 110>(block),
            dmin: 0.0,
            scales: scales(field::<96, 12, 110>(block)),
            mins: [0; 16],
            // A third bit that is set stands for 0, one that is not for -4.
            qs: core::array::from_fn(|i| {
                let high = (hmask[i % 32] >> (i / 32)) & 1;
                signed(low[i] | (high << 2)) - 4
            }),
        }
    }
}

/// The scales, -32..=31: bytes 0..8 hold the low nibbles of scales 0..8 (low) and 8..16 (high),
/// bytes 8..12 the upper two bits, those of scales `j`, `j + 4`, `j + 8`, `j + 12` in one byte.
#[inline(always)]
pub(crate) fn scales(packed: [u8; 12]) -> [i8; 16] {
    core::array::from_fn(|i| {
        let low = (packed[i % 8] >> (i / 8 * 4)) & 15;
        let high = (packed[8 + i % 4] >> (i / 4 * 2)) & 3;
        signed(low | (high << 4)) - 32
    })
}
