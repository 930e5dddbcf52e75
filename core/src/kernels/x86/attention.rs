//! Attention, eight positions at a time for scores and eight elements of a head at a time for the
//! sum of values. Heads whose size is no multiple of eight take the common source.

use core::arch::x86_64::*;

use super::rows::exp;
use crate::kernels::attention::{
    self, AttentionScratch, EXP2_FIXED, KvNumber, MAX_POSITIONS, POSITIONS_A_SUM, Q8Rows, Queries,
    ValueScale, as_halves, as_ints, largest_scale, padded, scores_len,
};
use crate::kernels::math::ROUNDER;
use crate::kernels::rows::join;

/// A number in the KV cache that is loaded eight at a time.
pub(in crate::kernels) trait Load: KvNumber {
    /// Eight numbers.
    ///
    /// # Safety
    /// AVX2 and F16C are there.
    unsafe fn load(from: &[Self; 8]) -> __m256;
}

impl Load for f32 {
    #[inline(always)]
    unsafe fn load(from: &[Self; 8]) -> __m256 {
        // SAFETY: AVX2 is there, and 8 numbers are.
        unsafe { _mm256_loadu_ps(from.as_ptr()) }
    }
}

impl Load for u16 {
    #[inline(always)]
    unsafe fn load(from: &[Self; 8]) -> __m256 {
        // SAFETY: AVX2 and F16C are there, and 8 numbers are.
        unsafe { _mm256_cvtph_ps(_mm_loadu_si128(from.as_ptr().cast())) }
    }
}

/// Attention over rows of f32 or f16.
#[target_feature(enable = "avx2,f16c")]
pub(in crate::kernels) fn attend<T: Load>(
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
    let Some(scores) = scores.get_mut(..scores_len(positions)) else {
        return;
    };
    if !head_dim.is_multiple_of(8) {
        attention::attend(queries, keys, values, scores, out);
        return;
    }
    for (q, out) in q.chunks_exact(head_dim).zip(out.chunks_exact_mut(head_dim)) {
        scores_of(q, keys, scale, positions, scores);
        let reciprocal = exp_and_reciprocal_sum(scores);
        let p = scores.get(..positions).unwrap_or_default();
        weighted_sum(p, values, reciprocal, out);
    }
}

