//! Row operations and attention: every back end against the scalar one, and the scalar one against
//! double precision.

use super::{Mood, Random, bits};
use crate::kernels::{
    AttentionScratch, Backend, MAX_HEAD_DIM_Q8, Q8Rows, Queries, ints_len, scores_len_q8,
};
use crate::quant::f16_to_f32;
use std::vec;
use std::vec::Vec;

const MOODS: [Mood; 3] = [Mood::Ordinary, Mood::Extreme, Mood::Wild];

fn number(mood: Mood, random: &mut Random) -> f32 {
    match mood {
        Mood::Ordinary => random.unit() * 3.0,
        Mood::Extreme => [0.0, -0.0, 1e-30, -1e-41, 60.0, -1000.0, 1e18][random.below(7)],
        Mood::Wild => f32::from_bits(random.next()),
    }
}

fn numbers(len: usize, mood: Mood, random: &mut Random) -> Vec<f32> {
    (0..len).map(|_| number(mood, random)).collect()
}

/// Bits of f16 scales, which are never negative.
fn scales(len: usize, mood: Mood, random: &mut Random) -> Vec<u16> {
    let scale = |random: &mut Random| match mood {
        Mood::Ordinary => half::f16::from_f32(random.unit().abs() * 0.1).to_bits(),
        Mood::Extreme => [0, 1, 0x0400, 0x7bff, 0x3c00][random.below(5)],
        Mood::Wild => u16::from_le_bytes([random.byte(), random.byte() & 0x7f]),
    };
    (0..len).map(|_| scale(random)).collect()
}

fn quants(len: usize, mood: Mood, random: &mut Random) -> Vec<i8> {
    let quant = |random: &mut Random| match mood {
        Mood::Extreme => [127, -127][random.below(2)],
        _ => i8::from_le_bytes([random.byte()]).max(-127),
    };
    (0..len).map(|_| quant(random)).collect()
}

/// Head size, query heads, positions.
fn shapes() -> Vec<[usize; 3]> {
    let mut shapes = Vec::new();
    for head_dim in [2, 6, 8, 12, 16, 24, 64, 80] {
        for positions in [1, 2, 3, 7, 8, 9, 15, 16, 17, 40] {
            shapes.push([head_dim, 1 + positions % 4, positions]);
        }
    }
    // More positions than a sum of 32 bits takes, and the largest head.
    for positions in [512, 513, 1023, 1025] {
        shapes.push([8, 2, positions]);
        shapes.push([16, 1, positions]);
    }
    shapes.push([MAX_HEAD_DIM_Q8, 1, 5]);
    if cfg!(miri) {
        shapes.truncate(12);
    }
    shapes
}

fn queries(q: &[f32], head_dim: usize, positions: usize) -> Queries<'_> {
    Queries {
        q,
        head_dim,
        positions,
        scale: 0.35,
    }
}

#[test]
fn every_backend_attends_as_scalar_does() {
    let mut random = Random::new(7);
    for [head_dim, heads, positions] in shapes() {
        for mood in MOODS {
            let q = numbers(heads * head_dim, mood, &mut random);
            let rows = positions * head_dim;
            let keys = numbers(rows, mood, &mut random);
            let values = numbers(rows, mood, &mut random);
            let halves = |x: &[f32]| -> Vec<u16> {
                x.iter()
                    .map(|&x| half::f16::from_f32(x).to_bits())
                    .collect()
            };
            let (keys16, values16) = (halves(&keys), halves(&values));
            let (keys8, key_scales) = (
                quants(rows, mood, &mut random),
                scales(positions, mood, &mut random),
            );
            let (values8, value_scales) = (
                quants(rows, mood, &mut random),
                scales(positions, mood, &mut random),
            );
            let run = |backend: Backend| {
                let queries = queries(&q, head_dim, positions);
                // What scratch and results held before does not matter.
                let mut scores = vec![f32::NAN; scores_len_q8(positions)];
                let mut ints = vec![-1; ints_len(head_dim)];
                let mut outs = [(); 3].map(|()| vec![9.0; q.len()]);
                let [out32, out16, out8] = &mut outs;
                backend.attend_f32(queries, &keys, &values, &mut scores, out32);
                backend.attend_f16(queries, &keys16, &values16, &mut scores, out16);
                let keys = Q8Rows {
                    qs: &keys8,
                    scales: &key_scales,
                };
                let values = Q8Rows {
                    qs: &values8,
                    scales: &value_scales,
                };
                let scratch = AttentionScratch {
                    scores: &mut scores,
                    ints: &mut ints,
                };
                backend.attend_q8(queries, keys, values, scratch, out8);
                outs.map(|out| bits(&out))
            };
            let expected = run(Backend::SCALAR);
            for backend in Backend::available() {
                let name = backend.name();
                let case = (name, head_dim, heads, positions, mood);
                assert_eq!(run(backend), expected, "{case:?}");
            }
        }
    }
}

