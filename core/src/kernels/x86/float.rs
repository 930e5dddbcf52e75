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

    /// The first `rest` numbers at `at`, fewer than eight, and zeros.
    ///
    /// # Safety
    ///
    /// AVX2 and F16C are there, and `rest * BYTES` bytes can be read at `at`.
    unsafe fn load_rest(at: *const u8, rest: usize) -> __m256;
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

    #[inline(always)]
    unsafe fn load_rest(at: *const u8, rest: usize) -> __m256 {
        // SAFETY: only lanes that the mask has are read.
        unsafe { _mm256_maskload_ps(at.cast(), first_lanes(rest)) }
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

    #[inline(always)]
    unsafe fn load_rest(at: *const u8, rest: usize) -> __m256 {
        // SAFETY: the caller's promises are those of the function and the instruction.
        unsafe { _mm256_cvtph_ps(load_words(at, rest)) }
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

    #[inline(always)]
    unsafe fn load_rest(at: *const u8, rest: usize) -> __m256 {
        // SAFETY: the caller's promises are those of the function and the instructions.
        unsafe {
            let words = _mm256_cvtepu16_epi32(load_words(at, rest));
            _mm256_castsi256_ps(_mm256_slli_epi32::<16>(words))
        }
    }
}

/// A mask of the first `count` of eight lanes.
#[inline]
#[target_feature(enable = "avx2")]
fn first_lanes(count: usize) -> __m256i {
    let count = i32::try_from(count).unwrap_or(8);
    let lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    _mm256_cmpgt_epi32(_mm256_set1_epi32(count), lanes)
}

/// `count` words of 16 bits, fewer than eight, and zeros.
///
/// # Safety
///
/// AVX2 is there, and `count` words can be read at `at`.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn load_words(at: *const u8, count: usize) -> __m128i {
    let at = at.cast::<u16>();
    let mut words = 0u128;
    let mut done = 0;
    // SAFETY: four, two and one words from `done` on are below `count`, whose bits they are.
    unsafe {
        if count & 4 != 0 {
            words = u128::from(at.cast::<u64>().read_unaligned());
            done = 4;
        }
        if count & 2 != 0 {
            words |= u128::from(at.add(done).cast::<u32>().read_unaligned()) << (16 * done);
            done += 2;
        }
        if count & 1 != 0 {
            words |= u128::from(at.add(done).read_unaligned()) << (16 * done);
        }
        _mm_loadu_si128((&raw const words).cast())
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

    const TWO_BLOCKS: bool = false;

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
                tile::<N, 8, T>(w, stride, cols, x).map(|rows| join(rows))
            } else {
                // Four rows and then four, so that the lanes of all tokens fit into registers.
                let low: [_; T] = tile::<N, 4, T>(w, stride, cols, x);
                let high: [_; T] = tile::<N, 4, T>(w.add(4 * stride), stride, cols, x);
                core::array::from_fn(|t| {
                    let ([a, b, c, d], [e, f, g, h]) = (low[t], high[t]);
                    join([a, b, c, d, e, f, g, h])
                })
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
    // SAFETY: the numbers from `col` on that a step takes are in the row, so that the caller's
    // promises cover every load.
    unsafe {
        while cols - col >= 16 {
            step::<N, R, T, 2>(&mut acc, w.add(col * N::BYTES), stride, x.add(col), cols);
            col += 16;
        }
        if cols - col >= 8 {
            step::<N, R, T, 1>(&mut acc, w.add(col * N::BYTES), stride, x.add(col), cols);
            col += 8;
        }
        let rest = cols - col;
        if rest != 0 {
            // Zeros in the other lanes add +0.0 to sums that are never -0.0, which changes no bit.
            let mask = first_lanes(rest);
            let x: [__m256; T] =
                core::array::from_fn(|t| _mm256_maskload_ps(x.add(t * cols + col), mask));
            for r in 0..R {
                let w = N::load_rest(w.add(r * stride + col * N::BYTES), rest);
                for t in 0..T {
                    acc[t][r] = _mm256_add_ps(acc[t][r], _mm256_mul_ps(w, x[t]));
                }
            }
        }
    }
    acc
}

/// Adds the products of `8 * S` columns to the lanes of `R` rows and `T` tokens.
///
/// # Safety
///
/// AVX2 and F16C are there, `8 * S` numbers can be read at `w + r * stride` for each `r` of `0..R`,
/// and at `x + t * cols` for each `t` of `0..T`.
#[inline(always)]
unsafe fn step<N: Number, const R: usize, const T: usize, const S: usize>(
    acc: &mut [[__m256; R]; T],
    w: *const u8,
    stride: usize,
    x: *const f32,
    cols: usize,
) {
    // SAFETY: the caller's promises.
    unsafe {
        let x: [[__m256; S]; T] = core::array::from_fn(|t| {
            core::array::from_fn(|s| _mm256_loadu_ps(x.add(t * cols + 8 * s)))
        });
        for r in 0..R {
            let w = w.add(r * stride);
            for s in 0..S {
                let w = N::load(w.add(8 * s * N::BYTES));
                for t in 0..T {
                    acc[t][r] = _mm256_add_ps(acc[t][r], _mm256_mul_ps(w, x[t][s]));
                }
            }
        }
    }
}

/// The sums of eight times eight lanes, `((l0 + l4) + (l2 + l6)) + ((l1 + l5) + (l3 + l7))`.
#[inline]
#[target_feature(enable = "avx2")]
fn join(rows: [__m256; 8]) -> __m256 {
    // Of two rows, `l0 + l4` to `l3 + l7`: of one in the lower lane, of the other in the upper one.
    let half = |r: usize| {
        let (a, b) = (rows[r], rows[r + 4]);
        _mm256_add_ps(
            _mm256_blend_ps::<0b1111_0000>(a, b),
            _mm256_permute2f128_ps::<0x21>(a, b),
        )
    };
    // Of four rows, the sums of lanes 0, 2, 4, 6 and of lanes 1, 3, 5, 7.
    let quarter = |r: usize| {
        let (a, b) = (_mm256_castps_pd(half(r)), _mm256_castps_pd(half(r + 1)));
        _mm256_add_ps(
            _mm256_castpd_ps(_mm256_unpacklo_pd(a, b)),
            _mm256_castpd_ps(_mm256_unpackhi_pd(a, b)),
        )
    };
    _mm256_hadd_ps(quarter(0), quarter(2))
}
