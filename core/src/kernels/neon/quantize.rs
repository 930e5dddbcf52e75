//! Quantizing activations.

use core::arch::aarch64::*;

use super::super::scalar;
use crate::quant::{Q8Act, Q8KAct};

/// Quantizes each 32 of `x` into one of `out`.
pub(in super::super) fn quantize_q8(x: &[f32], out: &mut [Q8Act]) {
    for (x, out) in x.as_chunks::<32>().0.iter().zip(out) {
        // SAFETY: NEON is there.
        let amax = unsafe { vmaxvq_u32(magnitudes(x)) };
        let (d, inverse) = scalar::scale_of(amax);
        let mut qs = [0; 32];
        // SAFETY: NEON is there.
        let sum = inverse.map_or(0, |inverse| unsafe {
            vaddvq_s32(round(x, inverse, &mut qs))
        });
        *out = Q8Act::from_parts(d, sum, qs);
    }
}

/// Quantizes each 256 of `x` into one of `out`.
pub(in super::super) fn quantize_q8k(x: &[f32], out: &mut [Q8KAct]) {
    for (x, out) in x.as_chunks::<256>().0.iter().zip(out) {
        let (parts, _) = x.as_chunks::<32>();
        // SAFETY: NEON is there.
        let amax = unsafe {
            let mut most = vdupq_n_u32(0);
            for part in parts {
                most = vmaxq_u32(most, magnitudes(part));
            }
            vmaxvq_u32(most)
        };
        let (d, inverse) = scalar::scale_of(amax);
        let mut qs = [0; 256];
        if let Some(inverse) = inverse {
            for (part, qs) in parts.iter().zip(qs.as_chunks_mut::<32>().0) {
                round(part, inverse, qs);
            }
        }
        *out = Q8KAct::new(d, qs);
    }
}

/// The largest magnitudes of each fourth number, as bits.
#[inline(always)]
fn magnitudes(x: &[f32; 32]) -> uint32x4_t {
    // SAFETY: NEON is there, and so are four numbers in each part.
    unsafe {
        let mut most = vdupq_n_u32(0);
        for x in x.as_chunks::<4>().0 {
            most = vmaxq_u32(
                most,
                vreinterpretq_u32_f32(vabsq_f32(vld1q_f32(x.as_ptr()))),
            );
        }
        most
    }
}

/// Quants of 32 numbers that are at most a little more than 127 after multiplication, so that they
/// need no clamp; gives their sum in four parts.
///
/// The conversion rounds to nearest even, as adding and subtracting 1.5 * 2^23 does.
#[inline(always)]
fn round(x: &[f32; 32], inverse: f32, qs: &mut [i8; 32]) -> int32x4_t {
    let (x, _) = x.as_chunks::<16>();
    let (qs, _) = qs.as_chunks_mut::<16>();
    // SAFETY: NEON is there; 16 numbers are read and 16 bytes written in each part.
    unsafe {
        let mut sum = vdupq_n_s32(0);
        for (x, qs) in x.iter().zip(qs) {
            let q: [int32x4_t; 4] = core::array::from_fn(|i| {
                vcvtnq_s32_f32(vmulq_n_f32(vld1q_f32(x.as_ptr().add(4 * i)), inverse))
            });
            let low = vcombine_s16(vmovn_s32(q[0]), vmovn_s32(q[1]));
            let high = vcombine_s16(vmovn_s32(q[2]), vmovn_s32(q[3]));
            vst1q_s8(
                qs.as_mut_ptr(),
                vcombine_s8(vmovn_s16(low), vmovn_s16(high)),
            );
            sum = vpadalq_s16(vpadalq_s16(sum, low), high);
        }
        sum
    }
}
