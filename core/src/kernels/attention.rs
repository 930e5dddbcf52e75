//! Attention of a group of query heads over the cached positions of their common KV head.
//!
//! The definition of its bits:
//! - **f32 and f16 rows**: a score is the dot product of query and key in eight lanes as in the
//!   products with F32 weights, times `scale`. The sum over positions of `p * v` runs in four lanes
//!   (position `i` in lane `i % 4`, from `+0.0`), joined as `(l0 + l2) + (l1 + l3)`.
//! - **int8 rows**: the query is quantized to 16 bits, `dq = amax / 32767`; a score is the exact
//!   integer sum times `(dq * scale) * dk`. The weights `p * dv` of all positions are quantized to
//!   16 bits with one scale `dc = amax / 32767`, and the sum over positions is exact in integers,
//!   taken to f32 every 512 positions.
//! - **softmax**: `p = exp(score - max)`, their sum in eight lanes; the result is multiplied by the
//!   reciprocal of that sum.

use super::math::{ROUNDER, exp};
use super::rows::{join, largest_magnitude, sum_lanes};
use super::scalar::{INFINITE, TINY};
use crate::quant::f16_to_f32;

/// The largest head size that int8 rows allow: above it a 32-bit sum of 16-bit times 8-bit
/// products could overflow.
pub const MAX_HEAD_DIM_Q8: usize = 512;

/// Positions whose integer sum cannot overflow: 512 · 32767 · 127 < 2^31.
pub(super) const POSITIONS_A_SUM: usize = 512;

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
    /// [`scores_len`] elements.
    pub scores: &'a mut [f32],
    /// [`ints_len`] elements for int8 rows; else none.
    pub ints: &'a mut [i16],
}

/// Elements of [`AttentionScratch::scores`] for this many positions: whole eights.
#[must_use]
pub const fn scores_len(positions: usize) -> usize {
    positions.next_multiple_of(8)
}

/// Elements of [`AttentionScratch::ints`] for this many positions of int8 rows.
#[must_use]
pub const fn ints_len(positions: usize, head_dim: usize) -> usize {
    positions.next_multiple_of(8) + head_dim
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
#[inline(always)]
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
#[inline(always)]
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
    let scores = scores.get_mut(..positions).unwrap_or_default();
    let (q16, c16) = ints.split_at_mut_checked(head_dim).unwrap_or_default();
    let c16 = c16.get_mut(..positions).unwrap_or_default();
    for (q, out) in q.chunks_exact(head_dim).zip(out.chunks_exact_mut(head_dim)) {
        let dq = quantize_i16(q, q16) * scale;
        let rows = keys.qs.chunks_exact(head_dim).zip(keys.scales);
        for (score, (key, &dk)) in scores.iter_mut().zip(rows) {
            *score = to_f32(dot_i16(q16, key)) * (dq * f16_to_f32(dk));
        }
        let reciprocal = exp_and_reciprocal_sum(scores);
        for (score, &dv) in scores.iter_mut().zip(values.scales) {
            *score *= f16_to_f32(dv);
        }
        let dc = quantize_i16(scores, c16) * reciprocal;
        weighted_sum_i16(c16, values.qs, head_dim, dc, out);
    }
}

#[inline(always)]
pub(super) fn dot_i16(a: &[i16], b: &[i8]) -> i32 {
    let products = a.iter().zip(b).map(|(&a, &b)| i32::from(a) * i32::from(b));
    products.sum()
}

/// `out = sum(c[i] * values[i]) * d`, eight elements of the head at a time.
#[inline(always)]
pub(super) fn weighted_sum_i16(c: &[i16], values: &[i8], head_dim: usize, d: f32, out: &mut [f32]) {
    let mut first = 0;
    for tile in out.chunks_mut(8) {
        let mut total = [0.0_f32; 8];
        let runs = values.chunks(head_dim * POSITIONS_A_SUM);
        for (c, values) in c.chunks(POSITIONS_A_SUM).zip(runs) {
            let mut sum = [0_i32; 8];
            for (row, &c) in values.chunks_exact(head_dim).zip(c) {
                let row = row.get(first..).unwrap_or_default();
                for (sum, &v) in sum.iter_mut().zip(row).take(tile.len()) {
                    *sum += i32::from(c) * i32::from(v);
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
