//! Integer products: with NEON's widening multiplications, or with the dot product instruction.

use core::arch::aarch64::*;
use core::arch::asm;

/// A way to multiply bytes and sum up the products.
pub(in super::super) trait Dot {
    /// The sums of the products of 32 quants of each of four rows; `bits` says how large quants can
    /// be: they are not negative for 4 and 5, and any for 8.
    ///
    /// # Safety
    ///
    /// The instructions are there.
    unsafe fn four_rows(bits: u32, quants: [[int8x16_t; 2]; 4], x: [int8x16_t; 2]) -> int32x4_t;

    /// The sum of 16 products in four parts. Quants are at most 6 bits in magnitude.
    ///
    /// # Safety
    ///
    /// The instructions are there.
    unsafe fn sixteen(quants: int8x16_t, x: int8x16_t) -> int32x4_t;
}

/// SMULL and SMLAL.
pub(in super::super) struct Neon;

/// The products of 32 quants in eight sums of 16 bits.
///
/// # Safety
///
/// NEON is there.
#[inline(always)]
unsafe fn products(quants: [int8x16_t; 2], x: [int8x16_t; 2]) -> int16x8_t {
    // SAFETY: NEON is there.
    unsafe {
        let sums = vmull_s8(vget_low_s8(quants[0]), vget_low_s8(x[0]));
        let sums = vmlal_high_s8(sums, quants[0], x[0]);
        let sums = vmlal_s8(sums, vget_low_s8(quants[1]), vget_low_s8(x[1]));
        vmlal_high_s8(sums, quants[1], x[1])
    }
}

impl Dot for Neon {
    #[inline(always)]
    unsafe fn four_rows(bits: u32, quants: [[int8x16_t; 2]; 4], x: [int8x16_t; 2]) -> int32x4_t {
        // SAFETY: NEON is there.
        unsafe {
            match bits {
                // 16 products are at most 16 * 15 * 127 < 2^15.
                4 => {
                    let s: [int16x8_t; 4] = core::array::from_fn(|r| products(quants[r], x));
                    let sums = vpaddq_s16(vpaddq_s16(s[0], s[1]), vpaddq_s16(s[2], s[3]));
                    vpaddlq_s16(sums)
                }
                // 8 products are at most 8 * 31 * 127 < 2^15.
                5 => {
                    let s: [int16x8_t; 4] = core::array::from_fn(|r| products(quants[r], x));
                    let low = vpaddlq_s16(vpaddq_s16(s[0], s[1]));
                    let high = vpaddlq_s16(vpaddq_s16(s[2], s[3]));
                    vpaddq_s32(low, high)
                }
                // 2 products are at most 2 * 128 * 127 < 2^15.
                _ => {
                    let s: [int32x4_t; 4] = core::array::from_fn(|r| {
                        let half = |i: usize| {
                            let sums = vmull_s8(vget_low_s8(quants[r][i]), vget_low_s8(x[i]));
                            vmlal_high_s8(sums, quants[r][i], x[i])
                        };
                        vpadalq_s16(vpaddlq_s16(half(0)), half(1))
                    });
                    super::join(s)
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn sixteen(quants: int8x16_t, x: int8x16_t) -> int32x4_t {
        // SAFETY: NEON is there.
        unsafe {
            let sums = vmull_s8(vget_low_s8(quants), vget_low_s8(x));
            vpaddlq_s16(vmlal_high_s8(sums, quants, x))
        }
    }
}

/// SDOT.
pub(in super::super) struct Dotprod;

/// `sums` and four products in each lane.
///
/// # Safety
///
/// The dot product extension is there.
#[inline(always)]
unsafe fn sdot(sums: int32x4_t, quants: int8x16_t, x: int8x16_t) -> int32x4_t {
    let mut out = sums;
    // SAFETY: the caller has the instruction, and only registers change.
    unsafe {
        asm!(
            ".arch_extension dotprod",
            "sdot {out:v}.4s, {quants:v}.16b, {x:v}.16b",
            out = inout(vreg) out, quants = in(vreg) quants, x = in(vreg) x,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    out
}

impl Dot for Dotprod {
    #[inline(always)]
    unsafe fn four_rows(_bits: u32, quants: [[int8x16_t; 2]; 4], x: [int8x16_t; 2]) -> int32x4_t {
        // SAFETY: the caller has the dot product extension.
        unsafe {
            super::join(core::array::from_fn(|r| {
                let sums = sdot(vdupq_n_s32(0), quants[r][0], x[0]);
                sdot(sums, quants[r][1], x[1])
            }))
        }
    }

    #[inline(always)]
    unsafe fn sixteen(quants: int8x16_t, x: int8x16_t) -> int32x4_t {
        // SAFETY: the caller has the dot product extension.
        unsafe { sdot(vdupq_n_s32(0), quants, x) }
    }
}
