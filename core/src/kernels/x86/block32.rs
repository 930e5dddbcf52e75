//! Products of blocks of 32: eight rows, one to four tokens at a time.

use core::arch::x86_64::*;
use core::marker::PhantomData;

use super::super::backend::Shape;
use super::super::eight_rows::{self, EightRows};
use super::dot::Dot;
use crate::quant::Q8Act;

/// How the blocks of a type unpack.
pub(super) trait Unpack32 {
    /// Bytes of a block, which begins with its f16 scale.
    const BYTES: usize;
    /// Whether an f16 minimum follows the scale.
    const HAS_MIN: bool;
    /// What [`load`](Self::load) has added to the quants.
    const OFFSET: i32;
    /// How large quants are after that: 4 or 5 bits without sign, or 8 for signed bytes.
    const BITS: u32;

    /// Unpacks the quants of the blocks at `a`, in the lower lanes, and at `b`, in the upper ones.
    ///
    /// # Safety
    ///
    /// AVX2 is there, and `BYTES` bytes can be read at `a` and at `b`.
    unsafe fn load(a: *const u8, b: *const u8) -> [__m256i; 2];
}

/// `out[t * rows + r]` becomes the product of weight row `r` and activation row `t`.
///
/// # Safety
///
/// The instructions of `D` and F16C are there, and the lengths of the slices are those of `shape`.
#[inline(never)] // Each type by itself: all in one function leaves too few registers.
#[target_feature(enable = "avx2,f16c")]
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

// SAFETY: `Sums` is a register of eight f32.
unsafe impl<K: Unpack32, D: Dot> EightRows for Blocks<K, D> {
    type X = Q8Act;
    type Sums = __m256;

    const TWO_BLOCKS: bool = true;

    #[inline(always)]
    unsafe fn multiply<const T: usize>(
        w: *const u8,
        stride: usize,
        blocks: usize,
        x: *const Q8Act,
    ) -> [__m256; T] {
        // SAFETY: the caller's promises.
        unsafe { multiply::<K, D, T>(w, stride, blocks, x) }
    }
}

/// The products of eight rows, `stride` bytes apart from `w` on, with the rows of `T` tokens, which
/// lie one after the other.
///
/// # Safety
///
/// The instructions of `D` and F16C are there, `blocks * K::BYTES` bytes can be read at `w + r * stride` for each `r`
/// of 0..8, and `T * blocks` blocks at `x`.
#[inline]
#[target_feature(enable = "avx2,f16c")]
unsafe fn multiply<K: Unpack32, D: Dot, const T: usize>(
    w: *const u8,
    stride: usize,
    blocks: usize,
    x: *const Q8Act,
) -> [__m256; T] {
    // SAFETY: `block` is below `blocks`, `t` below `T` and rows are below 8, so that the caller's
    // promises cover every block that is read; they also cover the instructions.
    unsafe {
        let mut acc = [_mm256_setzero_ps(); T];
        for block in 0..blocks {
            let w = w.add(block * K::BYTES);
            let row = |r: usize| w.add(r * stride);
            let x: [&Q8Act; T] = core::array::from_fn(|t| &*x.add(t * blocks + block));
            let halves: [[__m256i; 2]; T] = core::array::from_fn(|t| {
                let qs = x[t].qs().as_ptr().cast::<__m128i>();
                [
                    _mm256_broadcastsi128_si256(_mm_loadu_si128(qs)),
                    _mm256_broadcastsi128_si256(_mm_loadu_si128(qs.add(1))),
                ]
            });
            // Two rows in one register, so that all stand in order in the end.
            let pair = |r: usize| {
                let quants = D::prepare(K::BITS, K::load(row(r), row(r + 4)));
                let sums: [__m256i; T] =
                    core::array::from_fn(|t| D::products(K::BITS, quants, halves[t]));
                sums
            };
            let two = |r: usize| {
                let (a, b) = (pair(r), pair(r + 1));
                let sums: [__m256i; T] = core::array::from_fn(|t| D::join(K::BITS, a[t], b[t]));
                sums
            };
            let (low, high) = (two(0), two(2));
            let scales = words(core::array::from_fn(|r| row(r).cast()));
            let d = _mm256_cvtph_ps(scales[0]);
            let offset = K::OFFSET + if K::BITS == 8 { D::OFFSET } else { 0 };
            for t in 0..T {
                let mut isum = D::finish(K::BITS, low[t], high[t]);
                if offset != 0 {
                    isum = _mm256_sub_epi32(isum, _mm256_set1_epi32(offset * x[t].sum));
                }
                let dx = _mm256_set1_ps(x[t].d);
                let mut part = _mm256_mul_ps(_mm256_mul_ps(d, dx), _mm256_cvtepi32_ps(isum));
                if K::HAS_MIN {
                    let sum = _mm256_cvtepi32_ps(_mm256_set1_epi32(x[t].sum));
                    let m = _mm256_mul_ps(_mm256_cvtph_ps(scales[1]), dx);
                    part = _mm256_add_ps(part, _mm256_mul_ps(m, sum));
                }
                acc[t] = _mm256_add_ps(acc[t], part);
            }
        }
        acc
    }
}

/// The first words at eight addresses, and the second words.
///
/// # Safety
///
/// AVX2 is there, and 4 bytes can be read at each address.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) unsafe fn words(at: [*const i32; 8]) -> [__m128i; 2] {
    // SAFETY: the caller's promises are those of the loads and instructions.
    unsafe {
        let load = |i: usize| _mm_cvtsi32_si128(at[i].read_unaligned());
        let two = |i: usize| _mm_unpacklo_epi16(load(i), load(i + 1));
        let low = _mm_unpacklo_epi32(two(0), two(2));
        let high = _mm_unpacklo_epi32(two(4), two(6));
        [_mm_unpacklo_epi64(low, high), _mm_unpackhi_epi64(low, high)]
    }
}
