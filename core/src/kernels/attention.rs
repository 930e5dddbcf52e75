//! Attention of a group of query heads over the cached positions of their common KV head.
//!
//! The definition of its bits:
//! - **f32 and f16 rows**: a score is the dot product of query and key in eight lanes as in the
//!   products with F32 weights, times `scale`. The sum over positions of `p * v` runs in four lanes
//!   (position `i` in lane `i % 4`, from `+0.0`), joined as `(l0 + l2) + (l1 + l3)`.
//! - **softmax**: `p = exp(score - max)`, their sum in eight lanes; the result is multiplied by the
//!   reciprocal of that sum.
//! - **int8 rows** are attended to in integers, but for their scales:
//!   - The query is quantized to 16 bits, `dq = amax / 32767`. With the exact integer sum over the
//!     head, `isum * (k * dk)` with `k = (dq * scale) * (65536 / ln 2)` is a score in units of
//!     2^-16 of a power of two; what is behind the point is dropped, and what is beyond 32 bits
//!     becomes the largest number of that sign ([`to_fixed`]).
//!   - A weight is 2^score in 16 bits, shifted so that the largest is from 2^14 to 2^15
//!     ([`exp2`]).
//!   - The scales of the values become 15 bits, `round(dv / dm)` with `dm = max(dv) / 32767`, and
//!     are multiplied with the weights; of twice the product the upper 16 bits are kept,
//!     rounded ([`weigh`]). Their products with the values are summed exactly, taken to f32 every
//!     512 positions, and multiplied with `dm * (32768 / sum of the weights)`.
//!   - Where a query or the scale of a value is not finite, the result is NaN.
#![allow(unsafe_code)] // To use floats as integers.

use super::math::{ROUNDER, exp};
use super::rows::{join, largest_magnitude, sum_lanes};
use super::scalar::{INFINITE, TINY};
use crate::quant::f16_to_f32;

/// The largest head size that int8 rows allow: above it a 32-bit sum of 16-bit times 8-bit
/// products could overflow.
pub const MAX_HEAD_DIM_Q8: usize = 512;

/// Positions whose integer sum cannot overflow: 512 · 32767 · 127 < 2^31.
pub(super) const POSITIONS_A_SUM: usize = 512;

/// Positions for which a sum of weights fits into 32 bits: what is more is left to this source.
#[cfg(any(
    target_arch = "x86_64",
    all(target_arch = "aarch64", target_feature = "neon"),
    all(target_arch = "arm", any(feature = "dsp", feature = "mve"))
))]
pub(super) const MAX_POSITIONS: usize = 1 << 17;

/// Rows of one KV head as signed bytes, and an f16 scale for each position.
#[derive(Clone, Copy, Debug)]
pub struct Q8Rows<'a> {
    /// Positions times head size quants, position after position.
    pub qs: &'a [i8],
    /// The bits of a scale for each position.
    pub scales: &'a [u16],
}

/// The queries of one position that share a KV head.
#[derive(Clone, Copy, Debug)]
pub struct Queries<'a> {
    /// One or more heads, one after the other.
    pub q: &'a [f32],
    /// Elements of a head.
    pub head_dim: usize,
    /// How many positions are attended to; keys and values hold as many rows.
    pub positions: usize,
    /// What scores are multiplied with, as a rule one divided by the root of `head_dim`.
    pub scale: f32,
}

/// What attention needs beside its results.
#[derive(Debug)]
pub struct AttentionScratch<'a> {
    /// [`scores_len_q8`] elements.
    pub scores: &'a mut [f32],
    /// [`ints_len`] elements.
    pub ints: &'a mut [i16],
}

/// Scores of rows of f32 or f16 for this many positions: whole eights.
#[must_use]
pub const fn scores_len(positions: usize) -> usize {
    positions.next_multiple_of(8)
}

/// Elements of [`AttentionScratch::scores`] for this many positions: those of two heads.
#[must_use]
pub const fn scores_len_q8(positions: usize) -> usize {
    2 * positions.next_multiple_of(8)
}

/// Elements of [`AttentionScratch::ints`] for heads of this size: the queries of two.
#[must_use]
pub const fn ints_len(head_dim: usize) -> usize {
    2 * head_dim
}

/// Scores as integers.
#[inline(always)]
pub(super) fn as_ints(scores: &mut [f32]) -> &mut [i32] {
    // SAFETY: i32 has the size and the alignment of f32, and all bits are numbers of both.
    unsafe { core::slice::from_raw_parts_mut(scores.as_mut_ptr().cast(), scores.len()) }
}

