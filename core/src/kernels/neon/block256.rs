//! Products of blocks of 256: eight rows, four at a time, with one to four tokens.

use core::arch::aarch64::*;
use core::marker::PhantomData;

use super::super::backend::Shape;
use super::super::eight_rows::{self, EightRows};
use super::dot::Dot;
use crate::quant::Q8KAct;

/// A block.
#[derive(Clone, Copy)]
pub(super) struct Unpacked {
    /// Quants in order, -32..=31.
    pub(super) quants: [int8x16_t; 16],
    /// The scale of each 16.
    pub(super) scales: int8x16_t,
    /// The minimum of each 16, at most 63; not used where there are no minima.
    pub(super) mins: uint8x16_t,
}

/// How the blocks of a K type unpack.
pub(super) trait Unpack256 {
    /// Bytes of a block.
    const BYTES: usize;
    /// Where the f16 scale is.
    const D: usize;
    /// Where the f16 scale of the minima is, if there are minima.
    const DMIN: Option<usize>;

    /// Unpacks the block at `at`.
    ///
    /// # Safety
    ///
    /// `BYTES` bytes can be read at `at`.
    unsafe fn unpack(at: *const u8) -> Unpacked;
}

/// `out[t * rows + r]` becomes the product of weight row `r` and activation row `t`.
///
/// # Safety
///
/// The instructions of `D` are there, and the lengths of the slices are those of `shape`.
#[inline(never)] // Each type by itself: all in one function leaves too few registers.
pub(super) unsafe fn matmul<K: Unpack256, D: Dot>(
    weights: &[u8],
    shape: Shape,
    x: &[Q8KAct],
    out: &mut [f32],
) {
    // SAFETY: the caller's promises.
    unsafe { eight_rows::matmul::<Blocks<K, D>, 4>(weights, shape, x, out) }
}

/// Rows of blocks of type `K`, multiplied by `D`.
struct Blocks<K, D>(PhantomData<(K, D)>);

// SAFETY: `Sums` are two registers of four f32.
unsafe impl<K: Unpack256, D: Dot> EightRows for Blocks<K, D> {
    type X = Q8KAct;
    type Sums = [float32x4_t; 2];

    const TWO_BLOCKS: bool = false;

    #[inline(always)]
    unsafe fn multiply<const T: usize>(
        w: *const u8,
        stride: usize,
        blocks: usize,
        x: *const Q8KAct,
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
/// The instructions of `D` are there, `blocks * K::BYTES` bytes can be read at `w + r * stride`
/// for each `r` of 0..4, and `T * blocks` blocks at `x`.
#[inline(never)] // Large, and twice in eight rows.
unsafe fn four_rows<K: Unpack256, D: Dot, const T: usize>(
    w: *const u8,
    stride: usize,
    blocks: usize,
    x: *const Q8KAct,
) -> [float32x4_t; T] {
    // SAFETY: `block` is below `blocks`, `t` below `T` and rows are below 4, so that the caller's
    // promises cover every block that is read; they also cover the instructions.
    unsafe {
        let mut acc = [vdupq_n_f32(0.0); T];
        for block in 0..blocks {
            let row = |r: usize| w.add(r * stride + block * K::BYTES);
            let x: [&Q8KAct; T] = core::array::from_fn(|t| &*x.add(t * blocks + block));
            let mut isums = [[vdupq_n_s32(0); 4]; T];
            let mut msums = [[vdupq_n_s32(0); 4]; T];
            for r in 0..4 {
                let unpacked = K::unpack(row(r));
                let scales = words(unpacked.scales);
                for t in 0..T {
                    isums[t][r] = dot::<D>(&unpacked.quants, scales, x[t]);
                    if K::DMIN.is_some() {
                        msums[t][r] = minima(unpacked.mins, x[t]);
                    }
                }
            }
            let scale = |offset: usize| halves(core::array::from_fn(|r| row(r).add(offset).cast()));
            let d = scale(K::D);
            for t in 0..T {
                let isum = vcvtq_f32_s32(super::join(isums[t]));
                let mut part = vmulq_f32(vmulq_n_f32(d, x[t].d), isum);
                if let Some(offset) = K::DMIN {
                    let msum = vcvtq_f32_s32(super::join(msums[t]));
                    part = vsubq_f32(part, vmulq_f32(vmulq_n_f32(scale(offset), x[t].d), msum));
                }
                acc[t] = vaddq_f32(acc[t], part);
            }
        }
        acc
    }
}

/// 16 bytes as words of 32 bits.
#[inline(always)]
fn words(bytes: int8x16_t) -> [int32x4_t; 4] {
    // SAFETY: NEON is there.
    unsafe {
        let (low, high) = (vmovl_s8(vget_low_s8(bytes)), vmovl_high_s8(bytes));
        [
            vmovl_s16(vget_low_s16(low)),
            vmovl_high_s16(low),
            vmovl_s16(vget_low_s16(high)),
            vmovl_high_s16(high),
        ]
    }
}

/// The sum of `scale * quant * x` in four parts.
///
/// # Safety
///
/// The instructions of `D` are there.
#[inline(always)]
unsafe fn dot<D: Dot>(quants: &[int8x16_t; 16], scales: [int32x4_t; 4], x: &Q8KAct) -> int32x4_t {
    let x = x.qs().as_ptr();
    // SAFETY: there are 16 times 16 quants; the caller has the instructions.
    unsafe {
        let sixteen = |i: usize| D::sixteen(quants[i], vld1q_s8(x.add(16 * i)));
        let mut isum = vdupq_n_s32(0);
        for (i, scales) in scales.into_iter().enumerate() {
            isum = vmlaq_laneq_s32::<0>(isum, sixteen(4 * i), scales);
            isum = vmlaq_laneq_s32::<1>(isum, sixteen(4 * i + 1), scales);
            isum = vmlaq_laneq_s32::<2>(isum, sixteen(4 * i + 2), scales);
            isum = vmlaq_laneq_s32::<3>(isum, sixteen(4 * i + 3), scales);
        }
        isum
    }
}

/// The sum of the products of minima and sums of 16 in four parts.
#[inline(always)]
fn minima(mins: uint8x16_t, x: &Q8KAct) -> int32x4_t {
    let sums = x.sums().as_ptr();
    // SAFETY: NEON is there, and there are 16 sums.
    unsafe {
        let (low, high) = (vld1q_s16(sums), vld1q_s16(sums.add(8)));
        let mins_low = vreinterpretq_s16_u16(vmovl_u8(vget_low_u8(mins)));
        let mins_high = vreinterpretq_s16_u16(vmovl_high_u8(mins));
        let msum = vmull_s16(vget_low_s16(mins_low), vget_low_s16(low));
        let msum = vmlal_high_s16(msum, mins_low, low);
        let msum = vmlal_s16(msum, vget_low_s16(mins_high), vget_low_s16(high));
        vmlal_high_s16(msum, mins_high, high)
    }
}

/// The half-precision numbers at four addresses, as f32.
///
/// # Safety
///
/// Two bytes can be read at each address.
#[inline(always)]
unsafe fn halves(at: [*const u16; 4]) -> float32x4_t {
    // SAFETY: the caller's promises; the loads have no alignment.
    unsafe {
        let halves = vdup_n_u16(0);
        let halves = vld1_lane_u16::<0>(at[0], halves);
        let halves = vld1_lane_u16::<1>(at[1], halves);
        let halves = vld1_lane_u16::<2>(at[2], halves);
        let halves = vld1_lane_u16::<3>(at[3], halves);
        super::f16_to_f32(halves)
    }
}
