//! `Q4_K`: 8 scales and minima of six bits, 256 quants of four bits, 144 bytes a block.

use super::block::{Block256, Unpacked256, field, half, scales_and_mins, signed};

/// The type `Q4_K`: `d: f16, dmin: f16, scales: [u8; 12], qs: [u8; 128]`.
#[derive(Debug)]
pub(crate) struct Q4K;

impl Block256<144> for Q4K {
    const HAS_MIN: bool = true;

    #[inline(always)]
    fn unpack(block: &[u8; 144]) -> Unpacked256 {
        let (scales, mins) = scales_and_mins(field::<4, 12, 144>(block));
        Unpacked256 {
            d: half::<0, 144>(block),
            dmin: half::<2, 144>(block),
            scales,
            mins,
            qs: nibbles_of_64(field::<16, 128, 144>(block)).map(signed),
        }
    }
}

/// 256 nibbles: 32 bytes hold 64, the low ones first.
#[inline(always)]
pub(super) fn nibbles_of_64(bytes: [u8; 128]) -> [u8; 256] {
    core::array::from_fn(|i| (bytes[i / 64 * 32 + i % 32] >> (i % 64 / 32 * 4)) & 15)
}
