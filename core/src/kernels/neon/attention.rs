//! Attention over int8 rows of heads whose size is a multiple of eight, four positions at a time.

use core::arch::aarch64::*;

use super::{f16_to_f32, f16_to_f32_high, join};
use crate::kernels::attention::{
    self, AttentionScratch, EXP2_FIXED, MAX_POSITIONS, POSITIONS_A_SUM, Q8Rows, Queries,
    ValueScale, as_halves, as_ints, padded, scores_len,
};

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
    if !head_dim.is_multiple_of(8) || positions > MAX_POSITIONS {
        attention::attend_q8(queries, keys, values, scratch, out);
        return;
    }
    let AttentionScratch { scores, ints } = scratch;
    let len = scores_len(positions);
    let value_scale = ValueScale::of(largest_scale(values.scales));
    for (q, out) in q.chunks_exact(head_dim).zip(out.chunks_exact_mut(head_dim)) {
        let (scores8, weights) = as_ints(scores)
            .split_at_mut_checked(len)
            .unwrap_or_default();
        let (scores8, _) = scores8.as_chunks_mut::<8>();
        let (c8, _) = as_halves(weights).as_chunks_mut::<8>();
        let q16 = ints.get_mut(..head_dim).unwrap_or_default();
        let k = attention::fixed_scale(attention::quantize_i16(q, q16), scale);
        let Some(value_scale) = value_scale.filter(|_| k.is_finite()) else {
            out.fill(f32::NAN);
            continue;
        };
        let max = scores_of(q16, keys, k, scores8);
        if !attention::is_ordinary(max) {
            let scratch = AttentionScratch {
                scores: &mut *scores,
                ints: &mut *ints,
            };
            attention::attend_q8(Queries { q, ..queries }, keys, values, scratch, out);
            continue;
        }
        let sum = weigh(scores8, max, values.scales, value_scale.reciprocal, c8);
        let c16 = c8.as_flattened().get(..positions).unwrap_or_default();
        weighted_sum(c16, values.qs, value_scale.factor(sum), out);
    }
}

/// The largest scale, compared as bits.
#[inline(always)]
fn largest_scale(scales: &[u16]) -> u16 {
    let (eights, rest) = scales.as_chunks::<8>();
    // SAFETY: NEON is there, and 8 numbers are.
    let most = unsafe {
        let mut most = vdupq_n_u16(0);
        for eight in eights {
            most = vmaxq_u16(most, vld1q_u16(eight.as_ptr()));
        }
        vmaxvq_u16(most)
    };
    rest.iter().copied().fold(most, u16::max)
}

#[inline(always)]
fn load(from: &[i32; 8]) -> [int32x4_t; 2] {
    // SAFETY: NEON is there, and 8 numbers are.
    unsafe { [vld1q_s32(from.as_ptr()), vld1q_s32(from[4..].as_ptr())] }
}

