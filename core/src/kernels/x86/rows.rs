//! Row operations: the common source, compiled for registers of eight numbers.

use core::arch::x86_64::*;

use crate::kernels::math::{EXP_CUT, EXP2_POLYNOMIAL, ROUNDER};
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

#[target_feature(enable = "avx2,f16c")]
pub(in crate::kernels) fn rope(x: &mut [f32], head_dim: usize, rotation: &[f32]) {
    rows::rope(x, head_dim, rotation);
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
    let scaled = _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(p), exponent));
    let cut = _mm256_cmp_ps::<_CMP_LT_OQ>(x, _mm256_set1_ps(EXP_CUT));
    _mm256_andnot_ps(cut, scaled)
}
