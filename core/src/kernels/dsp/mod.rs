//! Cortex-M with the DSP instructions of ARMv7E-M and the single-precision FPU: two rows at a time,
//! two products an instruction.
//!
//! The inner loops are written out, since compilers spill here, and neither `smlad` nor
//! single-precision registers are to be had from stable Rust otherwise. What has no loop of its own
//! goes to the scalar code.
#![allow(unsafe_code)]

mod attention;
mod q4_0;
mod q5_0;
mod q8_0;

pub(super) use attention::attend_q8;

use super::backend::Shape;
use super::scalar;
use crate::gguf::GgmlType;
use crate::quant::{Activations, Q8Act};

/// `out[t * rows + r]` becomes the product of weight row `r` and activation row `t`.
///
/// # Safety
///
/// The DSP instructions and the FPU are there, and the lengths of the slices are those of `shape`.
pub(super) unsafe fn matmul(
    ty: GgmlType,
    weights: &[u8],
    shape: Shape,
    x: Activations<'_>,
    out: &mut [f32],
) {
    // SAFETY: the caller's promises are those of all of them.
    unsafe {
        match (ty, x) {
            (GgmlType::Q8_0, Activations::Q8(x)) => pairs::<q8_0::Pair>(weights, shape, x, out),
            (GgmlType::Q4_0, Activations::Q8(x)) => pairs::<q4_0::Pair>(weights, shape, x, out),
            (GgmlType::Q5_0, Activations::Q8(x)) => pairs::<q5_0::Pair>(weights, shape, x, out),
            _ => scalar::matmul(ty, weights, shape, x, out),
        }
    }
}

/// How two rows of weights are multiplied with one of activations.
trait RowPair {
    /// The two products.
    ///
    /// # Safety
    ///
    /// The DSP instructions and the FPU are there, `blocks`, at least one, blocks of activations
    /// can be read at `x` and as many blocks of weights at `first` and at `second`.
    unsafe fn multiply(
        first: *const u8,
        second: *const u8,
        x: *const Q8Act,
        blocks: usize,
    ) -> [f32; 2];
}

/// All rows, two at a time; a last one alone is done twice.
///
/// # Safety
///
/// The DSP instructions and the FPU are there, and the lengths of the slices are those of `shape`.
#[inline(always)]
unsafe fn pairs<P: RowPair>(weights: &[u8], shape: Shape, x: &[Q8Act], out: &mut [f32]) {
    let Shape {
        rows,
        row_bytes,
        blocks,
    } = shape;
    for (x, out) in x.chunks_exact(blocks).zip(out.chunks_exact_mut(rows)) {
        let weights = weights.chunks(2 * row_bytes);
        for (weights, out) in weights.zip(out.chunks_mut(2)) {
            let first = weights.as_ptr();
            // SAFETY: `weights` has one row or two of `blocks` blocks, and `x` has `blocks` blocks.
            let products = unsafe {
                let second = first.add(weights.len() - row_bytes);
                P::multiply(first, second, x.as_ptr(), blocks)
            };
            for (out, product) in out.iter_mut().zip(products) {
                *out = product;
            }
        }
    }
}
