//! Nanoseconds for all products of weights of one stories260K token, for each type and back end:
//! one token at a time, and a token's part of 16 at once; `cargo bench -p smidgen-core --features
//! std --bench matmul [TYPE...]`.
//!
//! Rows have 64 and 192 columns (the hidden size padded), those of K types 256 with a quarter of
//! the rows. Each answer is compared with that of the scalar back end.

use std::hint::black_box;
use std::time::{Duration, Instant};

use smidgen_core::gguf::GgmlType;
use smidgen_core::kernels::Backend;
use smidgen_core::quant::{ActivationKind, Activations, Q8Act, Q8KAct, activation_kind, row_bytes};

/// Rows and columns of every matrix of a layer, and of the classifier.
const LAYER: [(usize, usize); 7] = [
    (64, 64),
    (32, 64),
    (32, 64),
    (64, 64),
    (192, 64),
    (192, 64),
    (64, 192),
];
const CLASSIFIER: (usize, usize) = (512, 64);

struct Matrix {
    cols: usize,
    weights: Vec<u8>,
    out: Vec<f32>,
}

fn main() {
    // Cargo passes `--bench`.
    let chosen: Vec<String> = std::env::args()
        .skip(1)
        .filter(|arg| !arg.starts_with('-'))
        .collect();
    println!(
        "{:8} {:8} {:>12} {:>16}",
        "type", "back end", "ns a token", "ns, 16 at once"
    );
    for ty in GgmlType::all() {
        let wanted = chosen.is_empty() || chosen.iter().any(|name| *name == ty.to_string());
        if let Some(kind) = activation_kind(ty).filter(|_| wanted) {
            for backend in Backend::available() {
                let one = measure(backend, ty, kind, 1);
                let many = measure(backend, ty, kind, 16);
                println!("{ty:8} {:8} {one:12.0} {many:16.0}", backend.name());
            }
        }
    }
}

/// Nanoseconds a token, the least of many runs.
fn measure(backend: Backend, ty: GgmlType, kind: ActivationKind, tokens: usize) -> f64 {
    let x: Vec<f32> = (0..1024 * tokens).map(number).collect();
    let mut q8 = vec![Q8Act::ZERO; x.len() / 32];
    let mut q8k = vec![Q8KAct::ZERO; x.len() / 256];
    backend.quantize_q8(&x, &mut q8);
    backend.quantize_q8k(&x, &mut q8k);
    let activations = |cols: usize| match kind {
        ActivationKind::F32 => Activations::F32(&x[..cols * tokens]),
        ActivationKind::Q8 => Activations::Q8(&q8[..cols / 32 * tokens]),
        ActivationKind::Q8K => Activations::Q8K(&q8k[..cols / 256 * tokens]),
    };
    let layers = std::iter::repeat_n(LAYER, 5).flatten();
    let mut matrices: Vec<Matrix> = layers
        .chain([CLASSIFIER])
        .map(|(rows, cols)| match kind {
            ActivationKind::Q8K => (rows * cols / 256, 256),
            _ => (rows, cols),
        })
        .map(|(rows, cols)| Matrix {
            cols,
            weights: weights(ty, rows * row_bytes(ty, cols).expect("whole blocks")),
            out: vec![0.0; rows * tokens],
        })
        .collect();
    let run = |backend: Backend, matrices: &mut [Matrix]| {
        for Matrix { cols, weights, out } in matrices {
            backend.matmul(
                ty,
                black_box(weights),
                *cols,
                activations(*cols),
                tokens,
                out,
            );
        }
    };

    let mut best = Duration::MAX;
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_millis(200) {
        let start = Instant::now();
        run(backend, black_box(&mut matrices));
        best = best.min(start.elapsed());
    }
    let found: Vec<Vec<f32>> = matrices.iter().map(|matrix| matrix.out.clone()).collect();
    run(Backend::SCALAR, &mut matrices);
    for (found, matrix) in found.iter().zip(&matrices) {
        assert!(found.iter().all(|x| x.is_finite()), "{ty}");
        assert_eq!(*found, matrix.out, "{ty} {}", backend.name());
    }
    best.as_secs_f64() * 1e9 / f64::from(u32::try_from(tokens).expect("few"))
}

/// Weights of which none is NaN, infinite or subnormal.
fn weights(ty: GgmlType, len: usize) -> Vec<u8> {
    match ty {
        GgmlType::F32 => (0..len / 4).flat_map(|i| number(i).to_le_bytes()).collect(),
        GgmlType::BF16 => (0..len / 2)
            .flat_map(|i| number(i).to_le_bytes().into_iter().skip(2))
            .collect(),
        // Any bytes, with a bit cleared that all infinite scales have.
        _ => (0..len)
            .map(|i| (i.wrapping_mul(2_654_435_761) >> 13).to_le_bytes()[0] & 0xbf)
            .collect(),
    }
}

/// A number of -1..1.
fn number(i: usize) -> f32 {
    let [a, b, ..] = i.wrapping_mul(2_654_435_761).to_le_bytes();
    f32::from(i16::from_le_bytes([a, b])) / 32768.0
}
