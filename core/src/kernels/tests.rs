//! Every back end against the scalar one over generated cases, and the scalar one against sums in
//! double precision.

mod operations;

use super::Backend;
use crate::gguf::GgmlType;
use crate::quant::{
    ActivationKind, Activations, Q8Act, Q8KAct, activation_kind, dequantize_row, row_bytes,
};
use std::vec;
use std::vec::Vec;

/// Every type that has kernels.
fn types() -> impl Iterator<Item = GgmlType> {
    GgmlType::all().filter(|&ty| activation_kind(ty).is_some())
}

/// A generator (xorshift64*) that needs no crate.
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn next(&mut self) -> u32 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let product = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d);
        u32::try_from(product >> 32).unwrap()
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next()).unwrap() % end
    }

    fn byte(&mut self) -> u8 {
        self.next().to_le_bytes()[0]
    }

    /// A number of -1..1.
    fn unit(&mut self) -> f32 {
        let [a, b, ..] = self.next().to_le_bytes();
        f32::from(i16::from_le_bytes([a, b])) / 32768.0
    }
}

/// What the numbers of a case are like.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Mood {
    /// Numbers as in a model.
    Ordinary,
    /// Any bits, NaN and infinity among them.
    Wild,
    /// Quants at the end of their range, which is where integer sums could overflow.
    Extreme,
}

/// Where the f16 scales of a block are.
fn scale_offsets(ty: GgmlType) -> &'static [usize] {
    match ty {
        GgmlType::Q8_0 | GgmlType::Q4_0 | GgmlType::Q5_0 | GgmlType::IQ4_NL => &[0],
        GgmlType::Q4_1 | GgmlType::Q5_1 | GgmlType::Q4_K | GgmlType::Q5_K => &[0, 2],
        GgmlType::Q2_K => &[80, 82],
        GgmlType::Q3_K => &[108],
        GgmlType::Q6_K => &[208],
        _ => &[],
    }
}

fn weights(ty: GgmlType, rows: usize, cols: usize, mood: Mood, random: &mut Random) -> Vec<u8> {
    let bytes = rows * row_bytes(ty, cols).unwrap();
    let block = usize::try_from(ty.geometry().unwrap().block_bytes).unwrap();
    let same = [0x80, 0x7f, 0xff, 0x00][random.below(4)];
    let mut out: Vec<u8> = (0..bytes)
        .map(|_| match mood {
            Mood::Extreme if random.below(64) != 0 => same,
            _ => random.byte(),
        })
        .collect();
    for block in out.chunks_exact_mut(block) {
        let number = random.unit();
        match (ty, mood) {
            (_, Mood::Wild) => {}
            (GgmlType::F32, _) => block.copy_from_slice(&number.to_le_bytes()),
            (GgmlType::F16, _) => block.copy_from_slice(&half(number)),
            (GgmlType::BF16, _) => block.copy_from_slice(&number.to_le_bytes()[2..]),
            _ => {
                for &at in scale_offsets(ty) {
                    block[at..at + 2].copy_from_slice(&half(random.unit() / 16.0));
                }
            }
        }
    }
    out
}

fn half(number: f32) -> [u8; 2] {
    half::f16::from_f32_const(number).to_le_bytes()
}

/// Rows of activations of one form.
enum Rows {
    F32(Vec<f32>),
    Q8(Vec<Q8Act>),
    Q8K(Vec<Q8KAct>),
}

impl Rows {
    fn new(kind: ActivationKind, count: usize, mood: Mood, random: &mut Random) -> Self {
        match kind {
            ActivationKind::F32 => Self::F32(
                (0..count)
                    .map(|_| match mood {
                        Mood::Wild => f32::from_bits(random.next()),
                        _ => random.unit() * 4.0,
                    })
                    .collect(),
            ),
            ActivationKind::Q8 => Self::Q8(
                (0..count / 32)
                    .map(|_| Q8Act::new(scale(mood, random), quants(mood, random)))
                    .collect(),
            ),
            ActivationKind::Q8K => Self::Q8K(
                (0..count / 256)
                    .map(|_| Q8KAct::new(scale(mood, random), quants(mood, random)))
                    .collect(),
            ),
        }
    }