#[test]
fn every_backend_does_rows_as_scalar_does() {
    let mut random = Random::new(8);
    let lens: Vec<usize> = (0..70).chain([172, 192, 512]).collect();
    for &len in if cfg!(miri) { &lens[..12] } else { &lens[..] } {
        for mood in MOODS {
            let x = numbers(len, mood, &mut random);
            let y = numbers(len, mood, &mut random);
            let mut weight = vec![0xee]; // An odd address.
            weight.extend(
                numbers(len, mood, &mut random)
                    .iter()
                    .flat_map(|w| w.to_le_bytes()),
            );
            let angles = numbers(8, Mood::Ordinary, &mut random);
            let d = [0.0, 1e-7, 0.02, f32::INFINITY, f32::NAN][random.below(5)];
            let run = |backend: Backend| {
                let mut out = vec![0.0; len];
                backend.rms_norm(&x, &weight[1..], 1e-5, &mut out);
                let mut results = vec![bits(&out)];
                let mut gate = x.clone();
                backend.swiglu(&mut gate, &y);
                results.push(bits(&gate));
                let mut sum = x.clone();
                backend.add(&mut sum, &y);
                results.push(bits(&sum));
                for (head_dim, rope_dim) in [(8, 8), (8, 4), (2, 2), (6, 6)] {
                    let mut turned = x.clone();
                    backend.rope(&mut turned, head_dim, &angles[..rope_dim]);
                    results.push(bits(&turned));
                }
                results.push(vec![backend.largest_magnitude(&x)]);
                let mut bytes = vec![0_i8; len];
                backend.quantize_bytes(&x, d, &mut bytes);
                let ints = bytes.iter().map(|&b| u32::from(b.cast_unsigned()));
                results.push(ints.collect());
                let mut halves = vec![0; len];
                backend.to_f16(&x, &mut halves);
                let values: Vec<f32> = halves.iter().map(|&h| f16_to_f32(h)).collect();
                results.push(bits(&values));
                results
            };
            let expected = run(Backend::SCALAR);
            for backend in Backend::available() {
                let found = run(backend);
                for (index, (found, expected)) in found.iter().zip(&expected).enumerate() {
                    let case = (backend.name(), len, mood, index);
                    assert_eq!(found, expected, "{case:?}");
                }
            }
        }
    }
}

/// Attention in double precision.
fn truth(q: &[f32], keys: &[f32], values: &[f32], head_dim: usize) -> Vec<f64> {
    let mut out = Vec::new();
    for q in q.chunks(head_dim) {
        let score = |key: &[f32]| -> f64 {
            let products = q
                .iter()
                .zip(key)
                .map(|(&q, &k)| f64::from(q) * f64::from(k));
            products.sum::<f64>() * f64::from(0.35_f32)
        };
        let scores: Vec<f64> = keys.chunks(head_dim).map(score).collect();
        let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let p: Vec<f64> = scores.iter().map(|s| libm::exp(s - max)).collect();
        let sum: f64 = p.iter().sum();
        for i in 0..head_dim {
            let rows = values.chunks(head_dim).zip(&p);
            let total: f64 = rows.map(|(v, p)| p * f64::from(v[i])).sum();
            out.push(total / sum);
        }
    }
    out
}

