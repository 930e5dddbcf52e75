//! Row operations whose common source a compiler does not turn into good NEON code.

use core::arch::aarch64::*;

use crate::kernels::math::{EXP_CUT, EXP2_POLYNOMIAL, ONE, ROUNDER};

/// [`exp`](crate::kernels::math::exp) of four numbers.
#[inline(always)]
pub(super) fn exp(x: float32x4_t) -> float32x4_t {
    // SAFETY: NEON is there.
    unsafe {
        let rounder = vdupq_n_f32(ROUNDER);
        let t = vmulq_f32(x, vdupq_n_f32(core::f32::consts::LOG2_E));
        let shifted = vaddq_f32(t, rounder);
        let f = vsubq_f32(t, vsubq_f32(shifted, rounder));
        let [c1, c2, c3, c4, c5] = EXP2_POLYNOMIAL;
        let mut p = vdupq_n_f32(c5);
        for c in [c4, c3, c2, c1, 1.0] {
            p = vaddq_f32(vmulq_f32(p, f), vdupq_n_f32(c));
        }
        let exponent = vshlq_n_u32::<23>(vreinterpretq_u32_f32(shifted));
        let power = vaddq_u32(exponent, vdupq_n_u32(ONE));
        let scaled = vmulq_f32(p, vreinterpretq_f32_u32(power));
        let cut = vcltq_f32(x, vdupq_n_f32(EXP_CUT));
        let kept = vbicq_u32(vreinterpretq_u32_f32(scaled), cut);
        vreinterpretq_f32_u32(kept)
    }
}
