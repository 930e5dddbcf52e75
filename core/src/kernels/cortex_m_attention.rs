//! Attention over int8 rows on Cortex-M: the way through it, around the loops of a back end.
#![allow(unsafe_code)]

use super::attention::{
    AttentionScratch, POSITIONS_A_SUM, Q8Rows, Queries, dot_i16, quantize_i16, scale_i16, to_f32,
    weighted_sum_i16,
};
use super::rows::join;
use crate::quant::f16_to_f32;

/// The size of a head that has loops of its own.
pub(super) const HEAD: usize = 8;

/// The loops over positions.
///
/// # Safety
///
/// All functions: the instructions of the back end are there.
pub(super) trait Loops {
    /// Scores for a head of eight, see [`attend_q8`](super::attention::attend_q8). The answer is the
    /// largest.
    ///
    /// # Safety
    ///
    /// `keys` has as many rows of eight, and as many scales, as there are scores, of which there is
    /// at least one.
    unsafe fn scores_of_8(q16: &[i16; HEAD], keys: Q8Rows<'_>, dq: f32, scores: &mut [f32]) -> f32;

    /// Scores become e^(score - max), times the scale of their value.
    ///
    /// # Safety
    ///
    /// There are as many scores as scales, one eight of them or more.
    unsafe fn exp_eights(scores: &mut [f32], scales: &[u16], max: f32, sums: &mut Sums);

    /// Numbers times `reciprocal`, rounded to nearest even. None is beyond ±32767, since
    /// `reciprocal` is that of their scale: nothing need be clamped.
    ///
    /// # Safety
    ///
    /// `out` is as long as `x`, one eight or more.
    unsafe fn round(x: &[f32], reciprocal: f32, out: &mut [i16]);

    /// `sum(c[i] * values[i])`.
    ///
    /// # Safety
    ///
    /// `c` has at least one element and at most [`POSITIONS_A_SUM`], and there are as many rows of
    /// eight values.
    unsafe fn sum_of_8(c: &[i16], values: &[i8]) -> [i32; HEAD];
}

/// Attention over int8 rows, as [`attend_q8`](super::attention::attend_q8) defines it.
///
/// # Safety
///
/// The instructions of `L` are there.
pub(super) unsafe fn attend_q8<L: Loops>(
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
    let eights = positions.next_multiple_of(8);
    let (q16, c16) = ints.split_at_mut_checked(head_dim).unwrap_or_default();
    let scores = scores.get_mut(..eights).unwrap_or_default();
    let c16 = c16.get_mut(..eights).unwrap_or_default();
    let rows = positions.checked_mul(head_dim);
    let is_whole =
        |rows_of: &Q8Rows<'_>| rows == Some(rows_of.qs.len()) && rows_of.scales.len() == positions;
    if positions == 0
        || scores.is_empty()
        || c16.is_empty()
        || !is_whole(&keys)
        || !is_whole(&values)
    {
        out.fill(f32::NAN); // Lengths that do not belong together.
        return;
    }
    for (q, out) in q.chunks_exact(head_dim).zip(out.chunks_exact_mut(head_dim)) {
        let dq = quantize_i16(q, q16) * scale;
        let (used, rest) = scores.split_at_mut(positions);
        rest.fill(f32::NEG_INFINITY);
        let max = match <&[i16; HEAD]>::try_from(&*q16) {
            // SAFETY: the instructions are there, the lengths have been checked.
            Ok(q16) => unsafe { L::scores_of_8(q16, keys, dq, used) },
            Err(_) => scores_of_any(q16, keys, head_dim, dq, used),
        };
        // SAFETY: the instructions are there, and there are as many scales as positions.
        let (sum, amax) = unsafe { softmax::<L>(scores, values.scales, max) };
        let dc = match scale_i16(amax) {
            Ok((d, reciprocal)) => {
                // SAFETY: the instructions are there, and both have the same whole eights.
                unsafe { L::round(scores, reciprocal, c16) };
                d
            }
            Err((d, quant)) => {
                c16.fill(quant);
                d
            }
        };
        let d = dc * (1.0 / sum);
        let c16 = c16.get(..positions).unwrap_or_default();
        match <&mut [f32; HEAD]>::try_from(&mut *out) {
            // SAFETY: the instructions are there, the lengths have been checked.
            Ok(out) => unsafe { weighted_sum_of_8::<L>(c16, values.qs, d, out) },
            Err(_) => weighted_sum_i16(c16, values.qs, head_dim, d, out),
        }
    }
}

/// Scores for a head of any size; the answer is the largest.
fn scores_of_any(
    q16: &[i16],
    keys: Q8Rows<'_>,
    head_dim: usize,
    dq: f32,
    scores: &mut [f32],
) -> f32 {
    let rows = keys.qs.chunks_exact(head_dim).zip(keys.scales);
    let mut max = f32::NEG_INFINITY;
    for (score, (key, &dk)) in scores.iter_mut().zip(rows) {
        *score = to_f32(dot_i16(q16, key)) * (dq * f16_to_f32(dk));
        max = if *score > max { *score } else { max };
    }
    max
}

/// What the softmax keeps from one run of scores to the next.
#[repr(C)]
pub(super) struct Sums {
    /// Lanes of the sum.
    pub(super) lanes: [f32; 8],
    /// The largest magnitude, as the bits of an f32 without the sign, in the upper 31.
    pub(super) amax: u32,
}

/// Scores, whole eights of them, become e^(score - max), times the scale of their value. The answer
/// is the sum without these scales, and the bits of the largest magnitude.
///
/// # Safety
///
/// The instructions of `L` are there.
unsafe fn softmax<L: Loops>(scores: &mut [f32], scales: &[u16], max: f32) -> (f32, u32) {
    let mut sums = Sums {
        lanes: [0.0; 8],
        amax: 0,
    };
    let (whole, last) = scales.as_chunks::<8>();
    let (scores, last_scores) = scores.split_at_mut(whole.len() * 8);
    let mut padded = [0; 8];
    for (to, &scale) in padded.iter_mut().zip(last) {
        *to = scale;
    }
    // SAFETY: the instructions are there; eights of scores and of scales belong together.
    unsafe {
        if !scores.is_empty() {
            L::exp_eights(scores, whole.as_flattened(), max, &mut sums);
        }
        if last_scores.len() == 8 {
            L::exp_eights(last_scores, &padded, max, &mut sums);
        }
    }
    (join(sums.lanes), sums.amax >> 1)
}

/// `out = sum(c[i] * values[i]) * d` for a head of eight.
///
/// # Safety
///
/// The instructions of `L` are there, and there are as many rows of eight values as `c` has elements.
unsafe fn weighted_sum_of_8<L: Loops>(c: &[i16], values: &[i8], d: f32, out: &mut [f32; HEAD]) {
    let mut total = [0.0_f32; HEAD];
    let runs = values.chunks(HEAD * POSITIONS_A_SUM);
    for (c, values) in c.chunks(POSITIONS_A_SUM).zip(runs) {
        // SAFETY: there are as many rows as elements of `c`.
        let sum = unsafe { L::sum_of_8(c, values) };
        for (total, sum) in total.iter_mut().zip(sum) {
            *total += to_f32(sum);
        }
    }
    for (out, total) in out.iter_mut().zip(total) {
        *out = total * d;
    }
}