/// Integers as twice as many of 16 bits.
#[cfg(any(
    target_arch = "x86_64",
    all(target_arch = "aarch64", target_feature = "neon")
))]
#[inline(always)]
pub(super) fn as_halves(ints: &mut [i32]) -> &mut [i16] {
    // SAFETY: i16 has half the size of i32 and no larger alignment, and all bits are numbers of both.
    unsafe { core::slice::from_raw_parts_mut(ints.as_mut_ptr().cast(), 2 * ints.len()) }
}

/// The first elements of an array, the rest zero.
#[cfg(any(
    target_arch = "x86_64",
    all(target_arch = "aarch64", target_feature = "neon")
))]
#[inline(always)]
pub(super) fn padded<T: Copy + Default, const N: usize>(from: &[T]) -> [T; N] {
    let mut array = [T::default(); N];
    for (to, &from) in array.iter_mut().zip(from) {
        *to = from;
    }
    array
}

/// A number in the KV cache.
pub(super) trait KvNumber: Copy {
    fn to_f32(self) -> f32;
}

impl KvNumber for f32 {
    #[inline(always)]
    fn to_f32(self) -> f32 {
        self
    }
}

/// The bits of an f16.
impl KvNumber for u16 {
    #[inline(always)]
    fn to_f32(self) -> f32 {
        f16_to_f32(self)
    }
}

#[inline(always)]
fn dot<T: KvNumber>(a: &[f32], b: &[T]) -> f32 {
    let mut lanes = [0.0_f32; 8];
    let (a8, a_rest) = a.as_chunks::<8>();
    let (b8, b_rest) = b.as_chunks::<8>();
    for (a, b) in a8.iter().zip(b8) {
        for ((lane, &a), &b) in lanes.iter_mut().zip(a).zip(b) {
            *lane += a * b.to_f32();
        }
    }
    for ((lane, &a), &b) in lanes.iter_mut().zip(a_rest).zip(b_rest) {
        *lane += a * b.to_f32();
    }
    join(lanes)
}

/// The largest number; NaN is passed over, it shows in the sum.
#[inline(always)]
fn largest(x: &[f32]) -> f32 {
    let mut lanes = [f32::NEG_INFINITY; 8];
    let (eights, rest) = x.as_chunks::<8>();
    for eight in eights {
        for (lane, &x) in lanes.iter_mut().zip(eight) {
            *lane = if x > *lane { x } else { *lane };
        }
    }
    for (lane, &x) in lanes.iter_mut().zip(rest) {
        *lane = if x > *lane { x } else { *lane };
    }
    let larger = |a: f32, b: f32| if b > a { b } else { a };
    lanes.into_iter().fold(f32::NEG_INFINITY, larger)
}

/// Scores become e^(score - max); the answer is one divided by their sum.
#[cfg_attr(not(target_arch = "arm"), inline(always))]
#[cfg_attr(target_arch = "arm", inline(never))] // Microcontrollers have little stack and flash.
pub(super) fn exp_and_reciprocal_sum(scores: &mut [f32]) -> f32 {
    let max = largest(scores);
    for score in scores.iter_mut() {
        *score = exp(*score - max);
    }
    1.0 / sum_lanes(scores, |p| p)
}

/// Attention over rows of f32 or f16.
#[inline(always)]
pub(super) fn attend<T: KvNumber>(
    queries: Queries<'_>,
    keys: &[T],
    values: &[T],
    scores: &mut [f32],
    out: &mut [f32],
) {
    let Queries {
        q,
        head_dim,
        positions,
        scale,
    } = queries;
    let scores = scores.get_mut(..positions).unwrap_or_default();
    for (q, out) in q.chunks_exact(head_dim).zip(out.chunks_exact_mut(head_dim)) {
        for (score, key) in scores.iter_mut().zip(keys.chunks_exact(head_dim)) {
            *score = dot(q, key) * scale;
        }
        let reciprocal = exp_and_reciprocal_sum(scores);
        weighted_sum(scores, values, head_dim, reciprocal, out);
    }
}

/// `out = sum(p[i] * values[i]) * reciprocal`, eight elements of the head at a time.
#[inline(always)]
fn weighted_sum<T: KvNumber>(
    p: &[f32],
    values: &[T],
    head_dim: usize,
    reciprocal: f32,
    out: &mut [f32],
) {
    let mut first = 0;
    for tile in out.chunks_mut(8) {
        let mut lanes = [[0.0_f32; 8]; 4];
        let rows = values.chunks_exact(head_dim);
        for ((row, &p), lane) in rows.zip(p).zip([0_usize, 1, 2, 3].into_iter().cycle()) {
            let row = row.get(first..).unwrap_or_default();
            for (acc, &v) in lanes[lane].iter_mut().zip(row).take(tile.len()) {
                *acc += p * v.to_f32();
            }
        }
        let [l0, l1, l2, l3] = lanes;
        for (i, out) in tile.iter_mut().enumerate() {
            *out = ((l0[i] + l2[i]) + (l1[i] + l3[i])) * reciprocal;
        }
        first += 8;
    }
}

