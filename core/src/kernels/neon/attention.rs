//! Attention over int8 rows of heads whose size is a multiple of eight, four positions at a time.

use core::arch::aarch64::*;

use super::rows::exp;
use super::{f16_to_f32, f16_to_f32_high, join};
use crate::kernels::attention::{
    self, AttentionScratch, POSITIONS_A_SUM, Q8Rows, Queries, padded, scores_len,
};
use crate::kernels::rows;

/// Attention over int8 rows.
pub(in crate::kernels) fn attend_q8(
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
    if !head_dim.is_multiple_of(8) {
        attention::attend_q8(queries, keys, values, scratch, out);
        return;
    }
    let AttentionScratch { scores, ints } = scratch;
    let len = scores_len(positions);
    let (q16, c16) = ints.split_at_mut_checked(head_dim).unwrap_or_default();
    let (Some(scores), Some(c16)) = (scores.get_mut(..len), c16.get_mut(..len)) else {
        return;
    };
    let (scores8, _) = scores.as_chunks_mut::<8>();
    let (c8, _) = c16.as_chunks_mut::<8>();
    for (q, out) in q.chunks_exact(head_dim).zip(out.chunks_exact_mut(head_dim)) {
        let dq = attention::quantize_i16(q, q16) * scale;
        scores_of(q16, keys, dq, scores8);
        // Minus infinity where there is no position: its exponential is `+0.0`, which adds nothing.
        for score in scores8.as_flattened_mut().iter_mut().skip(positions) {
            *score = f32::NEG_INFINITY;
        }
        let (sums, amax) = exp_times_scales(scores8, values.scales);
        let dc = round_to_i16(scores8, amax, c8) * (1.0 / rows::join(sums));
        let c16 = c8.as_flattened().get(..positions).unwrap_or_default();
        weighted_sum(c16, values.qs, dc, out);
    }
}

#[inline(always)]
fn load(from: &[f32; 8]) -> [float32x4_t; 2] {
    // SAFETY: NEON is there, and 8 numbers are.
    unsafe { [vld1q_f32(from.as_ptr()), vld1q_f32(from[4..].as_ptr())] }
}

#[inline(always)]
fn store(to: &mut [f32; 8], [low, high]: [float32x4_t; 2]) {
    let (to_low, to_high) = to.split_at_mut(4);
    // SAFETY: NEON is there, and room for 4 numbers each.
    unsafe {
        vst1q_f32(to_low.as_mut_ptr(), low);
        vst1q_f32(to_high.as_mut_ptr(), high);
    }
}

/// Eight scales.
#[inline(always)]
fn load_f16(from: &[u16; 8]) -> [float32x4_t; 2] {
    // SAFETY: NEON is there, and 8 numbers are.
    let halves = unsafe { vld1q_u16(from.as_ptr()) };
    // SAFETY: NEON is there.
    [
        f16_to_f32(unsafe { vget_low_u16(halves) }),
        f16_to_f32_high(halves),
    ]
}

/// Eight bytes widened to 16 bits.
#[inline(always)]
fn widen(from: &[i8; 8]) -> int16x8_t {
    // SAFETY: NEON is there, and 8 bytes are.
    unsafe { vmovl_s8(vld1_s8(from.as_ptr())) }
}

#[inline(always)]
fn load_i16(from: &[i16; 8]) -> int16x8_t {
    // SAFETY: NEON is there, and 8 numbers are.
    unsafe { vld1q_s16(from.as_ptr()) }
}

