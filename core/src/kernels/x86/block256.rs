//! Products of blocks of 256: eight rows at a time, one or two tokens for what a row unpacks to.

use core::arch::x86_64::*;
use core::marker::PhantomData;

use super::super::backend::Shape;
use super::super::eight_rows::{self, EightRows};
use super::block32::words;
use crate::quant::Q8KAct;

/// A block with quants that are made unsigned.
#[derive(Clone, Copy)]
pub(super) struct Unpacked {
    /// Quants in order, with [`Dot256::OFFSET`] added: at most 63.
    pub(super) quants: [__m256i; 8],
    /// 16 signed bytes.
    pub(super) scales: __m128i,
    /// 16 unsigned bytes, at most 63; not used where there are no minima.
    pub(super) mins: __m128i,
}

/// How the blocks of a K type unpack.
pub(super) trait Dot256 {
    /// Bytes of a block.
    const BYTES: usize;
    /// Where the f16 scale is.
    const D: usize;
    /// Where the f16 scale of the minima is, if there are minima.
    const DMIN: Option<usize>;
    /// What is added to the quants.
    const OFFSET: i32;

    /// Unpacks the block at `at`.
    ///
    /// # Safety
    ///
    /// AVX2 is there, and `BYTES` bytes can be read at `at`.
    unsafe fn unpack(at: *const u8) -> Unpacked;
}

/// `out[t * rows + r]` becomes the product of weight row `r` and activation row `t`.
///
/// # Safety
///
/// AVX2 and F16C are there, and the lengths of the slices are those of `shape`.
#[inline(never)] // Each type by itself: all in one function leaves too few registers.
#[target_feature(enable = "avx2,f16c")]
pub(super) unsafe fn matmul<K: Dot256>(
    weights: &[u8],
    shape: Shape,
    x: &[Q8KAct],
    out: &mut [f32],
) {
    // SAFETY: the caller's promises.
    // Two tokens, since the sums of eight rows of each take stack.
    unsafe { eight_rows::matmul::<Blocks<K>, 2>(weights, shape, x, out) }
}

/// Rows of blocks of type `K`.
struct Blocks<K>(PhantomData<K>);

// SAFETY: `Sums` is a register of eight f32.
unsafe impl<K: Dot256> EightRows for Blocks<K> {
    type X = Q8KAct;
    type Sums = __m256;

    const TWO_BLOCKS: bool = false;

    #[inline(always)]
    unsafe fn multiply<const T: usize>(
        w: *const u8,
        stride: usize,
        blocks: usize,
        x: *const Q8KAct,
    ) -> [__m256; T] {
        // SAFETY: the caller's promises.
        unsafe { multiply::<K, T>(w, stride, blocks, x) }
    }
}

/// The products of eight rows, `stride` bytes apart from `w` on, with the rows of `T` tokens, which
/// lie one after the other.
///
/// # Safety
///
/// AVX2 and F16C are there, `blocks * K::BYTES` bytes can be read at `w + r * stride` for each `r`
/// of 0..8, and `T * blocks` blocks at `x`.
#[inline]
#[target_feature(enable = "avx2,f16c")]
unsafe fn multiply<K: Dot256, const T: usize>(
    w: *const u8,
    stride: usize,
    blocks: usize,
    x: *const Q8KAct,
) -> [__m256; T] {
    let mut acc = [_mm256_setzero_ps(); T];
    for block in 0..blocks {
        let at = |r: usize| w.wrapping_add(block * K::BYTES + r * stride);
        // SAFETY: `block` is below `blocks` and `t` below `T`.
        let x: [&Q8KAct; T] = core::array::from_fn(|t| unsafe { &*x.add(t * blocks + block) });
        let mut isums = [[_mm256_setzero_si256(); 8]; T];
        let mut msums = [[_mm256_setzero_si256(); 8]; T];
        for r in 0..8 {
            // SAFETY: `block` is below `blocks`, so that this is a whole block of row `r`.
            let unpacked = unsafe { K::unpack(at(r)) };
            let scales = _mm256_cvtepi8_epi16(unpacked.scales);
            let mins = _mm256_cvtepu8_epi16(unpacked.mins);
            let spread = spread(scales);
            for t in 0..T {
                let mut isum = dot(&unpacked.quants, &spread, x[t]);
                // SAFETY: there are 16 sums of 16 bits.
                let sums = unsafe { _mm256_loadu_si256(x[t].sums().as_ptr().cast()) };
                if K::OFFSET != 0 {
                    let sum = _mm256_madd_epi16(scales, sums);
                    let offset = _mm256_mullo_epi32(sum, _mm256_set1_epi32(K::OFFSET));
                    isum = _mm256_sub_epi32(isum, offset);
                }
                isums[t][r] = isum;
                if K::DMIN.is_some() {
                    msums[t][r] = _mm256_madd_epi16(mins, sums);
                }
            }
        }
        let halves = |offset: usize| {
            // SAFETY: `block` is below `blocks`, so that these are whole blocks of rows 0..8.
            unsafe { half_at::<K>(core::array::from_fn(at), offset) }
        };
        let d = halves(K::D);
        for t in 0..T {
            let dx = _mm256_set1_ps(x[t].d);
            let isum = _mm256_cvtepi32_ps(join(&isums[t]));
            let mut part = _mm256_mul_ps(_mm256_mul_ps(d, dx), isum);
            if let Some(offset) = K::DMIN {
                let dmin = halves(offset);
                let msum = _mm256_cvtepi32_ps(join(&msums[t]));
                part = _mm256_sub_ps(part, _mm256_mul_ps(_mm256_mul_ps(dmin, dx), msum));
            }
            acc[t] = _mm256_add_ps(acc[t], part);
        }
    }
    acc
}