    fn get(&self) -> Activations<'_> {
        match self {
            Self::F32(x) => Activations::F32(x),
            Self::Q8(x) => Activations::Q8(x),
            Self::Q8K(x) => Activations::Q8K(x),
        }
    }

    /// The numbers that they stand for.
    fn values(&self) -> Vec<f64> {
        fn block(d: f32, q: impl Fn(usize) -> i32, len: usize) -> impl Iterator<Item = f64> {
            (0..len).map(move |i| f64::from(d) * f64::from(q(i)))
        }
        match self {
            Self::F32(x) => x.iter().map(|&x| f64::from(x)).collect(),
            Self::Q8(x) => x
                .iter()
                .flat_map(|x| block(x.d, |i| x.get(i), 32))
                .collect(),
            Self::Q8K(x) => x
                .iter()
                .flat_map(|x| block(x.d, |i| x.get(i), 256))
                .collect(),
        }
    }
}

fn scale(mood: Mood, random: &mut Random) -> f32 {
    const ODD: [f32; 8] = [
        0.0,
        f32::INFINITY,
        f32::NAN,
        f32::MAX,
        f32::MIN_POSITIVE,
        1e-39,
        1e-44,
        1e-29,
    ];
    match mood {
        Mood::Wild if random.below(2) == 0 => ODD[random.below(ODD.len())],
        _ => random.unit() / 32.0,
    }
}

fn quants<const N: usize>(mood: Mood, random: &mut Random) -> [i8; N] {
    let same = [-127, 127][random.below(2)];
    core::array::from_fn(|_| match mood {
        Mood::Extreme if random.below(64) != 0 => same,
        _ => i8::from_le_bytes([random.byte()]).max(-127),
    })
}

/// Bits to compare: those of a NaN are not defined.
fn bits(numbers: &[f32]) -> Vec<u32> {
    let bits = |x: &f32| if x.is_nan() { u32::MAX } else { x.to_bits() };
    numbers.iter().map(bits).collect()
}

/// Compares `backend` with scalar for one shape, at a given distance from an aligned address.
fn compare(backend: Backend, ty: GgmlType, shape: [usize; 3], mood: Mood, random: &mut Random) {
    let [rows, cols, tokens] = shape;
    let skip = random.below(17);
    let mut bytes = vec![0xa5; skip];
    bytes.extend(weights(ty, rows, cols, mood, random));
    let x = Rows::new(activation_kind(ty).unwrap(), cols * tokens, mood, random);
    let run = |backend: Backend| {
        let mut out = vec![-1.0; rows * tokens];
        backend.matmul(ty, &bytes[skip..], cols, x.get(), tokens, &mut out);
        bits(&out)
    };
    assert_eq!(
        run(backend),
        run(Backend::SCALAR),
        "{} {ty}: {rows} rows of {cols}, {tokens} tokens, {mood:?}, start {skip}",
        backend.name()
    );
}

#[test]
fn every_backend_equals_scalar() {
    for backend in Backend::available().filter(|&backend| backend != Backend::SCALAR) {
        for ty in types() {
            let block = usize::try_from(ty.geometry().unwrap().block_len).unwrap();
            for blocks in 0..=64 {
                let random = &mut Random::new(u64::try_from(blocks).unwrap());
                for mood in [Mood::Ordinary, Mood::Wild, Mood::Extreme] {
                    let shape = [1 + random.below(9), block * blocks, 1 + random.below(5)];
                    compare(backend, ty, shape, mood, random);
                }
            }
            // All counts of rows and tokens, and those that are more than one group of either.
            let random = &mut Random::new(99);
            for (rows, tokens) in (1..=9)
                .flat_map(|rows| (1..=5).map(move |tokens| (rows, tokens)))
                .chain([(16, 9), (23, 13), (40, 1), (41, 32)])
            {
                let cols = match block {
                    1 => 1 + random.below(40),
                    _ => block * (1 + random.below(3)),
                };
                compare(backend, ty, [rows, cols, tokens], Mood::Wild, random);
                compare(backend, ty, [rows, cols, tokens], Mood::Ordinary, random);
            }
        }
    }
}