/// Eight numbers.
#[inline]
#[target_feature(enable = "avx2")]
fn load(from: &[f32; 8]) -> __m256 {
    // SAFETY: 8 numbers are there.
    unsafe { _mm256_loadu_ps(from.as_ptr()) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn store(to: &mut [f32; 8], x: __m256) {
    // SAFETY: there is room for 8 numbers.
    unsafe { _mm256_storeu_ps(to.as_mut_ptr(), x) }
}

/// Dot products of the query with the key of each position, times `scale`; behind them scores of
/// minus infinity up to a whole eight, whose exponential is `+0.0` and adds nothing to any sum.
#[inline]
#[target_feature(enable = "avx2,f16c")]
fn scores_of<T: Load>(q: &[f32], keys: &[T], scale: f32, positions: usize, scores: &mut [f32]) {
    let head_dim = q.len();
    let (q, _) = q.as_chunks::<8>();
    let scale8 = _mm256_set1_ps(scale);
    let lanes = |key: &[T]| {
        let mut lanes = _mm256_setzero_ps();
        for (q, k) in q.iter().zip(key.as_chunks::<8>().0) {
            // SAFETY: this function has AVX2 and F16C.
            let k = unsafe { T::load(k) };
            lanes = _mm256_add_ps(lanes, _mm256_mul_ps(load(q), k));
        }
        lanes
    };
    let (groups, _) = scores.as_chunks_mut::<8>();
    if let [q] = q {
        // Heads of eight: a key in a register.
        let q = load(q);
        let (eights, last) = keys.as_chunks::<8>().0.as_chunks::<8>();
        let score = |eight: [__m256; 8]| {
            let products = eight.map(|key| _mm256_mul_ps(q, key));
            _mm256_mul_ps(join_eight(products), scale8)
        };
        // SAFETY: this function has AVX2 and F16C.
        let key = |key: &[T; 8]| unsafe { T::load(key) };
        let (groups, last_group) = groups.split_at_mut(eights.len().min(groups.len()));
        for (scores, [a, b, c, d, e, f, g, h]) in groups.iter_mut().zip(eights) {
            let eight = [a, b, c, d, e, f, g, h].map(key);
            store(scores, score(eight));
        }
        if let [scores] = last_group {
            let mut eight = [_mm256_setzero_ps(); 8];
            for (lanes, last) in eight.iter_mut().zip(last) {
                *lanes = key(last);
            }
            store(scores, score(eight));
        }
        hide_behind(scores, positions);
        return;
    }
    for (scores, keys) in groups.iter_mut().zip(keys.chunks(8 * head_dim)) {
        let mut rows = keys.chunks_exact(head_dim).map(&lanes);
        let mut eight = [_mm256_setzero_ps(); 8];
        for (lanes, row) in eight.iter_mut().zip(&mut rows) {
            *lanes = row;
        }
        store(scores, _mm256_mul_ps(join_eight(eight), scale8));
    }
    hide_behind(scores, positions);
}

/// Puts minus infinity where there is no position.
#[inline]
#[target_feature(enable = "avx2")]
fn hide_behind(scores: &mut [f32], positions: usize) {
    for score in scores.get_mut(positions..).unwrap_or_default() {
        *score = f32::NEG_INFINITY;
    }
}

/// For each of eight registers the sum of its lanes, in the one order.
#[inline]
#[target_feature(enable = "avx2")]
fn join_eight(r: [__m256; 8]) -> __m256 {
    // Lanes 0 to 3 plus 4 to 7, two registers in one.
    let fold = |a, b| {
        _mm256_add_ps(
            _mm256_permute2f128_ps::<0x20>(a, b),
            _mm256_permute2f128_ps::<0x31>(a, b),
        )
    };
    let [a, b, c, d, e, f, g, h] = r;
    let (ab, cd, ef, gh) = (fold(a, b), fold(c, d), fold(e, f), fold(g, h));
    // Then 0, 1 plus 2, 3.
    let halve = |x, y| {
        let low = _mm256_shuffle_ps::<0b01_00_01_00>(x, y);
        let high = _mm256_shuffle_ps::<0b11_10_11_10>(x, y);
        _mm256_add_ps(low, high)
    };
    let (abcd, efgh) = (halve(ab, cd), halve(ef, gh));
    // Then 0 plus 1.
    let even = _mm256_shuffle_ps::<0b10_00_10_00>(abcd, efgh);
    let odd = _mm256_shuffle_ps::<0b11_01_11_01>(abcd, efgh);
    // a c e g | b d f h
    let mixed = _mm256_add_ps(even, odd);
    _mm256_permutevar8x32_ps(mixed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7))
}

/// Scores, whole eights of them, become e^(score - max); the answer is one divided by their sum.
#[inline]
#[target_feature(enable = "avx2,f16c")]
fn exp_and_reciprocal_sum(scores: &mut [f32]) -> f32 {
    let (groups, _) = scores.as_chunks_mut::<8>();
    let max = largest(groups);
    let mut sums = _mm256_setzero_ps();
    for group in groups {
        let p = exp(_mm256_sub_ps(load(group), max));
        sums = _mm256_add_ps(sums, p);
        store(group, p);
    }
    reciprocal_of_sum(sums)
}

#[inline]
#[target_feature(enable = "avx2")]
fn reciprocal_of_sum(lanes: __m256) -> f32 {
    let mut array = [0.0; 8];
    store(&mut array, lanes);
    1.0 / join(array)
}

/// The largest score in all lanes.
#[inline]
#[target_feature(enable = "avx2")]
fn largest(groups: &[[f32; 8]]) -> __m256 {
    let mut most = _mm256_set1_ps(f32::NEG_INFINITY);
    for group in groups {
        // The second operand comes back where the first is NaN: NaN is passed over.
        most = _mm256_max_ps(load(group), most);
    }
    let most = _mm256_max_ps(most, _mm256_permute2f128_ps::<0x01>(most, most));
    let most = _mm256_max_ps(most, _mm256_permute_ps::<0b01_00_11_10>(most));
    _mm256_max_ps(most, _mm256_permute_ps::<0b10_11_00_01>(most))
}

/// `out = sum(p[i] * values[i]) * factor`, position `i` in lane `i % 4`.
#[inline]
#[target_feature(enable = "avx2,f16c")]
fn weighted_sum<T: Load>(p: &[f32], values: &[T], factor: f32, out: &mut [f32]) {
    let head_dim = out.len();
    let (tiles, _) = out.as_chunks_mut::<8>();
    if let [out] = tiles {
        let add = |lane: &mut __m256, p: f32, row: &[T; 8]| {
            // SAFETY: this function has AVX2 and F16C.
            let row = unsafe { T::load(row) };
            *lane = _mm256_add_ps(*lane, _mm256_mul_ps(_mm256_set1_ps(p), row));
        };
        let mut lanes = [_mm256_setzero_ps(); 4];
        let (fours, rest) = p.as_chunks::<4>();
        let (rows, rest_rows) = values.as_chunks::<8>().0.as_chunks::<4>();
        for (p, rows) in fours.iter().zip(rows) {
            let [l0, l1, l2, l3] = &mut lanes;
            let ([p0, p1, p2, p3], [r0, r1, r2, r3]) = (*p, rows);
            add(l0, p0, r0);
            add(l1, p1, r1);
            add(l2, p2, r2);
            add(l3, p3, r3);
        }
        for ((lane, &p), row) in lanes.iter_mut().zip(rest).zip(rest_rows) {
            add(lane, p, row);
        }
        store(out, joined(lanes, factor));
        return;
    }
    for (tile, out) in tiles.iter_mut().enumerate() {
        let mut lanes = [_mm256_setzero_ps(); 4];
        let add = |lane: &mut __m256, p: f32, row: &[T]| {
            let row = row.get(tile * 8..).and_then(|row| row.first_chunk());
            if let Some(row) = row {
                // SAFETY: this function has AVX2 and F16C.
                let row = unsafe { T::load(row) };
                *lane = _mm256_add_ps(*lane, _mm256_mul_ps(_mm256_set1_ps(p), row));
            }
        };
        let (fours, rest) = p.as_chunks::<4>();
        let mut rows = values.chunks_exact(4 * head_dim);
        for (p, rows) in fours.iter().zip(&mut rows) {
            let rows = rows.chunks_exact(head_dim);
            for ((lane, &p), row) in lanes.iter_mut().zip(p).zip(rows) {
                add(lane, p, row);
            }
        }
        let rows = rows.remainder().chunks_exact(head_dim);
        for ((lane, &p), row) in lanes.iter_mut().zip(rest).zip(rows) {
            add(lane, p, row);
        }
        store(out, joined(lanes, factor));
    }
}

/// The sum of four lanes times a factor.
#[inline]
#[target_feature(enable = "avx2")]
fn joined([l0, l1, l2, l3]: [__m256; 4], factor: f32) -> __m256 {
    let sum = _mm256_add_ps(_mm256_add_ps(l0, l2), _mm256_add_ps(l1, l3));
    _mm256_mul_ps(sum, _mm256_set1_ps(factor))
}

/// Attention over int8 rows.
#[target_feature(enable = "avx2,f16c")]
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
        scores_of_q8(q16, keys, k, scores8);
        let behind = scores8.as_flattened_mut().iter_mut().skip(positions);
        behind.for_each(|score| *score = i32::MIN); // No weight.
        let max = largest_int(scores8);
        if !attention::is_ordinary(max) {
            let scratch = AttentionScratch {
                scores: &mut *scores,
                ints: &mut *ints,
            };
            attention::attend_q8(Queries { q, ..queries }, keys, values, scratch, out);
            continue;
        }
        let sum = weigh(scores8, max, values.scales, value_scale, c8);
        let c16 = c8.as_flattened().get(..positions).unwrap_or_default();
        let d = value_scale.factor(sum);
        if let ([out], []) = out.as_chunks_mut::<8>() {
            weighted_sum_of_eight(c16, values.qs, d, out);
        } else {
            weighted_sum_q8(c16, values.qs, d, out);
        }
    }
}

