//! Attention over int8 rows on Cortex-M: the way through it, around the loops of a back end. Two
//! query heads go together, so that keys and values are read once for both; a last one alone goes
//! twice.
#![allow(unsafe_code)]

use super::attention::{
    self, AttentionScratch, MAX_POSITIONS, POSITIONS_A_SUM, Q8Rows, Queries, ValueScale, as_ints,
    dot_i16, fixed_scale, is_ordinary, quantize_i16, to_f32,
};

/// The size of a head that has loops of its own.
pub(super) const HEAD: usize = 8;

/// Scores are stored in whole eights of positions.
pub(super) const BLOCK: usize = 8;

/// The loops over positions. What is kept for a position is a number for each of the two heads.
///
/// # Safety
///
/// All functions: the instructions of the back end are there.
pub(super) trait Loops {
    /// The largest scale, compared as bits.
    ///
    /// # Safety
    ///
    /// There is at least one.
    unsafe fn largest_scale(scales: &[u16]) -> u16;

    /// Products of the queries with each key, for heads of eight.
    ///
    /// # Safety
    ///
    /// `keys` has a row of eight for each place, of which there is at least one.
    unsafe fn products_of_8(q16: &[i16; 2 * HEAD], keys: &[i8], products: &mut [[i32; 2]]);

    /// Products become scores, see [`to_fixed`](attention::to_fixed). The answer are the integer
    /// parts of the largest.
    ///
    /// # Safety
    ///
    /// There are as many products as scales, at least one.
    unsafe fn scores(products: &mut [[i32; 2]], scales: &[u16], k: [f32; 2]) -> [i32; 2];

    /// Scores become weights times the scales of the values, see [`weigh`](attention::weigh), in a
    /// form that [`weight`](Self::weight) and [`sums_of_8`](Self::sums_of_8) know. The answer are
    /// the sums of the weights. `most` are the integer parts of the largest scores, which
    /// are [ordinary](is_ordinary).
    ///
    /// # Safety
    ///
    /// There are as many whole [`BLOCK`]s of scores as have a scale, at least one; where there is no
    /// scale the score is the lowest.
    unsafe fn weigh(
        scores: &mut [[i32; 2]],
        scales: &[u16],
        reciprocal: f32,
        most: [i32; 2],
    ) -> [u32; 2];

    /// What [`weigh`](Self::weigh) has made for a position and a head; 0 if there is none.
    fn weight(weights: &[[i32; 2]], position: usize, head: usize) -> i16;

    /// `sum(weight[i] * values[i])` for heads of eight.
    ///
    /// # Safety
    ///
    /// `weights` are whole [`BLOCK`]s, as many as rows of eight values need, of which there is at
    /// least one and at most [`POSITIONS_A_SUM`].
    unsafe fn sums_of_8(weights: &[[i32; 2]], values: &[i8]) -> [[i32; HEAD]; 2];
}

/// Attention over int8 rows, as [`attend_q8`](attention::attend_q8) defines it.
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
        head_dim,
        positions,
        ..
    } = queries;
    let AttentionScratch { scores, ints } = scratch;
    let rows = positions.checked_mul(head_dim);
    let is_whole =
        |rows_of: &Q8Rows<'_>| rows == Some(rows_of.qs.len()) && rows_of.scales.len() == positions;
    let value_scale = if positions == 0 || !is_whole(&keys) || !is_whole(&values) {
        None // Lengths that do not belong together.
    } else {
        // SAFETY: the instructions are there, and a scale is.
        ValueScale::of(unsafe { L::largest_scale(values.scales) })
    };
    let Some(value_scale) = value_scale else {
        out.fill(f32::NAN);
        return;
    };
    let (mut q, mut out) = (queries.q, out);
    while !q.is_empty() && !out.is_empty() {
        let two = (2 * head_dim).min(q.len()).min(out.len());
        let (of_two, rest) = q.split_at(two);
        let (out_of_two, out_rest) = out.split_at_mut(two);
        let queries = Queries {
            q: of_two,
            ..queries
        };
        // SAFETY: the instructions are there, and the lengths have been checked.
        let done = unsafe {
            attend_two::<L>(queries, keys, values, value_scale, scores, ints, out_of_two)
        };
        if done.is_none() {
            let scratch = AttentionScratch {
                scores: &mut *scores,
                ints: &mut *ints,
            };
            attention::attend_q8(queries, keys, values, scratch, out_of_two);
        }
        (q, out) = (rest, out_rest);
    }
}

