//! `Q6_K`: 16 scales of eight bits, 256 quants of six bits, 210 bytes a block.

use super::block::{
    Block256, Unpacked256, field, half, largest, put, put_half, rounded_to_half, signed, unsigned,
};
use super::search::{ALL_ZERO, Fit, nearest_in, scale};

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

    fn pack(numbers: &Unpacked256) -> [u8; 210] {
        let qs = numbers.qs.map(|q| unsigned(q + 32));
        let ql = core::array::from_fn(|i| {
            let first = i / 64 * 128 + i % 64;
            (qs[first] & 15) | ((qs[first + 64] & 15) << 4)
        });
        let qh = core::array::from_fn(|i| {
            let first = i / 32 * 128 + i % 32;
            (0..4).fold(0, |bits, j| bits | ((qs[first + j * 32] >> 4) << (j * 2)))
        });
        let mut block = [0; 210];
        put::<0, 128, 210>(&mut block, ql);
        put::<128, 64, 210>(&mut block, qh);
        put::<192, 16, 210>(&mut block, numbers.scales.map(unsigned));
        put_half::<208, 210>(&mut block, numbers.d);
        block
    }

    fn quantize(x: &[f32; 256]) -> Unpacked256 {
        let (groups, _) = x.as_chunks::<16>();
        let fits: [Fit<16>; 16] = core::array::from_fn(|i| scale(&groups[i], 32));
        let max = largest(&fits.map(|fit| fit.scale));
        if max.abs() < ALL_ZERO {
            // All bytes 0.
            return Unpacked256 {
                d: 0.0,
                dmin: 0.0,
                scales: [0; 16],
                mins: [0; 16],
                qs: [-32; 256],
            };
        }
        let inverse = -128.0 / max;
        let d = rounded_to_half(1.0 / inverse);
        let scales = fits.map(|fit| nearest_in(inverse * fit.scale, -128, 127));
        let qs = core::array::from_fn(|i| {
            let group = i / 16;
            let scale = d * f32::from(scales[group]);
            if scale == 0.0 {
                return fits[group].qs[i % 16];
            }
            nearest_in(x[i] / scale, -32, 31)
        });
        Unpacked256 {
            d,
            dmin: 0.0,
            scales,
            mins: [0; 16],
            qs,
        }
    }
}