#[inline(always)]
fn store_ints(to: &mut [i32; 8], [low, high]: [int32x4_t; 2]) {
    let (to_low, to_high) = to.split_at_mut(4);
    // SAFETY: NEON is there, and room for 4 numbers each.
    unsafe {
        vst1q_s32(to_low.as_mut_ptr(), low);
        vst1q_s32(to_high.as_mut_ptr(), high);
    }
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

/// The score of each position, see [`attention::to_fixed`], the lowest where there is none; the
/// answer is the largest.
#[inline(always)]
fn scores_of(q16: &[i16], keys: Q8Rows<'_>, k: f32, scores: &mut [[i32; 8]]) -> i32 {
    let head_dim = q16.len();
    let (q, _) = q16.as_chunks::<8>();
    // SAFETY: NEON is there.
    let product = |q: int16x8_t, k: int16x8_t| unsafe {
        vmlal_high_s16(vmull_s16(vget_low_s16(q), vget_low_s16(k)), q, k)
    };
    // SAFETY: NEON is there.
    let finish = |sums: [[int32x4_t; 4]; 2], scales: &[u16; 8]| unsafe {
        let [low, high] = load_f16(scales);
        let low = vmulq_f32(vcvtq_f32_s32(join(sums[0])), vmulq_n_f32(low, k));
        let high = vmulq_f32(vcvtq_f32_s32(join(sums[1])), vmulq_n_f32(high, k));
        [vcvtq_s32_f32(low), vcvtq_s32_f32(high)]
    };
    let (scales, last_scales) = keys.scales.as_chunks::<8>();
    // SAFETY: NEON is there.
    let mut most = unsafe { vdupq_n_s32(i32::MIN) };
    let mut put = |to: &mut [i32; 8], scores: [int32x4_t; 2]| {
        // SAFETY: NEON is there.
        most = unsafe { vmaxq_s32(most, vmaxq_s32(scores[0], scores[1])) };
        store_ints(to, scores);
    };
    let (groups, last_group) = scores.split_at_mut(scales.len().min(scores.len()));
    let mut last = [i32::MIN; 8];
    if let [q] = q {
        // Heads of eight: a key is a register.
        let q = load_i16(q);
        let one = |key: &[i8; 8]| product(q, widen(key));
        let eight = |[a, b, c, d, e, f, g, h]: &[[i8; 8]; 8]| {
            let low = [one(a), one(b), one(c), one(d)];
            let high = [one(e), one(f), one(g), one(h)];
            [low, high]
        };
        let (eights, last_keys) = keys.qs.as_chunks::<8>().0.as_chunks::<8>();
        for ((scores, keys), scales) in groups.iter_mut().zip(eights).zip(scales) {
            put(scores, finish(eight(keys), scales));
        }
        if !last_scales.is_empty() {
            let sums = eight(&padded(last_keys));
            store_ints(&mut last, finish(sums, &padded(last_scales)));
        }
    } else {
        let any = |keys: &[i8]| {
            // SAFETY: NEON is there.
            let mut sums = [unsafe { vdupq_n_s32(0) }; 8];
            for (sums, key) in sums.iter_mut().zip(keys.chunks_exact(head_dim)) {
                for (q, k) in q.iter().zip(key.as_chunks::<8>().0) {
                    let product = product(load_i16(q), widen(k));
                    // SAFETY: NEON is there.
                    *sums = unsafe { vaddq_s32(*sums, product) };
                }
            }
            let [a, b, c, d, e, f, g, h] = sums;
            [[a, b, c, d], [e, f, g, h]]
        };
        let mut keys = keys.qs.chunks(8 * head_dim);
        for ((scores, scales), keys) in groups.iter_mut().zip(scales).zip(&mut keys) {
            put(scores, finish(any(keys), scales));
        }
        if let Some(keys) = keys.next() {
            store_ints(&mut last, finish(any(keys), &padded(last_scales)));
        }
    }
    // The lowest score, where there is no position, has no weight.
    last.iter_mut()
        .skip(last_scales.len())
        .for_each(|score| *score = i32::MIN);
    if let [scores] = last_group {
        *scores = last;
        put(scores, load(&last));
    }
    // SAFETY: NEON is there.
    unsafe { vmaxvq_s32(most) }
}

/// Weights of scores times the scales of values, see [`attention::weigh`]; the answer is the sum of
/// the weights.
#[inline(always)]
fn weigh(
    scores: &[[i32; 8]],
    max: i32,
    scales: &[u16],
    reciprocal: f32,
    out: &mut [[i16; 8]],
) -> f32 {
    // SAFETY: NEON is there; stores have room for eight numbers.
    unsafe {
        let origin = vdupq_n_s32(attention::origin(max));
        let [c1, c2, c3] = EXP2_FIXED.map(|c| vdupq_n_s16(c));
        let one = vdupq_n_s16(i16::MIN); // 2^15, without a sign.
        let lowest = vdupq_n_s16(-31);
        let mut sums = vdupq_n_u32(0);
        let mut weigh = |scores: &[i32; 8], scales: &[u16; 8], out: &mut [i16; 8]| {
            let [low, high] = load(scores);
            let halves = vreinterpretq_s16_s32;
            let f = vuzp1q_s16(halves(low), halves(high));
            let (low, high) = (vqsubq_s32(low, origin), vqsubq_s32(high, origin));
            // Never above 0; what is shifted by 31 is 0.
            let shift = vmaxq_s16(vuzp2q_s16(halves(low), halves(high)), lowest);
            // SQDMULH doubles, so that the upper half is to be halved.
            let p = vsraq_n_s16::<1>(c2, vqdmulhq_s16(c3, f));
            let p = vsraq_n_s16::<1>(c1, vqdmulhq_s16(p, f));
            let p = vsraq_n_s16::<1>(one, vqdmulhq_s16(p, f));
            let p = vshlq_u16(vreinterpretq_u16_s16(p), shift);
            sums = vpadalq_u16(sums, p);
            let [low, high] = load_f16(scales);
            let low = vcvtnq_s32_f32(vmulq_n_f32(low, reciprocal));
            let high = vcvtnq_s32_f32(vmulq_n_f32(high, reciprocal));
            let scale = vuzp1q_s16(halves(low), halves(high));
            let c = vqrdmulhq_s16(vreinterpretq_s16_u16(p), scale);
            vst1q_s16(out.as_mut_ptr(), c);
        };
        let (scales, last_scales) = scales.as_chunks::<8>();
        for ((scores, scales), out) in scores.iter().zip(scales).zip(&mut *out) {
            weigh(scores, scales, out);
        }
        if let (Some(scores), Some(out)) = (scores.get(scales.len()), out.get_mut(scales.len())) {
            weigh(scores, &padded(last_scales), out);
        }
        #[allow(clippy::cast_precision_loss)] // Rounds to nearest even.
        {
            vaddlvq_u32(sums) as f32
        }
    }
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
