//! `Q2_K`: 16 scales and minima of four bits, 256 quants of two bits, 84 bytes a block.

use super::block::{
    Block256, Unpacked256, field, half, put, put_half, rounded_to_half, signed, unsigned,
};
use super::search::{Fit, Search, nearest_in, scale_and_min};

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

    fn pack(numbers: &Unpacked256) -> [u8; 84] {
        let scale = |i: usize| (unsigned(numbers.scales[i]) & 15) | (numbers.mins[i] << 4);
        let mut block = [0; 84];
        put::<0, 16, 84>(&mut block, core::array::from_fn(scale));
        put::<16, 64, 84>(&mut block, from_pairs_of_bits(numbers.qs.map(unsigned)));
        put_half::<80, 84>(&mut block, numbers.d);
        put_half::<82, 84>(&mut block, numbers.dmin);
        block
    }

    fn quantize(x: &[f32; 256]) -> Unpacked256 {
        const SEARCH: Search = Search {
            first: -0.5,
            delta: 0.1,
            steps: 15,
            absolute: true,
        };
        let (groups, _) = x.as_chunks::<16>();
        let fits: [Fit<16>; 16] = core::array::from_fn(|i| {
            scale_and_min(&groups[i], &groups[i].map(f32::abs), 3, &SEARCH)
        });
        let max_scale = fits.iter().fold(0.0_f32, |max, fit| max.max(fit.scale));
        let max_min = fits.iter().fold(0.0_f32, |max, fit| max.max(fit.min));
        // Scales and minima have four bits.
        let inverse = |max: f32| if max > 0.0 { 15.0 / max } else { 0.0 };
        let (inverse_scale, inverse_min) = (inverse(max_scale), inverse(max_min));
        let scales = fits.map(|fit| nearest_in(inverse_scale * fit.scale, 0, 15));
        let mins = fits.map(|fit| unsigned(nearest_in(inverse_min * fit.min, 0, 15)));
        let (d, dmin) = (
            rounded_to_half(max_scale / 15.0),
            rounded_to_half(max_min / 15.0),
        );
        let qs = core::array::from_fn(|i| {
            let group = i / 16;
            let scale = d * f32::from(scales[group]);
            if scale == 0.0 {
                return fits[group].qs[i % 16];
            }
            let min = dmin * f32::from(mins[group]);
            nearest_in((x[i] + min) / scale, 0, 3)
        });
        Unpacked256 {
            d,
            dmin,
            scales,
            mins,
            qs,
        }
    }
}

/// 256 two-bit numbers: 32 bytes hold 128, the lowest pairs of bits of all 32 bytes first.
#[inline(always)]
pub(super) fn pairs_of_bits(bytes: [u8; 64]) -> [u8; 256] {
    core::array::from_fn(|i| (bytes[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2)) & 3)
}

/// The reverse of [`pairs_of_bits`]; of each number the two low bits count.
#[inline(always)]
pub(super) fn from_pairs_of_bits(qs: [u8; 256]) -> [u8; 64] {
    core::array::from_fn(|i| {
        let first = i / 32 * 128 + i % 32;
        let pair = |part: usize| (qs[first + part * 32] & 3) << (part * 2);
        pair(0) | pair(1) | pair(2) | pair(3)
    })
}
