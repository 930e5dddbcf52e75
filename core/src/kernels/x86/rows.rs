//! Row operations: the common source, compiled for registers of eight numbers.

use core::arch::x86_64::*;

use crate::kernels::math::{EXP_CUT, EXP2_POLYNOMIAL, ONE, ROUNDER};
use crate::kernels::rows;

#[target_feature(enable = "avx2,f16c")]
pub(in crate::kernels) fn rms_norm(x: &[f32], weight: &[u8], eps: f32, out: &mut [f32]) {
    rows::rms_norm(x, weight, eps, out);
}

#[target_feature(enable = "avx2,f16c")]
pub(in crate::kernels) fn swiglu(gate: &mut [f32], up: &[f32]) {
    rows::swiglu(gate, up);
}

#[target_feature(enable = "avx2,f16c")]
pub(in crate::kernels) fn add(x: &mut [f32], y: &[f32]) {
    rows::add(x, y);
}

/// Heads that are rotated whole and are whole eights go eight elements at a time.
#[target_feature(enable = "avx2,f16c")]
pub(in crate::kernels) fn rope(x: &mut [f32], head_dim: usize, rotation: &[f32]) {
    if head_dim != rotation.len() || !head_dim.is_multiple_of(8) {
        rows::rope(x, head_dim, rotation);
        return;
    }
    let (angles, _) = rotation.as_chunks::<8>();
    for head in x.chunks_exact_mut(head_dim) {
        for (x, angles) in head.as_chunks_mut::<8>().0.iter_mut().zip(angles) {
            // SAFETY: 8 numbers are at each address.
            unsafe {
                let angles = _mm256_loadu_ps(angles.as_ptr());
                let pairs = _mm256_loadu_ps(x.as_ptr());
                let swapped = _mm256_permute_ps::<0b10_11_00_01>(pairs);
                let by_cos = _mm256_mul_ps(pairs, _mm256_moveldup_ps(angles));
                let by_sin = _mm256_mul_ps(swapped, _mm256_movehdup_ps(angles));
                _mm256_storeu_ps(x.as_mut_ptr(), _mm256_addsub_ps(by_cos, by_sin));
            }
        }
    }
}

#[target_feature(enable = "avx2,f16c")]
pub(in crate::kernels) fn largest_magnitude(x: &[f32]) -> u32 {
    rows::largest_magnitude(x)
}

#[target_feature(enable = "avx2,f16c")]
pub(in crate::kernels) fn quantize_bytes(x: &[f32], d: f32, out: &mut [i8]) {
    rows::quantize_bytes(x, d, out);
}

#[target_feature(enable = "avx2,f16c")]
pub(in crate::kernels) fn to_f16(x: &[f32], out: &mut [u16]) {
    let (eights, rest) = x.as_chunks::<8>();
    let (outs, rest_out) = out.as_chunks_mut::<8>();
    for (x, out) in eights.iter().zip(outs) {
        // SAFETY: 8 numbers are at `x`, and there is room for 8 at `out`.
        unsafe {
            let halves =
                _mm256_cvtps_ph::<{ _MM_FROUND_TO_NEAREST_INT }>(_mm256_loadu_ps(x.as_ptr()));
            _mm_storeu_si128(out.as_mut_ptr().cast(), halves);
        }
    }
    rows::to_f16(rest, rest_out);
}

/// [`exp`](crate::kernels::math::exp) of eight numbers.
#[target_feature(enable = "avx2,f16c")]
#[inline]
pub(super) fn exp(x: __m256) -> __m256 {
    let rounder = _mm256_set1_ps(ROUNDER);
    let t = _mm256_mul_ps(x, _mm256_set1_ps(core::f32::consts::LOG2_E));
    let shifted = _mm256_add_ps(t, rounder);
    let f = _mm256_sub_ps(t, _mm256_sub_ps(shifted, rounder));
    let [c1, c2, c3, c4, c5] = EXP2_POLYNOMIAL;
    let mut p = _mm256_set1_ps(c5);
    for c in [c4, c3, c2, c1, 1.0] {
        p = _mm256_add_ps(_mm256_mul_ps(p, f), _mm256_set1_ps(c));
    }
    let exponent = _mm256_slli_epi32::<23>(_mm256_castps_si256(shifted));
    let one = _mm256_set1_epi32(ONE.cast_signed());
    let power = _mm256_castsi256_ps(_mm256_add_epi32(exponent, one));
    let scaled = _mm256_mul_ps(p, power);
    let cut = _mm256_cmp_ps::<_CMP_LT_OQ>(x, _mm256_set1_ps(EXP_CUT));
    _mm256_andnot_ps(cut, scaled)
}
