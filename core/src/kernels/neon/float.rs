//! Products of F32, F16 and BF16 weights with f32 activations: eight lanes a row in two registers.

use core::arch::aarch64::*;
use core::marker::PhantomData;

use super::super::backend::Shape;
use super::super::eight_rows::{self, EightRows};

/// How eight numbers of a type become eight f32.
pub(super) trait Number {
    /// Bytes of a number.
    const BYTES: usize;

    /// The eight numbers at `at`.
    ///
    /// # Safety
    ///
    /// `8 * BYTES` bytes can be read at `at`.
    unsafe fn load(at: *const u8) -> [float32x4_t; 2];

    /// The first `rest` numbers at `at`, fewer than eight, and zeros.
    ///
    /// # Safety
    ///
    /// `rest * BYTES` bytes can be read at `at`.
    unsafe fn load_rest(at: *const u8, rest: usize) -> [float32x4_t; 2];
}

/// f32
pub(super) struct F32;

impl Number for F32 {
    const BYTES: usize = 4;

    #[inline(always)]
    unsafe fn load(at: *const u8) -> [float32x4_t; 2] {
        // SAFETY: the caller's promise; byte loads have no alignment.
        unsafe {
            [
                vreinterpretq_f32_u8(vld1q_u8(at)),
                vreinterpretq_f32_u8(vld1q_u8(at.add(16))),
            ]
        }
    }

    #[inline(always)]
    unsafe fn load_rest(at: *const u8, rest: usize) -> [float32x4_t; 2] {
        // SAFETY: the caller's promise; byte loads have no alignment.
        unsafe {
            if rest < 4 {
                return [vreinterpretq_f32_u8(load_bytes(at, 4 * rest)), zero()];
            }
            [
                vreinterpretq_f32_u8(vld1q_u8(at)),
                vreinterpretq_f32_u8(load_bytes(at.add(16), 4 * rest - 16)),
            ]
        }
    }
}

/// f16
pub(super) struct F16;

impl F16 {
    #[inline(always)]
    fn convert(bytes: uint8x16_t) -> [float32x4_t; 2] {
        // SAFETY: NEON is there.
        unsafe {
            let halves = vreinterpretq_u16_u8(bytes);
            [
                super::f16_to_f32(vget_low_u16(halves)),
                super::f16_to_f32_high(halves),
            ]
        }
    }
}

impl Number for F16 {
    const BYTES: usize = 2;

    #[inline(always)]
    unsafe fn load(at: *const u8) -> [float32x4_t; 2] {
        // SAFETY: the caller's promise; byte loads have no alignment.
        Self::convert(unsafe { vld1q_u8(at) })
    }

    #[inline(always)]
    unsafe fn load_rest(at: *const u8, rest: usize) -> [float32x4_t; 2] {
        // SAFETY: the caller's promise.
        Self::convert(unsafe { load_bytes(at, 2 * rest) })
    }
}

/// bfloat16
pub(super) struct Bf16;

impl Bf16 {
    #[inline(always)]
    fn convert(bytes: uint8x16_t) -> [float32x4_t; 2] {
        // SAFETY: NEON is there.
        unsafe {
            let halves = vreinterpretq_u16_u8(bytes);
            [
                vreinterpretq_f32_u32(vshll_n_u16::<16>(vget_low_u16(halves))),
                vreinterpretq_f32_u32(vshll_high_n_u16::<16>(halves)),
            ]
        }
    }
}

impl Number for Bf16 {
    const BYTES: usize = 2;

    #[inline(always)]
    unsafe fn load(at: *const u8) -> [float32x4_t; 2] {
        // SAFETY: the caller's promise; byte loads have no alignment.
        Self::convert(unsafe { vld1q_u8(at) })
    }

    #[inline(always)]
    unsafe fn load_rest(at: *const u8, rest: usize) -> [float32x4_t; 2] {
        // SAFETY: the caller's promise.
        Self::convert(unsafe { load_bytes(at, 2 * rest) })
    }
}

/// `count` bytes, an even number below 16, and zeros.
///
/// # Safety
///
/// `count` bytes can be read at `at`.
#[inline(always)]
unsafe fn load_bytes(at: *const u8, count: usize) -> uint8x16_t {
    let mut bytes = 0u128;
    let mut done = 0;
    // SAFETY: eight, four and two bytes from `done` on are below `count`, whose bits they are.
    unsafe {
        if count & 8 != 0 {
            bytes = u128::from(at.cast::<u64>().read_unaligned());
            done = 8;
        }
        if count & 4 != 0 {
            let four = at.add(done).cast::<u32>().read_unaligned();
            bytes |= u128::from(four) << (8 * done);
            done += 4;
        }
        if count & 2 != 0 {
            let two = at.add(done).cast::<u16>().read_unaligned();
            bytes |= u128::from(two) << (8 * done);
        }
        vld1q_u8((&raw const bytes).cast())
    }
}