/// Quantizes to 16 bits with one scale; the answer is the scale, `amax / 32767`.
///
/// `amax` is compared as an integer, so that NaN is above infinity; if it is not finite it is the
/// scale itself and all quants are 1, and if it is below 2^-90 everything is zero.
#[cfg_attr(not(target_arch = "arm"), inline(always))]
#[cfg_attr(target_arch = "arm", inline(never))] // Microcontrollers have little stack and flash.
pub(super) fn quantize_i16(x: &[f32], out: &mut [i16]) -> f32 {
    match scale_i16(largest_magnitude(x)) {
        Ok((d, reciprocal)) => {
            for (out, &x) in out.iter_mut().zip(x) {
                *out = round_i16(x, reciprocal);
            }
            d
        }
        Err((d, quant)) => {
            out.fill(quant);
            d
        }
    }
}

/// The scale and its reciprocal for the largest magnitude, given as bits; or the scale and the one
/// value of all quants.
#[inline(always)]
pub(super) fn scale_i16(amax: u32) -> Result<(f32, f32), (f32, i16)> {
    if amax < TINY {
        return Err((0.0, 0));
    }
    if amax >= INFINITE {
        return Err((f32::from_bits(amax), 1));
    }
    let d = f32::from_bits(amax) / 32_767.0;
    Ok((d, 1.0 / d))
}

#[inline(always)]
pub(super) fn round_i16(x: f32, reciprocal: f32) -> i16 {
    let rounded = (x * reciprocal + ROUNDER).to_bits();
    let int = rounded.wrapping_sub(ROUNDER.to_bits()).cast_signed();
    #[allow(clippy::cast_possible_truncation)] // Clamped.
    {
        int.clamp(-32_767, 32_767) as i16
    }
}

/// Attention over int8 rows, heads of at most [`MAX_HEAD_DIM_Q8`].
#[inline(always)]
pub(super) fn attend_q8(
    queries: Queries<'_>,
    keys: Q8Rows<'_>,
    values: Q8Rows<'_>,
    scratch: AttentionScratch<'_>,
    out: &mut [f32],
) {
    let Queries {
        q,
        head_dim,
        positions,
        scale,
    } = queries;
    let AttentionScratch { scores, ints } = scratch;
    let scores = as_ints(scores.get_mut(..positions).unwrap_or_default());
    let q16 = ints.get_mut(..head_dim).unwrap_or_default();
    let value_scale = ValueScale::of(largest_scale(values.scales));
    for (q, out) in q.chunks_exact(head_dim).zip(out.chunks_exact_mut(head_dim)) {
        let k = fixed_scale(quantize_i16(q, q16), scale);
        let Some(value_scale) = value_scale.filter(|_| k.is_finite()) else {
            out.fill(f32::NAN);
            continue;
        };
        let rows = keys.qs.chunks_exact(head_dim).zip(keys.scales);
        let mut max = i32::MIN;
        for (score, (key, &dk)) in scores.iter_mut().zip(rows) {
            *score = to_fixed(dot_i16(q16, key), k * f16_to_f32(dk));
            max = max.max(*score);
        }
        let origin = origin(max);
        let mut sum = 0_u64;
        for (score, &dv) in scores.iter_mut().zip(values.scales) {
            let p = exp2(*score, origin);
            sum += u64::from(p);
            *score = i32::from(weigh(p, value_scale.fixed(dv)));
        }
        #[allow(clippy::cast_precision_loss)] // Rounds to nearest even.
        let d = value_scale.factor(sum as f32);
        weighted_sum_i16(scores, values.qs, head_dim, d, out);
    }
}

/// What a sum of products with a key of scale 1 is multiplied with to be a score, from the scale of
/// the quantized query.
#[inline(always)]
pub(super) fn fixed_scale(dq: f32, scale: f32) -> f32 {
    (dq * scale) * (core::f32::consts::LOG2_E * 65_536.0)
}

/// A score, in units of 2^-16.
#[inline(always)]
#[allow(clippy::cast_possible_truncation)] // Saturates, and NaN is 0.
pub(super) fn to_fixed(isum: i32, kdk: f32) -> i32 {
    (to_f32(isum) * kdk) as i32
}

/// The score from which on weights are not halved, when this is the largest score: half a power of
/// two above its integer part.
#[inline(always)]
pub(super) fn origin(max: i32) -> i32 {
    (max & !0xffff) | 0x8000
}