/// Exact integer dot products of the query with the key of each position, times `dq * dk`.
#[inline(always)]
fn scores_of(q16: &[i16], keys: Q8Rows<'_>, dq: f32, scores: &mut [[f32; 8]]) {
    let head_dim = q16.len();
    let (q, _) = q16.as_chunks::<8>();
    // SAFETY: NEON is there.
    let product = |q: int16x8_t, k: int16x8_t| unsafe {
        vmlal_high_s16(vmull_s16(vget_low_s16(q), vget_low_s16(k)), q, k)
    };
    // SAFETY: NEON is there.
    let finish = |sums: [int32x4_t; 8], scales: &[u16; 8]| unsafe {
        let [a, b, c, d, e, f, g, h] = sums;
        let [low, high] = load_f16(scales);
        let low = vmulq_f32(vcvtq_f32_s32(join([a, b, c, d])), vmulq_n_f32(low, dq));
        let high = vmulq_f32(vcvtq_f32_s32(join([e, f, g, h])), vmulq_n_f32(high, dq));
        [low, high]
    };
    let (scales, last_scales) = keys.scales.as_chunks::<8>();
    if let [q] = q {
        // Heads of eight: a key is a register.
        let q = load_i16(q);
        let one = |key: &[i8; 8]| product(q, widen(key));
        let (eights, last) = keys.qs.as_chunks::<8>().0.as_chunks::<8>();
        let (groups, last_group) = scores.split_at_mut(eights.len().min(scores.len()));
        for ((scores, [a, b, c, d, e, f, g, h]), scales) in
            groups.iter_mut().zip(eights).zip(scales)
        {
            let sums = [
                one(a),
                one(b),
                one(c),
                one(d),
                one(e),
                one(f),
                one(g),
                one(h),
            ];
            store(scores, finish(sums, scales));
        }
        if let [scores] = last_group {
            let [a, b, c, d, e, f, g, h] = &padded::<[i8; 8], 8>(last);
            let sums = [
                one(a),
                one(b),
                one(c),
                one(d),
                one(e),
                one(f),
                one(g),
                one(h),
            ];
            store(scores, finish(sums, &padded(last_scales)));
        }
        return;
    }
    let last_scales = padded(last_scales);
    let scales = scales.iter().chain([&last_scales]);
    let keys = keys.qs.chunks(8 * head_dim);
    for ((scores, keys), scales) in scores.iter_mut().zip(keys).zip(scales) {
        // SAFETY: NEON is there.
        let mut sums = [unsafe { vdupq_n_s32(0) }; 8];
        for (sums, key) in sums.iter_mut().zip(keys.chunks_exact(head_dim)) {
            for (q, k) in q.iter().zip(key.as_chunks::<8>().0) {
                let product = product(load_i16(q), widen(k));
                // SAFETY: NEON is there.
                *sums = unsafe { vaddq_s32(*sums, product) };
            }
        }
        store(scores, finish(sums, scales));
    }
}

/// Scores become `e^(score - max) * scale`; the answer is the sum of the exponentials, in eight
/// lanes, and the largest magnitude of what was stored, as bits.
#[inline(always)]
fn exp_times_scales(scores: &mut [[f32; 8]], scales: &[u16]) -> ([f32; 8], u32) {
    // SAFETY: NEON is there.
    unsafe {
        let lowest = vdupq_n_f32(f32::NEG_INFINITY);
        let mut most = [lowest; 2];
        for group in scores.iter() {
            let [low, high] = load(group);
            // FMAXNM passes over a quiet NaN; NaN here comes out of arithmetic and is quiet.
            most = [vmaxnmq_f32(most[0], low), vmaxnmq_f32(most[1], high)];
        }
        let max = vdupq_n_f32(vmaxnmvq_f32(vmaxnmq_f32(most[0], most[1])));
        let mut sums = [vdupq_n_f32(0.0); 2];
        let mut amax = vdupq_n_u32(0);
        let mut weigh = |scores: &mut [f32; 8], scales: &[u16; 8]| {
            let [low, high] = load(scores);
            let (low, high) = (exp(vsubq_f32(low, max)), exp(vsubq_f32(high, max)));
            sums = [vaddq_f32(sums[0], low), vaddq_f32(sums[1], high)];
            let [scale_low, scale_high] = load_f16(scales);
            let (low, high) = (vmulq_f32(low, scale_low), vmulq_f32(high, scale_high));
            let bits = |c: float32x4_t| vreinterpretq_u32_f32(vabsq_f32(c));
            amax = vmaxq_u32(amax, vmaxq_u32(bits(low), bits(high)));
            store(scores, [low, high]);
        };
        let (scales, last_scales) = scales.as_chunks::<8>();
        let (groups, last) = scores.split_at_mut(scales.len().min(scores.len()));
        for (scores, scales) in groups.iter_mut().zip(scales) {
            weigh(scores, scales);
        }
        if let [last] = last {
            weigh(last, &padded(last_scales));
        }
        let mut lanes = [0.0; 8];
        store(&mut lanes, sums);
        (lanes, vmaxvq_u32(amax))
    }
}