#[test]
fn every_backend_quantizes_as_scalar_does() {
    for backend in Backend::available() {
        let random = &mut Random::new(5);
        for blocks in 0..=64 {
            let odd = [0x7f80_0000, 0xff80_0000, 0x7fc0_0000, 0x8000_0001];
            let x: Vec<f32> = (0..blocks * 32)
                .map(|_| match (blocks % 4, random.below(40)) {
                    (0, 0) => f32::from_bits(odd[random.below(4)]),
                    (1, _) => f32::from_bits(random.next()),
                    // Halves: what rounds to even.
                    (2, 0) => 127.0,
                    (2, _) => (random.unit() * 254.0).trunc() / 2.0,
                    // About 2^-90, below which everything is zero.
                    (3, _) => random.unit() * f32::from_bits((128 - 90) << 23),
                    _ => random.unit(),
                })
                .collect();
            let mut expected = vec![Q8Act::ZERO; blocks];
            let mut found = vec![Q8Act::new(1.0, [1; 32]); blocks];
            Backend::SCALAR.quantize_q8(&x, &mut expected);
            backend.quantize_q8(&x, &mut found);
            for (found, expected) in found.iter().zip(&expected) {
                assert_eq!(bits(&[found.d]), bits(&[expected.d]));
                assert_eq!(found.sum, expected.sum);
                assert!(found.quants().eq(expected.quants()));
            }
            let mut expected = vec![Q8KAct::ZERO; blocks / 8];
            let mut found = vec![Q8KAct::new(1.0, [1; 256]); blocks / 8];
            Backend::SCALAR.quantize_q8k(&x, &mut expected);
            backend.quantize_q8k(&x, &mut found);
            for (found, expected) in found.iter().zip(&expected) {
                assert_eq!(bits(&[found.d]), bits(&[expected.d]));
                assert_eq!((found.qs(), found.sums()), (expected.qs(), expected.sums()));
            }
        }
    }
}

#[test]
fn quantizing_follows_the_rule() {
    // d = 1, so that quants are the numbers: halves go to the even neighbour.
    let mut x = [0.0f32; 32];
    let given = [
        127.0, 0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 0.500_01, -126.6, -127.0,
    ];
    x[..given.len()].copy_from_slice(&given);
    let mut out = [Q8Act::ZERO];
    Backend::SCALAR.quantize_q8(&x, &mut out);
    let quants = [127, 0, 2, 2, 0, -2, -2, 1, -127, -127];
    let found: Vec<i32> = (0..quants.len()).map(|i| out[0].get(i)).collect();
    assert_eq!((out[0].d, found), (1.0, quants.to_vec()));
    assert_eq!(out[0].sum, quants.iter().sum());

    let at_the_cut = f32::from_bits((127 - 90) << 23);
    Backend::SCALAR.quantize_q8(&[at_the_cut; 32], &mut out);
    assert_eq!(out[0], Q8Act::new(at_the_cut / 127.0, [127; 32]));
    Backend::SCALAR.quantize_q8(&[at_the_cut.next_down(); 32], &mut out);
    assert_eq!(out[0], Q8Act::ZERO);

    x[3] = f32::NEG_INFINITY;
    Backend::SCALAR.quantize_q8(&x, &mut out);
    assert_eq!(out[0], Q8Act::new(f32::INFINITY, [0; 32]));
    x[4] = f32::NAN;
    Backend::SCALAR.quantize_q8(&x, &mut out);
    assert!(out[0].d.is_nan() && out[0].quants().all(|q| q == 0));
}

/// The largest magnitude that the two parts of an element can have in an ordinary case, where
/// scales are below 1/16.
fn largest_parts(ty: GgmlType) -> f64 {
    let times = match ty {
        GgmlType::F32 | GgmlType::F16 | GgmlType::BF16 => 16,
        GgmlType::Q8_0 => 128,
        GgmlType::Q4_0 => 8,
        GgmlType::Q4_1 | GgmlType::Q5_0 => 16,
        GgmlType::Q5_1 => 32,
        GgmlType::IQ4_NL => 127,
        GgmlType::Q2_K => 15 * 3 + 15,
        GgmlType::Q3_K => 32 * 4,
        GgmlType::Q4_K => 63 * 15 + 63,
        GgmlType::Q5_K => 63 * 31 + 63,
        _ => 128 * 32,
    };
    f64::from(times) / 16.0
}

