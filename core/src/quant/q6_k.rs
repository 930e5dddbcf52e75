//! `Q6_K`: 16 scales of eight bits, 256 quants of six bits, 210 bytes a block.

use super::block::{Block256, Unpacked256, field, half, signed};

/// The type `Q6_K`: `ql: [u8; 128], qh: [u8; 64], scales: [i8; 16], d: f16`.
///
/// 128 elements take 64 bytes of `ql` (the low nibbles of all of them first) and 32 bytes of `qh`
/// (the lowest pairs of bits of all of them first); quants stand for -32..=31.
#[derive(Debug)]
pub(crate) struct Q6K;

impl Block256<210> for Q6K {
    const HAS_MIN: bool = false;

    #[inline(always)]
    fn unpack(block: &[u8; 210]) -> Unpacked256 {
        let ql: [u8; 128] = field::<0, 128, 210>(block);
        let qh: [u8; 64] = field::<128, 64, 210>(block);
        Unpacked256 {
            d: half::<208, 210>(block),
            dmin: 0.0,
            scales: field::<192, 16, 210>(block).map(signed),
            mins: [0; 16],
            qs: core::array::from_fn(|i| {
                let low = (ql[i / 128 * 64 + i % 64] >> (i % 128 / 64 * 4)) & 15;
                let high = (qh[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2)) & 3;
                signed(low | (high << 4)) - 32
            }),
        }
    }
}