/// The f16 numbers at byte `offset` of eight blocks.
///
/// # Safety
///
/// AVX2 and F16C are there, and `K::BYTES` bytes can be read at each address.
#[inline]
#[target_feature(enable = "avx2,f16c")]
unsafe fn half_at<K: Dot256>(at: [*const u8; 8], offset: usize) -> __m256 {
    // A load takes four bytes: at the end of a block the number is the second word of a load that
    // begins two bytes before.
    let second = usize::from(offset + 4 > K::BYTES);
    // SAFETY: the four bytes at `offset - 2 * second` are within the block.
    let words = unsafe { words(at.map(|at| at.add(offset - 2 * second).cast())) };
    _mm256_cvtph_ps(words[second])
}

/// The scales of each 32 quants as words: that of the first 16 in the lower lane, that of the
/// others in the upper one.
#[inline]
#[target_feature(enable = "avx2")]
fn spread(scales: __m256i) -> [__m256i; 8] {
    let halves = [
        _mm256_permute2x128_si256::<0x00>(scales, scales),
        _mm256_permute2x128_si256::<0x11>(scales, scales),
    ];
    let each = 0x0100_0100_0100_0100;
    let step = 0x0202_0202_0202_0202;
    core::array::from_fn(|i| {
        let (low, high) = match i % 4 {
            0 => (each, each + step),
            1 => (each + 2 * step, each + 3 * step),
            2 => (each + 4 * step, each + 5 * step),
            _ => (each + 6 * step, each + 7 * step),
        };
        _mm256_shuffle_epi8(halves[i / 4], _mm256_setr_epi64x(low, low, high, high))
    })
}

/// The sum of `scale * quant * x` in eight parts. Two products are at most 2 * 63 * 127, times a
/// scale of at most 128 in magnitude, two and eight times, less than 2^25.
#[inline]
#[target_feature(enable = "avx2")]
fn dot(quants: &[__m256i; 8], scales: &[__m256i; 8], x: &Q8KAct) -> __m256i {
    let mut isum = _mm256_setzero_si256();
    let (parts, _) = x.qs().as_chunks::<32>();
    for ((&quants, &scales), part) in quants.iter().zip(scales).zip(parts) {
        // SAFETY: 32 bytes are there.
        let x = unsafe { _mm256_loadu_si256(part.as_ptr().cast()) };
        let products = _mm256_madd_epi16(_mm256_maddubs_epi16(quants, x), scales);
        isum = _mm256_add_epi32(isum, products);
    }
    isum
}

/// The sums of eight registers, in their order.
#[inline]
#[target_feature(enable = "avx2")]
fn join(of: &[__m256i; 8]) -> __m256i {
    let two = |i: usize| _mm256_hadd_epi32(of[i], of[i + 1]);
    let four = |i: usize| _mm256_hadd_epi32(two(i), two(i + 2));
    let (low, high) = (four(0), four(4));
    _mm256_add_epi32(
        _mm256_permute2x128_si256::<0x20>(low, high),
        _mm256_permute2x128_si256::<0x31>(low, high),
    )
}
