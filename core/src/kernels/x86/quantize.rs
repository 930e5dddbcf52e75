//! Quantizing activations.

use core::arch::x86_64::*;

use super::super::scalar;
use crate::quant::{Q8Act, Q8KAct};

/// Quantizes each 32 of `x` into one of `out`.
#[target_feature(enable = "avx2")]
pub(in super::super) fn quantize_q8(x: &[f32], out: &mut [Q8Act]) {
    for (x, out) in x.as_chunks::<32>().0.iter().zip(out) {
        let (d, inverse) = scalar::scale_of(largest(magnitudes(x)));
        let mut qs = [0; 32];
        let sum = inverse.map_or(0, |inverse| horizontal(round(x, inverse, &mut qs)));
        *out = Q8Act::from_parts(d, sum, qs);
    }
}

/// Quantizes each 256 of `x` into one of `out`.
#[target_feature(enable = "avx2")]
pub(in super::super) fn quantize_q8k(x: &[f32], out: &mut [Q8KAct]) {
    for (x, out) in x.as_chunks::<256>().0.iter().zip(out) {
        let (parts, _) = x.as_chunks::<32>();
        let mut most = _mm256_setzero_si256();
        for part in parts {
            most = _mm256_max_epi32(most, magnitudes(part));
        }
        let (d, inverse) = scalar::scale_of(largest(most));
        let mut qs = [0; 256];
        if let Some(inverse) = inverse {
            for (part, qs) in parts.iter().zip(qs.as_chunks_mut::<32>().0) {
                round(part, inverse, qs);
            }
        }
        *out = Q8KAct::new(d, qs);
    }
}

/// The largest magnitudes of each eighth number, as bits.
#[inline]
#[target_feature(enable = "avx2")]
fn magnitudes(x: &[f32; 32]) -> __m256i {
    let magnitude = _mm256_set1_epi32(0x7fff_ffff);
    let mut most = _mm256_setzero_si256();
    for x in x.as_chunks::<8>().0 {
        // SAFETY: 8 numbers are there.
        let bits = unsafe { _mm256_loadu_si256(x.as_ptr().cast()) };
        // Without their sign the bits are positive, so that a signed comparison will do.
        most = _mm256_max_epi32(most, _mm256_and_si256(bits, magnitude));
    }
    most
}

/// The largest of eight positive integers.
#[inline]
#[target_feature(enable = "avx2")]
fn largest(of: __m256i) -> u32 {
    let four = _mm_max_epi32(
        _mm256_castsi256_si128(of),
        _mm256_extracti128_si256::<1>(of),
    );
    let two = _mm_max_epi32(four, _mm_shuffle_epi32::<0b01_00_11_10>(four));
    let one = _mm_max_epi32(two, _mm_shuffle_epi32::<0b10_11_00_01>(two));
    _mm_cvtsi128_si32(one).cast_unsigned()
}

/// The sum of eight integers.
#[inline]
#[target_feature(enable = "avx2")]
fn horizontal(of: __m256i) -> i32 {
    let four = _mm_add_epi32(
        _mm256_castsi256_si128(of),
        _mm256_extracti128_si256::<1>(of),
    );
    let two = _mm_add_epi32(four, _mm_shuffle_epi32::<0b01_00_11_10>(four));
    let one = _mm_add_epi32(two, _mm_shuffle_epi32::<0b10_11_00_01>(two));
    _mm_cvtsi128_si32(one)
}

/// Quants of 32 numbers that are at most a little more than 127 after multiplication, so that they
/// need no clamp; gives their sum in eight parts.
///
/// The conversion rounds to nearest even, as adding and subtracting 1.5 * 2^23 does.
#[inline]
#[target_feature(enable = "avx2")]
fn round(x: &[f32; 32], inverse: f32, qs: &mut [i8; 32]) -> __m256i {
    let inverse = _mm256_set1_ps(inverse);
    let (x, _) = x.as_chunks::<8>();
    let q: [__m256i; 4] = core::array::from_fn(|i| {
        // SAFETY: 8 numbers are there.
        let x = unsafe { _mm256_loadu_ps(x[i].as_ptr()) };
        _mm256_cvtps_epi32(_mm256_mul_ps(x, inverse))
    });
    let low = _mm256_packs_epi32(q[0], q[1]);
    let high = _mm256_packs_epi32(q[2], q[3]);
    // Packing works within lanes: this puts the groups of four back into their order.
    let order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    let bytes = _mm256_permutevar8x32_epi32(_mm256_packs_epi16(low, high), order);
    // SAFETY: there is room for 32 bytes.
    unsafe { _mm256_storeu_si256(qs.as_mut_ptr().cast(), bytes) };
    _mm256_add_epi32(_mm256_add_epi32(q[0], q[1]), _mm256_add_epi32(q[2], q[3]))
}