/// As [`attention::quantize_i16`] for numbers whose largest magnitude is known.
#[inline(always)]
fn round_to_i16(x: &[[f32; 8]], amax: u32, out: &mut [[i16; 8]]) -> f32 {
    let (d, reciprocal) = match attention::scale_i16(amax) {
        Ok(scales) => scales,
        Err((d, quant)) => {
            out.fill([quant; 8]);
            return d;
        }
    };
    for (x, out) in x.iter().zip(out) {
        let [low, high] = load(x);
        // SAFETY: NEON is there, and room for 8 numbers.
        unsafe {
            // FCVTNS rounds to nearest even; a product is at most 32768, and that is clamped.
            let low = vcvtnq_s32_f32(vmulq_n_f32(low, reciprocal));
            let high = vcvtnq_s32_f32(vmulq_n_f32(high, reciprocal));
            let packed = vqmovn_high_s32(vqmovn_s32(low), high);
            vst1q_s16(out.as_mut_ptr(), vmaxq_s16(packed, vdupq_n_s16(-32_767)));
        }
    }
    d
}

/// `out = sum(c[i] * values[i]) * d`.
#[inline(always)]
fn weighted_sum(c16: &[i16], values: &[i8], d: f32, out: &mut [f32]) {
    let head_dim = out.len();
    let (tiles, _) = out.as_chunks_mut::<8>();
    let one_tile = tiles.len() == 1;
    for (tile, out) in tiles.iter_mut().enumerate() {
        // SAFETY: NEON is there.
        let mut total = [unsafe { vdupq_n_f32(0.0) }; 2];
        let runs = values.chunks(head_dim * POSITIONS_A_SUM);
        for (c16, values) in c16.chunks(POSITIONS_A_SUM).zip(runs) {
            let sums = if one_tile {
                sum_of_eight(c16, values.as_chunks::<8>().0)
            } else {
                let rows = values.chunks_exact(head_dim);
                let eights = rows.filter_map(|row| row.get(tile * 8..)?.first_chunk::<8>());
                // SAFETY: NEON is there.
                let mut sums = [unsafe { vdupq_n_s32(0) }; 2];
                for (&c, row) in c16.iter().zip(eights) {
                    sums = add_product(sums, c, row);
                }
                sums
            };
            // SAFETY: NEON is there.
            total = unsafe {
                [
                    vaddq_f32(total[0], vcvtq_f32_s32(sums[0])),
                    vaddq_f32(total[1], vcvtq_f32_s32(sums[1])),
                ]
            };
        }
        // SAFETY: NEON is there.
        store(out, total.map(|total| unsafe { vmulq_n_f32(total, d) }));
    }
}

#[inline(always)]
fn add_product([low, high]: [int32x4_t; 2], c: i16, row: &[i8; 8]) -> [int32x4_t; 2] {
    let row = widen(row);
    // SAFETY: NEON is there.
    unsafe {
        [
            vmlal_n_s16(low, vget_low_s16(row), c),
            vmlal_high_n_s16(high, row, c),
        ]
    }
}

/// `sum(c[i] * rows[i])` for rows of eight.
#[inline(always)]
fn sum_of_eight(c16: &[i16], rows: &[[i8; 8]]) -> [int32x4_t; 2] {
    // SAFETY: NEON is there.
    unsafe {
        let mut sums = [vdupq_n_s32(0); 2];
        let (c8, rest) = c16.as_chunks::<8>();
        let (rows8, rest_rows) = rows.as_chunks::<8>();
        for (c, rows) in c8.iter().zip(rows8) {
            let c = load_i16(c);
            // The weight stays in its lane: nothing is moved.
            macro_rules! add {
                ($($lane:literal)*) => { $(
                    let row = widen(&rows[$lane]);
                    sums[0] = vmlal_laneq_s16::<$lane>(sums[0], vget_low_s16(row), c);
                    sums[1] = vmlal_high_laneq_s16::<$lane>(sums[1], row, c);
                )* };
            }
            add!(0 1 2 3 4 5 6 7);
        }
        for (&c, row) in rest.iter().zip(rest_rows) {
            sums = add_product(sums, c, row);
        }
        sums
    }
}