/// Whether the largest score is such that the lowest number, which stands behind the last position,
/// has no weight, and that what is added to its integer part does not overflow. What is not is left
/// to this source.
#[cfg(any(
    target_arch = "x86_64",
    all(target_arch = "aarch64", target_feature = "neon"),
    all(target_arch = "arm", any(feature = "dsp", feature = "mve"))
))]
#[inline(always)]
pub(super) fn is_ordinary(max: i32) -> bool {
    (-0x7f00_0000..0x7ffe_0000).contains(&max)
}

/// Coefficients of f to f^3 in 2^f · 2^15, |f| ≤ 1/2, where each product is cut to an integer: the
/// largest error is 1.2e-4 of the result.
pub(super) const EXP2_FIXED: [i16; 3] = [22_719, 7_936, 1_796];

/// The weight of a score: 2^score, so that it is below 2^15; 0 below 2^-15 of that.
#[inline(always)]
pub(super) fn exp2(score: i32, origin: i32) -> u16 {
    // The nearest integer, less that of the origin; the lower half is the rest, with a sign.
    let shift = -(score.saturating_sub(origin) >> 16);
    #[allow(clippy::cast_possible_truncation)]
    let f = i32::from(score as i16);
    let [c1, c2, c3] = EXP2_FIXED.map(i32::from);
    let p = c2 + ((c3 * f) >> 16);
    let p = c1 + ((p * f) >> 16);
    let p = 32_768 + ((p * f) >> 16);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // 0 to 32767.
    {
        (p >> shift.clamp(0, 31)) as u16
    }
}

/// A weight times the scale of its value: a doubling product, of which the upper half is kept.
#[inline(always)]
pub(super) fn weigh(p: u16, value_scale: u16) -> i16 {
    #[allow(clippy::cast_possible_truncation)] // At most 32767.
    {
        ((u32::from(p) * u32::from(value_scale) + 0x4000) >> 15) as i16
    }
}

/// How scales of values become integers.
#[derive(Clone, Copy)]
pub(super) struct ValueScale {
    /// What 1 stands for.
    unit: f32,
    /// One divided by it, or 0.
    pub(super) reciprocal: f32,
}

impl ValueScale {
    /// For the bits of the largest scale; `None` if it is not finite, or negative.
    #[inline(always)]
    pub(super) fn of(largest: u16) -> Option<Self> {
        if largest >= 0x7c00 {
            return None;
        }
        let unit = f16_to_f32(largest) / 32_767.0;
        let reciprocal = if largest == 0 { 0.0 } else { 1.0 / unit };
        Some(Self { unit, reciprocal })
    }

    /// A scale as an integer.
    #[inline(always)]
    pub(super) fn fixed(self, dv: u16) -> u16 {
        round_i16(f16_to_f32(dv), self.reciprocal).unsigned_abs()
    }

    /// What the sum of all products is multiplied with, given the sum of the weights, which is at
    /// least 2^14.
    #[inline(always)]
    pub(super) fn factor(self, sum: f32) -> f32 {
        self.unit * (32_768.0 / sum)
    }
}

/// The largest scale, compared as bits.
#[inline(always)]
pub(super) fn largest_scale(scales: &[u16]) -> u16 {
    scales.iter().copied().fold(0, u16::max)
}

#[inline(always)]
pub(super) fn dot_i16(a: &[i16], b: &[i8]) -> i32 {
    let products = a.iter().zip(b).map(|(&a, &b)| i32::from(a) * i32::from(b));
    products.sum()
}

/// `out = sum(c[i] * values[i]) * d`, eight elements of the head at a time.
#[cfg_attr(not(target_arch = "arm"), inline(always))]
#[cfg_attr(target_arch = "arm", inline(never))] // Microcontrollers have little stack and flash.
pub(super) fn weighted_sum_i16<T: Copy + Into<i32>>(
    c: &[T],
    values: &[i8],
    head_dim: usize,
    d: f32,
    out: &mut [f32],
) {
    let mut first = 0;
    for tile in out.chunks_mut(8) {
        let mut total = [0.0_f32; 8];
        let runs = values.chunks(head_dim * POSITIONS_A_SUM);
        for (c, values) in c.chunks(POSITIONS_A_SUM).zip(runs) {
            let mut sum = [0_i32; 8];
            for (row, &c) in values.chunks_exact(head_dim).zip(c) {
                let row = row.get(first..).unwrap_or_default();
                for (sum, &v) in sum.iter_mut().zip(row).take(tile.len()) {
                    *sum += c.into() * i32::from(v);
                }
            }
            for (total, &sum) in total.iter_mut().zip(&sum) {
                *total += to_f32(sum);
            }
        }
        for (out, total) in tile.iter_mut().zip(total) {
            *out = total * d;
        }
        first += 8;
    }
}

/// Rounds to nearest even, as every target does.
#[inline(always)]
#[allow(clippy::cast_precision_loss)]
pub(super) fn to_f32(x: i32) -> f32 {
    x as f32
}
