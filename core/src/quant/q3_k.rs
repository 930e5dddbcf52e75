//! `Q3_K`: 16 signed scales of six bits, 256 quants of three bits, 110 bytes a block.

use super::block::{
    Block256, Unpacked256, field, half, largest, put, put_half, rounded_to_half, signed, unsigned,
};
use super::q2_k::{from_pairs_of_bits, pairs_of_bits};
use super::search::{Fit, nearest_in, scale_of_three_bits};

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

    fn pack(numbers: &Unpacked256) -> [u8; 110] {
        let qs = numbers.qs.map(|q| unsigned(q + 4));
        let hmask = core::array::from_fn(|i| {
            (0..8).fold(0, |mask, j| mask | (((qs[j * 32 + i] >> 2) & 1) << j))
        });
        let mut block = [0; 110];
        put::<0, 32, 110>(&mut block, hmask);
        put::<32, 64, 110>(&mut block, from_pairs_of_bits(qs));
        put::<96, 12, 110>(&mut block, from_scales(numbers.scales));
        put_half::<108, 110>(&mut block, numbers.d);
        block
    }

    fn quantize(x: &[f32; 256]) -> Unpacked256 {
        let (groups, _) = x.as_chunks::<16>();
        let fits: [Fit<16>; 16] = core::array::from_fn(|i| scale_of_three_bits(&groups[i]));
        let max = largest(&fits.map(|fit| fit.scale));
        let mut d = 0.0;
        let mut scales = [-32; 16];
        if max != 0.0 {
            let inverse = -32.0 / max;
            scales = fits.map(|fit| nearest_in(inverse * fit.scale, -32, 31));
            d = rounded_to_half(1.0 / inverse);
        }
        let qs = core::array::from_fn(|i| {
            let group = i / 16;
            let scale = d * f32::from(scales[group]);
            if scale == 0.0 {
                return fits[group].qs[i % 16];
            }
            nearest_in(x[i] / scale, -4, 3)
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

/// The reverse of [`scales`].
#[inline(always)]
fn from_scales(scales: [i8; 16]) -> [u8; 12] {
    let scale = |i: usize| unsigned(scales[i] + 32);
    core::array::from_fn(|i| match i {
        0..8 => (scale(i) & 15) | ((scale(i + 8) & 15) << 4),
        _ => (0..4).fold(0, |high, j| {
            high | (((scale(j * 4 + i - 8) >> 4) & 3) << (j * 2))
        }),
    })
}
