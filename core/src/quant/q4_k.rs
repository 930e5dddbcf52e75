//! `Q4_K`: 8 scales and minima of six bits, 256 quants of four bits, 144 bytes a block.

use super::block::{
    Block256, Unpacked256, field, from_scales_and_mins, half, put, put_half, rounded_to_half,
    scales_and_mins, signed, unsigned,
};
use super::search::{Fit, Search, nearest_in, scale_and_min};

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

    fn pack(numbers: &Unpacked256) -> [u8; 144] {
        let mut block = [0; 144];
        put_half::<0, 144>(&mut block, numbers.d);
        put_half::<2, 144>(&mut block, numbers.dmin);
        put::<4, 12, 144>(
            &mut block,
            from_scales_and_mins(numbers.scales, numbers.mins),
        );
        put::<16, 128, 144>(&mut block, from_nibbles_of_64(numbers.qs.map(unsigned)));
        block
    }

    fn quantize(x: &[f32; 256]) -> Unpacked256 {
        const SEARCH: Search = Search {
            first: -1.0,
            delta: 0.1,
            steps: 20,
            absolute: false,
        };
        quantize_eight_groups(x, 15, &SEARCH)
    }
}

/// 256 nibbles: 32 bytes hold 64, the low ones first.
#[inline(always)]
pub(super) fn nibbles_of_64(bytes: [u8; 128]) -> [u8; 256] {
    core::array::from_fn(|i| (bytes[i / 64 * 32 + i % 32] >> (i % 64 / 32 * 4)) & 15)
}

/// The reverse of [`nibbles_of_64`]; of each number the four low bits count.
#[inline(always)]
pub(super) fn from_nibbles_of_64(qs: [u8; 256]) -> [u8; 128] {
    core::array::from_fn(|i| {
        let first = i / 32 * 64 + i % 32;
        (qs[first] & 15) | ((qs[first + 32] & 15) << 4)
    })
}

/// Quantizes eight groups of 32, each to `0..=max`, with scales and minima of six bits.
pub(super) fn quantize_eight_groups(x: &[f32; 256], max: i8, search: &Search) -> Unpacked256 {
    let (groups, _) = x.as_chunks::<32>();
    let fits: [Fit<32>; 8] = core::array::from_fn(|i| {
        let group = &groups[i];
        // Errors count more where numbers are large.
        let squares = group.iter().fold(0.0, |sum, x| sum + x * x);
        let typical = libm::sqrtf(squares / 32.0);
        scale_and_min(group, &group.map(|x| typical + x.abs()), max, search)
    });
    let max_scale = fits.iter().fold(0.0_f32, |max, fit| max.max(fit.scale));
    let max_min = fits.iter().fold(0.0_f32, |max, fit| max.max(fit.min));
    let inverse = |max: f32| if max > 0.0 { 63.0 / max } else { 0.0 };
    let (inverse_scale, inverse_min) = (inverse(max_scale), inverse(max_min));
    let scales: [i8; 16] =
        core::array::from_fn(|i| nearest_in(inverse_scale * fits[i / 2].scale, 0, 63));
    let mins: [u8; 16] =
        core::array::from_fn(|i| unsigned(nearest_in(inverse_min * fits[i / 2].min, 0, 63)));
    let (d, dmin) = (
        rounded_to_half(max_scale / 63.0),
        rounded_to_half(max_min / 63.0),
    );
    let qs = core::array::from_fn(|i| {
        let scale = d * f32::from(scales[i / 16]);
        if scale == 0.0 {
            return fits[i / 32].qs[i % 32];
        }
        let min = dmin * f32::from(mins[i / 16]);
        nearest_in((x[i] + min) / scale, 0, max.into())
    });
    Unpacked256 {
        d,
        dmin,
        scales,
        mins,
        qs,
    }
}