/// Eight numbers of 16 bits from signed bytes.
#[inline]
#[target_feature(enable = "avx2")]
fn widen(from: &[i8; 8]) -> __m128i {
    // SAFETY: 8 bytes are there.
    _mm_cvtepi8_epi16(unsafe { _mm_loadl_epi64(from.as_ptr().cast()) })
}

/// Sixteen signed bytes.
#[inline]
#[target_feature(enable = "avx2")]
fn load_i8(from: &[i8; 16]) -> __m128i {
    // SAFETY: 16 bytes are there.
    unsafe { _mm_loadu_si128(from.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn load_i16(from: &[i16; 8]) -> __m128i {
    // SAFETY: 8 numbers are there.
    unsafe { _mm_loadu_si128(from.as_ptr().cast()) }
}

/// Eight scales.
#[inline]
#[target_feature(enable = "avx2,f16c")]
fn load_f16(from: &[u16; 8]) -> __m256 {
    // SAFETY: 8 numbers are there.
    _mm256_cvtph_ps(unsafe { _mm_loadu_si128(from.as_ptr().cast()) })
}

#[inline]
#[target_feature(enable = "avx2")]
fn load_ints(from: &[i32; 8]) -> __m256i {
    // SAFETY: 8 numbers are there.
    unsafe { _mm256_loadu_si256(from.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn store_ints(to: &mut [i32; 8], x: __m256i) {
    // SAFETY: there is room for 8 numbers.
    unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), x) };
}

/// The score of each position, see [`attention::to_fixed`].
#[inline]
#[target_feature(enable = "avx2,f16c")]
fn scores_of_q8(q16: &[i16], keys: Q8Rows<'_>, k: f32, scores: &mut [[i32; 8]]) {
    let head_dim = q16.len();
    let k8 = _mm256_set1_ps(k);
    // The largest f32 that is an i32; what is below all of them becomes the lowest i32.
    let most = _mm256_set1_ps(2_147_483_520.0);
    // Partial sums of eight keys: a b | c d and so on become a c e g | b d f h.
    let score = |[ab, cd, ef, gh]: [__m256i; 4], scales: &[u16; 8]| {
        let mixed = _mm256_hadd_epi32(_mm256_hadd_epi32(ab, cd), _mm256_hadd_epi32(ef, gh));
        let order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
        let sums = _mm256_cvtepi32_ps(_mm256_permutevar8x32_epi32(mixed, order));
        let score = _mm256_mul_ps(sums, _mm256_mul_ps(k8, load_f16(scales)));
        let number = _mm256_cmp_ps::<_CMP_ORD_Q>(score, score); // NaN becomes 0.
        let above = _mm256_cmp_ps::<_CMP_GT_OQ>(score, most);
        let int = _mm256_cvttps_epi32(_mm256_and_ps(score, number));
        _mm256_xor_si256(int, _mm256_castps_si256(above)) // From the lowest to the largest.
    };
    let (scales, last_scales) = keys.scales.as_chunks::<8>();
    let (q, _) = q16.as_chunks::<8>();
    if let [q] = q {
        // Heads of eight: two keys in a register.
        let q = _mm256_set_m128i(load_i16(q), load_i16(q));
        let two = |keys: &[i8; 16]| _mm256_madd_epi16(q, _mm256_cvtepi8_epi16(load_i8(keys)));
        let eight = |keys: &[i8; 64]| match keys.as_chunks::<16>().0 {
            [ab, cd, ef, gh] => [two(ab), two(cd), two(ef), two(gh)],
            _ => [_mm256_setzero_si256(); 4],
        };
        let (keys, last_keys) = keys.qs.as_chunks::<64>();
        let (groups, last) = scores.split_at_mut(keys.len().min(scores.len()));
        for ((scores, keys), scales) in groups.iter_mut().zip(keys).zip(scales) {
            store_ints(scores, score(eight(keys), scales));
        }
        if let [last] = last {
            store_ints(last, score(eight(&padded(last_keys)), &padded(last_scales)));
        }
        return;
    }
    let last_scales = padded::<u16, 8>(last_scales);
    let scales = scales.iter().chain([&last_scales]);
    let keys = keys.qs.chunks(8 * head_dim);
    for ((scores, keys), scales) in scores.iter_mut().zip(keys).zip(scales) {
        let mut sums = [_mm_setzero_si128(); 8];
        for (sums, key) in sums.iter_mut().zip(keys.chunks_exact(head_dim)) {
            for (q, k) in q.iter().zip(key.as_chunks::<8>().0) {
                *sums = _mm_add_epi32(*sums, _mm_madd_epi16(load_i16(q), widen(k)));
            }
        }
        let [a, b, c, d, e, f, g, h] = sums;
        let pair = |low, high| _mm256_set_m128i(high, low);
        store_ints(
            scores,
            score([pair(a, b), pair(c, d), pair(e, f), pair(g, h)], scales),
        );
    }
}

/// Weights of scores times the scales of values, see [`attention::weigh`]; the answer is the sum of
/// the weights.
#[inline]
#[target_feature(enable = "avx2,f16c")]
fn weigh(
    scores: &[[i32; 8]],
    max: i32,
    scales: &[u16],
    value_scale: ValueScale,
    out: &mut [[i16; 8]],
) -> f32 {
    let most = _mm256_set1_epi32((max >> 16) + 1);
    let [c1, c2, c3] = EXP2_FIXED.map(|c| _mm256_set1_epi32(c.into()));
    let one = _mm256_set1_epi32(1 << 15);
    let rounding = _mm256_set1_epi32(1 << 14);
    let reciprocal = _mm256_set1_ps(value_scale.reciprocal);
    let rounder = _mm256_set1_ps(ROUNDER);
    let mut sums = _mm256_setzero_si256();
    let mut weigh = |scores: &[i32; 8], scales: &[u16; 8], out: &mut [i16; 8]| {
        let score = load_ints(scores);
        // The nearest integer.
        let up = _mm256_and_si256(_mm256_srli_epi32::<15>(score), _mm256_set1_epi32(1));
        let n = _mm256_add_epi32(_mm256_srai_epi32::<16>(score), up);
        // Upper halves of the factors are 0: only the lower half of a score counts.
        let cut = |p| _mm256_srai_epi32::<16>(_mm256_madd_epi16(p, score));
        let p = _mm256_add_epi32(c2, cut(c3));
        let p = _mm256_add_epi32(c1, cut(p));
        let p = _mm256_add_epi32(one, cut(p));
        let p = _mm256_srlv_epi32(p, _mm256_sub_epi32(most, n));
        sums = _mm256_add_epi32(sums, p);
        let scale = _mm256_add_ps(_mm256_mul_ps(load_f16(scales), reciprocal), rounder);
        let scale = _mm256_sub_epi32(_mm256_castps_si256(scale), _mm256_castps_si256(rounder));
        let c = _mm256_add_epi32(_mm256_madd_epi16(p, scale), rounding);
        let c = _mm256_srli_epi32::<15>(c);
        let (low, high) = (_mm256_castsi256_si128(c), _mm256_extracti128_si256::<1>(c));
        // SAFETY: there is room for 8 numbers.
        unsafe { _mm_storeu_si128(out.as_mut_ptr().cast(), _mm_packs_epi32(low, high)) };
    };
    let (scales, last_scales) = scales.as_chunks::<8>();
    for ((scores, scales), out) in scores.iter().zip(scales).zip(&mut *out) {
        weigh(scores, scales, out);
    }
    if let (Some(scores), Some(out)) = (scores.get(scales.len()), out.get_mut(scales.len())) {
        weigh(scores, &padded(last_scales), out);
    }
    let mut lanes = [0; 8];
    store_ints(&mut lanes, sums);
    let lanes = lanes.map(|lane| u64::from(lane.cast_unsigned()));
    #[allow(clippy::cast_precision_loss)] // Rounds to nearest even.
    {
        lanes.into_iter().sum::<u64>() as f32
    }
}

/// The largest score.
#[inline]
#[target_feature(enable = "avx2")]
fn largest_int(scores: &[[i32; 8]]) -> i32 {
    let scores = scores.as_flattened().iter().copied();
    scores.fold(i32::MIN, i32::max)
}

/// Two weights in each 32 bits.
#[inline]
#[target_feature(enable = "avx2")]
fn both([c0, c1]: [i16; 2]) -> __m256i {
    let bits = u32::from(c0.cast_unsigned()) | u32::from(c1.cast_unsigned()) << 16;
    _mm256_set1_epi32(bits.cast_signed())
}

/// `out = sum(c[i] * values[i]) * d` for a head of eight.
#[inline]
#[target_feature(enable = "avx2")]
fn weighted_sum_of_eight(c16: &[i16], values: &[i8], d: f32, out: &mut [f32; 8]) {
    // Elements of two positions side by side, as are their weights.
    let interleave = _mm_setr_epi8(0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15);
    let product = |c: [i16; 2], rows: &[i8; 16]| {
        let pairs = _mm_shuffle_epi8(load_i8(rows), interleave);
        _mm256_madd_epi16(_mm256_cvtepi8_epi16(pairs), both(c))
    };
    let mut total = _mm256_setzero_ps();
    let runs = values.chunks(8 * POSITIONS_A_SUM);
    for (c16, values) in c16.chunks(POSITIONS_A_SUM).zip(runs) {
        let mut sums = _mm256_setzero_si256();
        let (twos, last) = c16.as_chunks::<2>();
        let (rows, last_row) = values.as_chunks::<16>();
        for (&c, rows) in twos.iter().zip(rows) {
            sums = _mm256_add_epi32(sums, product(c, rows));
        }
        if let &[c] = last {
            sums = _mm256_add_epi32(sums, product([c, 0], &padded(last_row)));
        }
        total = _mm256_add_ps(total, _mm256_cvtepi32_ps(sums));
    }
    store(out, _mm256_mul_ps(total, _mm256_set1_ps(d)));
}

/// `out = sum(c[i] * values[i]) * d`.
#[inline]
#[target_feature(enable = "avx2")]
fn weighted_sum_q8(c16: &[i16], values: &[i8], d: f32, out: &mut [f32]) {
    let head_dim = out.len();
    let d8 = _mm256_set1_ps(d);
    let (tiles, _) = out.as_chunks_mut::<8>();
    for (tile, out) in tiles.iter_mut().enumerate() {
        // Eight elements of a row.
        let eight = |row: &[i8]| {
            let row = row.get(tile * 8..).and_then(|row| row.first_chunk::<8>());
            // SAFETY: 8 bytes are there.
            row.map_or(_mm_setzero_si128(), |row| unsafe {
                _mm_loadl_epi64(row.as_ptr().cast())
            })
        };
        let product = |c: [i16; 2], low: __m128i, high: __m128i| {
            let pairs = _mm256_cvtepi8_epi16(_mm_unpacklo_epi8(low, high));
            _mm256_madd_epi16(pairs, both(c))
        };
        let mut total = _mm256_setzero_ps();
        let runs = values.chunks(head_dim * POSITIONS_A_SUM);
        for (c16, values) in c16.chunks(POSITIONS_A_SUM).zip(runs) {
            let mut sums = _mm256_setzero_si256();
            let (twos, last) = c16.as_chunks::<2>();
            let mut rows = values.chunks_exact(2 * head_dim);
            for (&c, rows) in twos.iter().zip(&mut rows) {
                let (low, high) = rows.split_at(head_dim);
                sums = _mm256_add_epi32(sums, product(c, eight(low), eight(high)));
            }
            if let &[c] = last {
                let low = eight(rows.remainder());
                sums = _mm256_add_epi32(sums, product([c, 0], low, _mm_setzero_si128()));
            }
            total = _mm256_add_ps(total, _mm256_cvtepi32_ps(sums));
        }
        store(out, _mm256_mul_ps(total, d8));
    }
}