/// Attention of one or two heads; `None`, and nothing done, if it is to be left to the common
/// source: what is not finite, and what might not fit into 32 bits.
///
/// # Safety
///
/// The instructions of `L` are there; keys and values have as many rows and scales as there are
/// positions, at least one.
#[inline(always)]
unsafe fn attend_two<L: Loops>(
    queries: Queries<'_>,
    keys: Q8Rows<'_>,
    values: Q8Rows<'_>,
    value_scale: ValueScale,
    scores: &mut [f32],
    ints: &mut [i16],
    out: &mut [f32],
) -> Option<()> {
    let Queries {
        q,
        head_dim,
        positions,
        scale,
    } = queries;
    let (scores, _) = as_ints(scores).as_chunks_mut::<2>();
    let scores = scores.get_mut(..positions.next_multiple_of(BLOCK))?;
    let q16 = ints.get_mut(..2 * head_dim)?;
    let (first, second) = q.split_at_checked(head_dim)?;
    let second = if second.is_empty() { first } else { second };
    let (first16, second16) = q16.split_at_mut(head_dim);
    let k = [
        fixed_scale(quantize_i16(first, first16), scale),
        fixed_scale(quantize_i16(second, second16), scale),
    ];
    if !k[0].is_finite() || !k[1].is_finite() {
        return None;
    }
    if positions > MAX_POSITIONS {
        return None;
    }
    let (used, rest) = scores.split_at_mut(positions);
    rest.fill([i32::MIN; 2]);
    match <&[i16; 2 * HEAD]>::try_from(&*q16) {
        // SAFETY: the instructions are there, the lengths have been checked.
        Ok(q16) => unsafe { L::products_of_8(q16, keys.qs, used) },
        Err(_) => {
            let (first, second) = q16.split_at(head_dim);
            for (products, key) in used.iter_mut().zip(keys.qs.chunks_exact(head_dim)) {
                *products = [dot_i16(first, key), dot_i16(second, key)];
            }
        }
    }
    // SAFETY: the instructions are there, the lengths have been checked.
    let most = unsafe { L::scores(used, keys.scales, k) };
    if !most.iter().all(|&most| is_ordinary(most << 16)) {
        return None;
    }
    // SAFETY: the instructions are there, the lengths have been checked, and behind the used scores
    // there are the lowest.
    let sums = unsafe { L::weigh(scores, values.scales, value_scale.reciprocal, most) };
    #[allow(clippy::cast_precision_loss)] // Rounds to nearest even.
    let d = sums.map(|sum| value_scale.factor(sum as f32));
    if head_dim == HEAD {
        let mut total = [[0.0_f32; HEAD]; 2];
        let (mut weights, mut values) = (&*scores, values.qs);
        while !values.is_empty() {
            let (of_run, weights_rest) = split_at_most(weights, POSITIONS_A_SUM);
            let (run, values_rest) = split_at_most(values, HEAD * POSITIONS_A_SUM);
            // SAFETY: the instructions are there, and there are as many rows as positions.
            let sums = unsafe { L::sums_of_8(of_run, run) };
            let totals = total.as_flattened_mut().iter_mut();
            for (total, &sum) in totals.zip(sums.as_flattened()) {
                *total += to_f32(sum);
            }
            (weights, values) = (weights_rest, values_rest);
        }
        for ((out, total), d) in out.chunks_exact_mut(HEAD).zip(&total).zip(d) {
            for (out, total) in out.iter_mut().zip(total) {
                *out = total * d;
            }
        }
        return Some(());
    }
    for ((head, out), d) in out.chunks_exact_mut(head_dim).enumerate().zip(d) {
        for (i, out) in out.iter_mut().enumerate() {
            let mut total = 0.0;
            let mut rows = values.qs.chunks_exact(head_dim).enumerate();
            while rows.len() > 0 {
                let run = rows.by_ref().take(POSITIONS_A_SUM);
                let products = run.map(|(position, row)| {
                    let v = row.get(i).copied().unwrap_or_default();
                    i32::from(L::weight(scores, position, head)) * i32::from(v)
                });
                total += to_f32(products.sum());
            }
            *out = total * d;
        }
    }
    Some(())
}

fn split_at_most<T>(slice: &[T], most: usize) -> (&[T], &[T]) {
    slice.split_at(most.min(slice.len()))
}
