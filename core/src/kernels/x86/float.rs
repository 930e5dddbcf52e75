//! Products of F32, F16 and BF16 weights with f32 activations: eight lanes a row.

use core::arch::x86_64::*;
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
    /// AVX2 and F16C are there, and `8 * BYTES` bytes can be read at `at`.
    unsafe fn load(at: *const u8) -> __m256;
}

/// f32
pub(super) struct F32;

impl Number for F32 {
    const BYTES: usize = 4;

    #[inline(always)]
    unsafe fn load(at: *const u8) -> __m256 {
        // SAFETY: the caller's promises are those of the instruction.
        unsafe { _mm256_loadu_ps(at.cast()) }
    }
}

/// f16
pub(super) struct F16;

impl Number for F16 {
    const BYTES: usize = 2;

    #[inline(always)]
    unsafe fn load(at: *const u8) -> __m256 {
        // SAFETY: the caller's promises are those of the instructions.
        unsafe { _mm256_cvtph_ps(_mm_loadu_si128(at.cast())) }
    }
}

/// bfloat16
pub(super) struct Bf16;

impl Number for Bf16 {
    const BYTES: usize = 2;

    #[inline(always)]
    unsafe fn load(at: *const u8) -> __m256 {
        // SAFETY: the caller's promises are those of the instructions.
        unsafe {
            let words = _mm256_cvtepu16_epi32(_mm_loadu_si128(at.cast()));
            _mm256_castsi256_ps(_mm256_slli_epi32::<16>(words))
        }
    }
}

/// `out[t * rows + r]` becomes the product of weight row `r` and activation row `t`.
///
/// # Safety
///
/// AVX2 and F16C are there, and the lengths of the slices are those of `shape`.
#[inline(never)] // Each type by itself: all in one function leaves too few registers.
#[target_feature(enable = "avx2,f16c")]
pub(super) unsafe fn matmul<N: Number>(weights: &[u8], shape: Shape, x: &[f32], out: &mut [f32]) {
    // SAFETY: the caller's promises.
    unsafe { eight_rows::matmul::<Numbers<N>, 2>(weights, shape, x, out) }
}

/// Rows of numbers of type `N`.
struct Numbers<N>(PhantomData<N>);

// SAFETY: `Sums` is a register of eight f32.
unsafe impl<N: Number> EightRows for Numbers<N> {
    type X = f32;
    type Sums = __m256;

    #[inline(always)]
    unsafe fn multiply<const T: usize>(
        w: *const u8,
        stride: usize,
        cols: usize,
        x: *const f32,
    ) -> [__m256; T] {
        // SAFETY: the caller's promises.
        unsafe {
            if T == 1 {
                let [l] = tile::<N, 8, 1>(w, stride, cols, x);
                let low = join([l[0], l[1], l[2], l[3]]);
                let high = join([l[4], l[5], l[6], l[7]]);
                [_mm256_set_m128(high, low); T]
            } else {
                // Four rows and then four, so that the lanes of all tokens fit into registers.
                let low: [_; T] = tile::<N, 4, T>(w, stride, cols, x);
                let high: [_; T] = tile::<N, 4, T>(w.add(4 * stride), stride, cols, x);
                core::array::from_fn(|t| _mm256_set_m128(join(high[t]), join(low[t])))
            }
        }
    }
}

/// The eight lanes of `R` rows, `stride` bytes apart from `w` on, for each of `T` tokens.
///
/// # Safety
///
/// AVX2 and F16C are there, `cols` numbers can be read at `w + r * stride` for each `r` of `0..R`,
/// and `T * cols` numbers at `x`.
#[inline]
#[target_feature(enable = "avx2,f16c")]
unsafe fn tile<N: Number, const R: usize, const T: usize>(
    w: *const u8,
    stride: usize,
    cols: usize,
    x: *const f32,
) -> [[__m256; R]; T] {
    let mut acc = [[_mm256_setzero_ps(); R]; T];
    let mut col = 0;
    // SAFETY: eight numbers from `col` on are in the row, so that the caller's promises cover
    // every load.
    unsafe {
        while cols - col >= 8 {
            let x: [__m256; T] = core::array::from_fn(|t| _mm256_loadu_ps(x.add(t * cols + col)));
            for r in 0..R {
                let w = N::load(w.add(r * stride + col * N::BYTES));
                for t in 0..T {
                    acc[t][r] = _mm256_add_ps(acc[t][r], _mm256_mul_ps(w, x[t]));
                }
            }
            col += 8;
        }
    }
    let rest = cols - col;
    if rest == 0 {
        return acc;
    }
    // Zeros in the other lanes add +0.0 to sums that are never -0.0, which changes no bit.
    // SAFETY: `rest` numbers, fewer than eight, are left in each row, and are copied to where
    // there is room for eight.
    unsafe {
        let x: [__m256; T] = core::array::from_fn(|t| {
            let mut eight = [0.0f32; 8];
            x.add(t * cols + col)
                .copy_to_nonoverlapping(eight.as_mut_ptr(), rest);
            _mm256_loadu_ps(eight.as_ptr())
        });
        for r in 0..R {
            let mut eight = [0u8; 32];
            w.add(r * stride + col * N::BYTES)
                .copy_to_nonoverlapping(eight.as_mut_ptr(), rest * N::BYTES);
            let w = N::load(eight.as_ptr());
            for t in 0..T {
                acc[t][r] = _mm256_add_ps(acc[t][r], _mm256_mul_ps(w, x[t]));
            }
        }
    }
    acc
}

/// The sums of four times eight lanes, `((l0 + l4) + (l2 + l6)) + ((l1 + l5) + (l3 + l7))`.
#[inline]
#[target_feature(enable = "avx2")]
fn join(rows: [__m256; 4]) -> __m128 {
    let half = |r: usize| {
        _mm_add_ps(
            _mm256_castps256_ps128(rows[r]),
            _mm256_extractf128_ps::<1>(rows[r]),
        )
    };
    // The sums of lanes 0, 2, 4, 6 and of 1, 3, 5, 7 for two rows.
    let quarter = |r: usize| {
        let (a, b) = (_mm_castps_pd(half(r)), _mm_castps_pd(half(r + 1)));
        _mm_add_ps(
            _mm_castpd_ps(_mm_unpacklo_pd(a, b)),
            _mm_castpd_ps(_mm_unpackhi_pd(a, b)),
        )
    };
    _mm_hadd_ps(quarter(0), quarter(2))
}
