//! `Q5_K`: 8 scales and minima of six bits, 256 quants of five bits, 176 bytes a block.

use super::block::{Block256, Unpacked256, field, half, scales_and_mins, signed};
use super::q4_k::nibbles_of_64;

/// The type `Q5_K`: `d: f16, dmin: f16, scales: [u8; 12], qh: [u8; 32], qs: [u8; 128]`.
#[derive(Debug)]
pub(crate) struct Q5K;

impl Block256<176> for Q5K {
    const HAS_MIN: bool = true;

    #[inline(always)]
    fn unpack(block: &[u8; 176]) -> Unpacked256 {
        let (scales, mins) = scales_and_mins(field::<4, 12, 176>(block));
        let qh: [u8; 32] = field::<16, 32, 176>(block);
        let low = nibbles_of_64(field::<48, 128, 176>(block));
        Unpacked256 {
            d: half::<0, 176>(block),
            dmin: half::<2, 176>(block),
            scales,
            mins,
            // Bit `j` of the bytes of `qh` belongs to the elements `32 * j..32 * j + 32`.
            qs: core::array::from_fn(|i| {
                let high = (qh[i % 32] >> (i / 32)) & 1;
                signed(low[i] | (high << 4))
            }),
        }
    }
}