#[test]
fn scalar_is_near_the_sum_in_double_precision() {
    for ty in types() {
        let random = &mut Random::new(7);
        for blocks in [1, 2, 3, 8, 13, 64] {
            let cols = blocks * usize::try_from(ty.geometry().unwrap().block_len).unwrap();
            let (rows, tokens) = (3, 2);
            let bytes = weights(ty, rows, cols, Mood::Ordinary, random);
            let x = Rows::new(
                activation_kind(ty).unwrap(),
                cols * tokens,
                Mood::Ordinary,
                random,
            );
            let mut w = vec![0.0; rows * cols];
            dequantize_row(ty, &bytes, &mut w).unwrap();
            let mut out = vec![0.0; rows * tokens];
            Backend::SCALAR.matmul(ty, &bytes, cols, x.get(), tokens, &mut out);

            // Six roundings on the way from a block to its part of the sum and from a block to its
            // decoded elements, and one for each addition, of at most 2^-24 of the magnitudes each.
            let values = x.values();
            let magnitudes: f64 = values.iter().map(|x| x.abs()).sum();
            let roundings = f64::from(u32::try_from(blocks).unwrap()) + 6.0;
            let tolerance =
                magnitudes * largest_parts(ty) * roundings * f64::from(f32::EPSILON) / 2.0;
            for (x, out) in values.chunks(cols).zip(out.chunks(rows)) {
                for (w, &out) in w.chunks(cols).zip(out) {
                    let truth: f64 = w.iter().zip(x).map(|(&w, &x)| f64::from(w) * x).sum();
                    let error = (truth - f64::from(out)).abs();
                    assert!(error <= tolerance, "{ty} {blocks}: {out} for {truth}");
                }
            }
        }
    }
}

#[test]
fn columns_of_zeros_at_the_end_change_no_bit() {
    for ty in types() {
        let random = &mut Random::new(11);
        let cols = 4 * usize::try_from(ty.geometry().unwrap().block_len).unwrap();
        let row = weights(ty, 1, cols, Mood::Ordinary, random);
        let kind = activation_kind(ty).unwrap();
        let mut x = Rows::new(kind, cols, Mood::Ordinary, random);
        let mut short = [0.0];
        Backend::SCALAR.matmul(ty, &row, cols, x.get(), 1, &mut short);

        let mut longer = row.clone();
        longer.extend(weights(ty, 1, 2 * cols, Mood::Ordinary, random));
        match &mut x {
            Rows::F32(x) => x.resize(3 * cols, 0.0),
            Rows::Q8(x) => x.resize(3 * cols / 32, Q8Act::ZERO),
            Rows::Q8K(x) => x.resize(3 * cols / 256, Q8KAct::ZERO),
        }
        let mut long = [0.0];
        Backend::SCALAR.matmul(ty, &longer, 3 * cols, x.get(), 1, &mut long);
        assert_eq!(bits(&short), bits(&long), "{ty}");
    }
}

#[test]
fn lengths_that_do_not_fit_give_nan() {
    let x = [Q8Act::ZERO; 2];
    let q8 = Activations::Q8(&x);
    let run = |ty, bytes: usize, cols, x, tokens, outs| {
        let mut out = vec![1.0; outs];
        for backend in Backend::available() {
            backend.matmul(ty, &vec![0; bytes], cols, x, tokens, &mut out);
        }
        out
    };
    let ty = GgmlType::Q8_0;
    assert_eq!(run(ty, 3 * 68, 64, q8, 1, 3), [0.0; 3]);
    assert_eq!(run(ty, 3 * 34, 32, q8, 2, 6), [0.0; 6]);
    assert_eq!(run(ty, 0, 0, Activations::Q8(&[]), 1, 3), [0.0; 3]);
    assert_eq!(run(ty, 0, 64, q8, 1, 0), [0.0; 0]);
    for wrong in [
        run(ty, 3 * 68 - 1, 64, q8, 1, 3),
        run(ty, 3 * 68, 63, q8, 1, 3),
        run(ty, 3 * 68, 64, q8, 2, 6),
        run(ty, 3 * 68, 64, q8, 1, 2),
        run(ty, 3 * 34, 32, q8, 2, 5),
        run(ty, 3 * 34, 32, q8, 0, 3),
        run(ty, 3 * 68, 64, Activations::Q8(&x[..1]), 1, 3),
        run(ty, 3 * 68, 64, Activations::F32(&[0.0; 64]), 1, 3),
        run(ty, 34, usize::MAX / 32 * 32, q8, 1, 1),
        run(GgmlType::IQ4_XS, 136, 256, q8, 1, 1),
    ] {
        assert!(wrong.iter().all(|x| x.is_nan()), "{wrong:?}");
    }
}

#[test]
fn names_lead_back_to_the_backend() {
    for backend in Backend::available() {
        assert_eq!(Backend::from_name(backend.name()), Some(backend));
    }
    assert_eq!(Backend::from_name("no such"), None);
    assert_eq!(Backend::available().next(), Some(Backend::SCALAR));
    assert_eq!(Backend::available().last(), Some(Backend::best()));
}
