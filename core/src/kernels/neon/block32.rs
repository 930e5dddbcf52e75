//! Products of blocks of 32: eight rows, four at a time, with one to four tokens.

use core::arch::aarch64::*;
use core::marker::PhantomData;

use super::super::backend::Shape;
use super::super::eight_rows::{self, EightRows};
use super::dot::Dot;
use crate::quant::Q8Act;

/// How the blocks of a type unpack.
pub(super) trait Unpack32 {
    /// Whether an f16 minimum follows the scale.
    const HAS_MIN: bool;
    /// What [`take`](Self::take) has added to the quants.
    const OFFSET: i32;
    /// How large quants are after that: 4 or 5 bits without sign, or 8 for signed bytes.
    const BITS: u32;

    /// Unpacks the quants of the block at `at` and moves `at` behind it. The scale and, if there is
    /// one, the minimum become the words 0 and 1 of lane `LANE` of `scales`.
    ///
    /// # Safety
    ///
    /// A block can be read at `at`.
    unsafe fn take<const LANE: u32>(at: &mut *const u8, scales: &mut uint32x4_t) -> [int8x16_t; 2];
}

/// `out[t * rows + r]` becomes the product of weight row `r` and activation row `t`.
///
/// # Safety
///
/// The instructions of `D` are there, and the lengths of the slices are those of `shape`.
#[inline(never)] // Each type by itself: all in one function leaves too few registers.
pub(super) unsafe fn matmul<K: Unpack32, D: Dot>(
    weights: &[u8],
    shape: Shape,
    x: &[Q8Act],
    out: &mut [f32],
) {
    // SAFETY: the caller's promises.
    unsafe { eight_rows::matmul::<Blocks<K, D>, 4>(weights, shape, x, out) }
}

/// Rows of blocks of type `K`, multiplied by `D`.
struct Blocks<K, D>(PhantomData<(K, D)>);

// SAFETY: `Sums` are two registers of four f32.
unsafe impl<K: Unpack32, D: Dot> EightRows for Blocks<K, D> {
    type X = Q8Act;
    type Sums = [float32x4_t; 2];

    const TWO_BLOCKS: bool = false;

    #[inline(always)]
    unsafe fn multiply<const T: usize>(
        w: *const u8,
        stride: usize,
        blocks: usize,
        x: *const Q8Act,
    ) -> [[float32x4_t; 2]; T] {
        // SAFETY: the caller's promises, for rows 0 to 3 and 4 to 7.
        unsafe {
            let low: [float32x4_t; T] = four_rows::<K, D, T>(w, stride, blocks, x);
            let high: [float32x4_t; T] = four_rows::<K, D, T>(w.add(4 * stride), stride, blocks, x);
            core::array::from_fn(|t| [low[t], high[t]])
        }
    }
}

/// The products of four rows, `stride` bytes apart from `w` on, with the rows of `T` tokens, which
/// lie one after the other.
///
/// # Safety
///
/// The instructions of `D` are there, `blocks` blocks can be read at `w + r * stride`
/// for each `r` of 0..4, and `T * blocks` blocks at `x`.
#[inline(always)]
unsafe fn four_rows<K: Unpack32, D: Dot, const T: usize>(
    w: *const u8,
    stride: usize,
    blocks: usize,
    x: *const Q8Act,
) -> [float32x4_t; T] {
    // SAFETY: `blocks` blocks are taken of each row and of each token, so that the caller's promises
    // cover every block that is read; they also cover the instructions.
    unsafe {
        let mut acc = [vdupq_n_f32(0.0); T];
        let mut rows: [*const u8; 4] = core::array::from_fn(|r| w.wrapping_add(r * stride));
        let mut scales = vdupq_n_u32(0);
        for block in 0..blocks {
            let quants = [
                K::take::<0>(&mut rows[0], &mut scales),
                K::take::<1>(&mut rows[1], &mut scales),
                K::take::<2>(&mut rows[2], &mut scales),
                K::take::<3>(&mut rows[3], &mut scales),
            ];
            let words = vreinterpretq_u16_u32(scales);
            let d = super::f16_to_f32(vget_low_u16(vuzp1q_u16(words, words)));
            let m = super::f16_to_f32(vget_low_u16(vuzp2q_u16(words, words)));
            for t in 0..T {
                let x = &*x.add(t * blocks + block);
                let qs = x.qs().as_ptr();
                let halves = [vld1q_s8(qs), vld1q_s8(qs.add(16))];
                let mut isum = D::four_rows(K::BITS, quants, halves);
                if K::OFFSET != 0 {
                    isum = vsubq_s32(isum, vdupq_n_s32(K::OFFSET * x.sum));
                }
                let mut part = vmulq_f32(vmulq_n_f32(d, x.d), vcvtq_f32_s32(isum));
                if K::HAS_MIN {
                    let sum = vcvtq_f32_s32(vdupq_n_s32(x.sum));
                    part = vaddq_f32(part, vmulq_f32(vmulq_n_f32(m, x.d), sum));
                }
                acc[t] = vaddq_f32(acc[t], part);
            }
        }
        acc
    }
}