#[test]
fn scalar_attention_is_near_that_in_double_precision() {
    let mut random = Random::new(9);
    for [head_dim, heads, positions] in shapes() {
        let q = numbers(heads * head_dim, Mood::Ordinary, &mut random);
        let keys = quants(positions * head_dim, Mood::Ordinary, &mut random);
        let values = quants(positions * head_dim, Mood::Ordinary, &mut random);
        let key_scales = vec![half::f16::from_f32(0.01).to_bits(); positions];
        let value_scales = scales(positions, Mood::Ordinary, &mut random);
        let decode = |qs: &[i8], scales: &[u16]| -> Vec<f32> {
            let rows = qs.chunks(head_dim).zip(scales);
            rows.flat_map(|(row, &d)| row.iter().map(move |&q| f32::from(q) * f16_to_f32(d)))
                .collect()
        };
        let keys32 = decode(&keys, &key_scales);
        let values32 = decode(&values, &value_scales);
        let expected = truth(&q, &keys32, &values32, head_dim);
        let queries = queries(&q, head_dim, positions);
        let mut scores = vec![0.0; scores_len_q8(positions)];
        let mut ints = vec![0; ints_len(head_dim)];

        let mut out = vec![0.0; q.len()];
        Backend::SCALAR.attend_f32(queries, &keys32, &values32, &mut scores, &mut out);
        for (found, expected) in out.iter().zip(&expected) {
            let off = (f64::from(*found) - expected).abs();
            assert!(off < 2e-4, "{head_dim} x {positions}: {found} {expected}");
        }

        // Bytes are exact here; what is rounded is the query and the weights, to 16 bits.
        let keys = Q8Rows {
            qs: &keys,
            scales: &key_scales,
        };
        let values = Q8Rows {
            qs: &values,
            scales: &value_scales,
        };
        let scratch = AttentionScratch {
            scores: &mut scores,
            ints: &mut ints,
        };
        Backend::SCALAR.attend_q8(queries, keys, values, scratch, &mut out);
        for (found, expected) in out.iter().zip(&expected) {
            let off = (f64::from(*found) - expected).abs();
            assert!(off < 2e-2, "{head_dim} x {positions}: {found} {expected}");
        }
    }
}

#[test]
fn swiglu_and_norm_are_near_those_in_double_precision() {
    let mut random = Random::new(10);
    let x: Vec<f32> = (0..200).map(|_| random.unit() * 20.0).collect();
    let up = numbers(200, Mood::Ordinary, &mut random);
    let mut gate = x.clone();
    Backend::SCALAR.swiglu(&mut gate, &up);
    for ((found, &x), &up) in gate.iter().zip(&x).zip(&up) {
        let (x, up) = (f64::from(x), f64::from(up));
        let expected = x / (1.0 + libm::exp(-x)) * up;
        let off = (f64::from(*found) - expected).abs();
        assert!(off <= 1e-6 * expected.abs().max(1.0), "{found} {expected}");
    }
    let weight: Vec<u8> = up.iter().flat_map(|w| w.to_le_bytes()).collect();
    let mut out = vec![0.0; 200];
    Backend::SCALAR.rms_norm(&x, &weight, 1e-5, &mut out);
    let squares: f64 = x.iter().map(|&x| f64::from(x) * f64::from(x)).sum();
    let scale = 1.0 / libm::sqrt(squares / 200.0 + 1e-5);
    for ((found, &x), &w) in out.iter().zip(&x).zip(&up) {
        let expected = f64::from(x) * scale * f64::from(w);
        assert!((f64::from(*found) - expected).abs() <= 1e-6 * expected.abs().max(1.0));
    }
}
