//! Attention, eight positions at a time for scores and eight elements of a head at a time for the
//! sum of values. Heads whose size is no multiple of eight take the common source.

use core::arch::x86_64::*;

use super::rows::exp;
use crate::kernels::attention::{
    self, AttentionScratch, KvNumber, POSITIONS_A_SUM, Q8Rows, Queries,
};
use crate::kernels::math;
use crate::kernels::rows::join;
use crate::kernels::scalar::ROUNDER;
use crate::quant::f16_to_f32;

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
    let Queries { q, head_dim, scale } = queries;
    if !head_dim.is_multiple_of(8) {
        attention::attend(queries, keys, values, scores, out);
        return;
    }
    for (q, out) in q.chunks_exact(head_dim).zip(out.chunks_exact_mut(head_dim)) {
        scores_of(q, keys, scale, scores);
        let reciprocal = exp_and_reciprocal_sum(scores);
        weighted_sum(scores, values, reciprocal, out);
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

/// Dot products of the query with the key of each position, times `scale`.
#[inline]
#[target_feature(enable = "avx2,f16c")]
fn scores_of<T: Load>(q: &[f32], keys: &[T], scale: f32, scores: &mut [f32]) {
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
    let (groups, rest) = scores.as_chunks_mut::<8>();
    let mut eights = keys.chunks_exact(8 * head_dim);
    for (scores, keys) in groups.iter_mut().zip(&mut eights) {
        let mut rows = keys.chunks_exact(head_dim).map(&lanes);
        let mut next = || rows.next().unwrap_or(_mm256_setzero_ps());
        let eight = [
            next(),
            next(),
            next(),
            next(),
            next(),
            next(),
            next(),
            next(),
        ];
        store(scores, _mm256_mul_ps(join_eight(eight), scale8));
    }
    let keys = eights.remainder().chunks_exact(head_dim);
    for (score, key) in rest.iter_mut().zip(keys) {
        let mut of_key = [0.0; 8];
        store(&mut of_key, lanes(key));
        *score = join(of_key) * scale;
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

/// Scores become e^(score - max); the answer is one divided by their sum.
#[inline]
#[target_feature(enable = "avx2,f16c")]
fn exp_and_reciprocal_sum(scores: &mut [f32]) -> f32 {
    let max = largest(scores);
    let max8 = _mm256_set1_ps(max);
    let mut sums = _mm256_setzero_ps();
    let (groups, rest) = scores.as_chunks_mut::<8>();
    for group in groups {
        let p = exp(_mm256_sub_ps(load(group), max8));
        sums = _mm256_add_ps(sums, p);
        store(group, p);
    }
    let mut lanes = [0.0; 8];
    store(&mut lanes, sums);
    for (score, lane) in rest.iter_mut().zip(&mut lanes) {
        *score = math::exp(*score - max);
        *lane += *score;
    }
    1.0 / join(lanes)
}

#[inline]
#[target_feature(enable = "avx2")]
fn largest(scores: &[f32]) -> f32 {
    let mut most = _mm256_set1_ps(f32::NEG_INFINITY);
    let (groups, rest) = scores.as_chunks::<8>();
    for group in groups {
        // The second operand comes back where the first is NaN: NaN is passed over.
        most = _mm256_max_ps(load(group), most);
    }
    let mut lanes = [0.0; 8];
    store(&mut lanes, most);
    let larger = |a: f32, &b: &f32| if b > a { b } else { a };
    let most = lanes.iter().fold(f32::NEG_INFINITY, larger);
    rest.iter().fold(most, larger)
}

/// `out = sum(p[i] * values[i]) * factor`, position `i` in lane `i % 4`.
#[inline]
#[target_feature(enable = "avx2,f16c")]
fn weighted_sum<T: Load>(p: &[f32], values: &[T], factor: f32, out: &mut [f32]) {
    let head_dim = out.len();
    let (tiles, _) = out.as_chunks_mut::<8>();
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
        let [l0, l1, l2, l3] = lanes;
        let sum = _mm256_add_ps(_mm256_add_ps(l0, l2), _mm256_add_ps(l1, l3));
        store(out, _mm256_mul_ps(sum, _mm256_set1_ps(factor)));
    }
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
    let Queries { q, head_dim, scale } = queries;
    if !head_dim.is_multiple_of(8) {
        attention::attend_q8(queries, keys, values, scratch, out);
        return;
    }
    let AttentionScratch { scores, ints } = scratch;
    let Some((q16, c16)) = ints.split_at_mut_checked(head_dim) else {
        return;
    };
    let Some(c16) = c16.get_mut(..scores.len()) else {
        return;
    };
    for (q, out) in q.chunks_exact(head_dim).zip(out.chunks_exact_mut(head_dim)) {
        let dq = quantize_i16(q, q16) * scale;
        scores_of_q8(q16, keys, dq, scores);
        let reciprocal = exp_and_reciprocal_sum(scores);
        scale_by_f16(scores, values.scales);
        let dc = quantize_i16(scores, c16) * reciprocal;
        weighted_sum_q8(c16, values.qs, dc, out);
    }
}

/// Eight numbers of 16 bits from signed bytes.
#[inline]
#[target_feature(enable = "avx2")]
fn widen(from: &[i8; 8]) -> __m128i {
    // SAFETY: 8 bytes are there.
    _mm_cvtepi8_epi16(unsafe { _mm_loadl_epi64(from.as_ptr().cast()) })
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

/// Exact integer dot products of the query with the key of each position, times `dq * dk`.
#[inline]
#[target_feature(enable = "avx2,f16c")]
fn scores_of_q8(q16: &[i16], keys: Q8Rows<'_>, dq: f32, scores: &mut [f32]) {
    let head_dim = q16.len();
    let (q, _) = q16.as_chunks::<8>();
    let dq8 = _mm256_set1_ps(dq);
    // Four partial sums of a key.
    let partial = |key: &[i8]| {
        let mut sums = _mm_setzero_si128();
        for (q, k) in q.iter().zip(key.as_chunks::<8>().0) {
            sums = _mm_add_epi32(sums, _mm_madd_epi16(load_i16(q), widen(k)));
        }
        sums
    };
    let (groups, rest) = scores.as_chunks_mut::<8>();
    let (scales, rest_scales) = keys.scales.as_chunks::<8>();
    let mut eights = keys.qs.chunks_exact(8 * head_dim);
    for ((scores, scales), keys) in groups.iter_mut().zip(scales).zip(&mut eights) {
        let [a, b, c, d] = match (q, keys.as_chunks::<16>().0) {
            // Heads of eight: two keys a register.
            ([q], [ab, cd, ef, gh]) => {
                let q = load_i16(q);
                let q = _mm256_setr_m128i(q, q);
                let two = |keys: &[i8; 16]| {
                    // SAFETY: 16 bytes are there.
                    let keys = unsafe { _mm_loadu_si128(keys.as_ptr().cast()) };
                    _mm256_madd_epi16(q, _mm256_cvtepi8_epi16(keys))
                };
                [two(ab), two(cd), two(ef), two(gh)]
            }
            _ => {
                let mut rows = keys.chunks_exact(head_dim).map(partial);
                let mut next = || rows.next().unwrap_or(_mm_setzero_si128());
                let mut two = || {
                    let (low, high) = (next(), next());
                    _mm256_setr_m128i(low, high)
                };
                [two(), two(), two(), two()]
            }
        };
        // a0 a1 c0 c1 | b0 b1 d0 d1 and so on: positions 0 2 4 6 | 1 3 5 7.
        let mixed = _mm256_hadd_epi32(_mm256_hadd_epi32(a, b), _mm256_hadd_epi32(c, d));
        let order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
        let sums = _mm256_cvtepi32_ps(_mm256_permutevar8x32_epi32(mixed, order));
        let d = _mm256_mul_ps(dq8, load_f16(scales));
        store(scores, _mm256_mul_ps(sums, d));
    }
    let keys = eights.remainder().chunks_exact(head_dim);
    for ((score, &dk), key) in rest.iter_mut().zip(rest_scales).zip(keys) {
        let sums = partial(key);
        let sums = _mm_hadd_epi32(sums, sums);
        let sums = _mm_cvtsi128_si32(_mm_hadd_epi32(sums, sums));
        *score = attention::to_f32(sums) * (dq * f16_to_f32(dk));
    }
}

/// `x[i] *= scales[i]`.
#[inline]
#[target_feature(enable = "avx2,f16c")]
fn scale_by_f16(x: &mut [f32], scales: &[u16]) {
    let (groups, rest) = x.as_chunks_mut::<8>();
    let (scales, rest_scales) = scales.as_chunks::<8>();
    for (x, scales) in groups.iter_mut().zip(scales) {
        let product = _mm256_mul_ps(load(x), load_f16(scales));
        store(x, product);
    }
    for (x, &scale) in rest.iter_mut().zip(rest_scales) {
        *x *= f16_to_f32(scale);
    }
}

/// As [`attention::quantize_i16`].
#[inline]
#[target_feature(enable = "avx2")]
fn quantize_i16(x: &[f32], out: &mut [i16]) -> f32 {
    let (groups, rest) = x.as_chunks::<8>();
    let magnitude = _mm256_set1_epi32(0x7fff_ffff);
    let mut most = _mm256_setzero_si256();
    for x in groups {
        let bits = _mm256_castps_si256(load(x));
        most = _mm256_max_epi32(most, _mm256_and_si256(bits, magnitude));
    }
    let four = _mm_max_epi32(
        _mm256_castsi256_si128(most),
        _mm256_extracti128_si256::<1>(most),
    );
    let two = _mm_max_epi32(four, _mm_shuffle_epi32::<0b01_00_11_10>(four));
    let one = _mm_max_epi32(two, _mm_shuffle_epi32::<0b00_00_00_01>(two));
    let most = _mm_cvtsi128_si32(one).cast_unsigned();
    let rest_most = rest.iter().map(|x| x.to_bits() & 0x7fff_ffff).max();
    let amax = most.max(rest_most.unwrap_or(0));
    let (d, reciprocal) = match attention::scale_i16(amax) {
        Ok(scales) => scales,
        Err((d, quant)) => {
            out.fill(quant);
            return d;
        }
    };
    let reciprocal8 = _mm256_set1_ps(reciprocal);
    let rounder = _mm256_set1_ps(ROUNDER);
    let (outs, rest_out) = out.as_chunks_mut::<8>();
    for (x, out) in groups.iter().zip(outs) {
        let rounded = _mm256_add_ps(_mm256_mul_ps(load(x), reciprocal8), rounder);
        let int = _mm256_sub_epi32(_mm256_castps_si256(rounded), _mm256_castps_si256(rounder));
        let low = _mm256_castsi256_si128(int);
        let high = _mm256_extracti128_si256::<1>(int);
        // Saturates to -32768 at the lowest, and that is clamped.
        let packed = _mm_max_epi16(_mm_packs_epi32(low, high), _mm_set1_epi16(-32_767));
        // SAFETY: there is room for 8 numbers.
        unsafe { _mm_storeu_si128(out.as_mut_ptr().cast(), packed) };
    }
    for (&x, out) in rest.iter().zip(rest_out) {
        *out = attention::round_i16(x, reciprocal);
    }
    d
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
        let mut total = _mm256_setzero_ps();
        let runs = values.chunks(head_dim * POSITIONS_A_SUM);
        for (c16, values) in c16.chunks(POSITIONS_A_SUM).zip(runs) {
            let mut sums = _mm256_setzero_si256();
            let mut add = |c: [i16; 2], low: __m128i, high: __m128i| {
                // Elements of both positions side by side, and so their weights.
                let pairs = _mm256_cvtepi8_epi16(_mm_unpacklo_epi8(low, high));
                let [c0, c1] = c.map(|c| i32::from(c.cast_unsigned()));
                let c = _mm256_set1_epi32(c0 | c1 << 16);
                sums = _mm256_add_epi32(sums, _mm256_madd_epi16(pairs, c));
            };
            let (twos, last) = c16.as_chunks::<2>();
            let mut rows = values.chunks_exact(2 * head_dim);
            for (&c, rows) in twos.iter().zip(&mut rows) {
                let (low, high) = rows.split_at(head_dim);
                add(c, eight(low), eight(high));
            }
            if let &[c] = last {
                add([c, 0], eight(rows.remainder()), _mm_setzero_si128());
            }
            total = _mm256_add_ps(total, _mm256_cvtepi32_ps(sums));
        }
        store(out, _mm256_mul_ps(total, d8));
    }
}