/// `out[t * rows + r]` becomes the product of weight row `r` and activation row `t`.
///
/// # Safety
///
/// The lengths of the slices are those of `shape`.
#[inline(never)] // Each type by itself: all in one function leaves too few registers.
pub(super) unsafe fn matmul<N: Number>(weights: &[u8], shape: Shape, x: &[f32], out: &mut [f32]) {
    // SAFETY: the caller's promises.
    unsafe { eight_rows::matmul::<Numbers<N>, 2>(weights, shape, x, out) }
}

/// Rows of numbers of type `N`.
struct Numbers<N>(PhantomData<N>);

// SAFETY: `Sums` are two registers of four f32.
unsafe impl<N: Number> EightRows for Numbers<N> {
    type X = f32;
    type Sums = [float32x4_t; 2];

    const TWO_BLOCKS: bool = false;

    #[inline(always)]
    unsafe fn multiply<const T: usize>(
        w: *const u8,
        stride: usize,
        cols: usize,
        x: *const f32,
    ) -> [[float32x4_t; 2]; T] {
        // SAFETY: the caller's promises, for rows 0 to 3 and 4 to 7.
        unsafe {
            let low: [float32x4_t; T] = four_rows::<N, T>(w, stride, cols, x);
            let high: [float32x4_t; T] = four_rows::<N, T>(w.add(4 * stride), stride, cols, x);
            core::array::from_fn(|t| [low[t], high[t]])
        }
    }
}

/// The products of four rows, `stride` bytes apart from `w` on, with the rows of `T` tokens.
///
/// # Safety
///
/// `cols` numbers can be read at `w + r * stride` for each `r` of 0..4, and `T * cols` numbers at
/// `x`.
#[inline(always)]
unsafe fn four_rows<N: Number, const T: usize>(
    w: *const u8,
    stride: usize,
    cols: usize,
    x: *const f32,
) -> [float32x4_t; T] {
    let mut acc = [[[zero(); 2]; 4]; T];
    let mut col = 0;
    // SAFETY: eight numbers from `col` on are in the row, so that the caller's promises cover
    // every load.
    unsafe {
        while cols - col >= 8 {
            let x: [[float32x4_t; 2]; T] = core::array::from_fn(|t| {
                let x = x.add(t * cols + col);
                [vld1q_f32(x), vld1q_f32(x.add(4))]
            });
            for r in 0..4 {
                let w = N::load(w.add(r * stride + col * N::BYTES));
                for t in 0..T {
                    add(&mut acc[t][r], w, x[t]);
                }
            }
            col += 8;
        }
    }
    let rest = cols - col;
    if rest != 0 {
        // Zeros in the other lanes add +0.0 to sums that are never -0.0, which changes no bit.
        // SAFETY: `rest` numbers, fewer than eight, are left in each row.
        unsafe {
            let x: [[float32x4_t; 2]; T] =
                core::array::from_fn(|t| F32::load_rest(x.add(t * cols + col).cast(), rest));
            for r in 0..4 {
                let w = N::load_rest(w.add(r * stride + col * N::BYTES), rest);
                for t in 0..T {
                    add(&mut acc[t][r], w, x[t]);
                }
            }
        }
    }
    acc.map(join)
}

#[inline(always)]
fn zero() -> float32x4_t {
    // SAFETY: NEON is there.
    unsafe { vdupq_n_f32(0.0) }
}

/// Eight times `lane += w * x`, without fusing.
#[inline(always)]
fn add(lanes: &mut [float32x4_t; 2], w: [float32x4_t; 2], x: [float32x4_t; 2]) {
    // SAFETY: NEON is there.
    unsafe {
        lanes[0] = vaddq_f32(lanes[0], vmulq_f32(w[0], x[0]));
        lanes[1] = vaddq_f32(lanes[1], vmulq_f32(w[1], x[1]));
    }
}

/// The sums of four times eight lanes, `((l0 + l4) + (l2 + l6)) + ((l1 + l5) + (l3 + l7))`.
#[inline(always)]
fn join(rows: [[float32x4_t; 2]; 4]) -> float32x4_t {
    // SAFETY: NEON is there.
    unsafe {
        let half = |r: usize| vreinterpretq_f64_f32(vaddq_f32(rows[r][0], rows[r][1]));
        // The sums of lanes 0, 2, 4, 6 and of 1, 3, 5, 7 for two rows.
        let quarter = |r: usize| {
            let (a, b) = (half(r), half(r + 1));
            vaddq_f32(
                vreinterpretq_f32_f64(vzip1q_f64(a, b)),
                vreinterpretq_f32_f64(vzip2q_f64(a, b)),
            )
        };
        vpaddq_f32(quarter(0), quarter(2))
    }
}
