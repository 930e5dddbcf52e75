//! Cortex-M with the DSP instructions of ARMv7E-M and the single-precision FPU: two rows at a time,
//! two products an instruction.
//!
//! The inner loops are written out, since compilers spill here, and neither `smlad` nor
//! single-precision registers are to be had from stable Rust otherwise. What has no loop of its own
//! goes to the scalar code.
//!
//! The assembler is told `.cpu cortex-m4`, whose instructions all of these chips have: the bare target
//! of the Cortex-M33 is without them, and if the compiler were told that core, what it made of the
//! standard library for any core would no longer be optimized together with the rest.
#![allow(unsafe_code)]

mod attention;
mod q4_0;
mod q5_0;
mod q8_0;
mod quantize;

pub(super) use attention::Dsp;
pub(super) use quantize::quantize_q8;

use super::backend::Shape;
use super::scalar;
use crate::built_in;
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
            (GgmlType::Q8_0, Activations::Q8(x)) if built_in::Q8_0 => {
                each::<q8_0::Q8_0>(weights, shape, x, out)
            }
            (GgmlType::Q4_0, Activations::Q8(x)) if built_in::Q4_0 => {
                each::<q4_0::Q4_0>(weights, shape, x, out)
            }
            (GgmlType::Q5_0, Activations::Q8(x)) if built_in::Q5_0 => {
                each::<q5_0::Q5_0>(weights, shape, x, out)
            }
            _ => scalar::matmul(ty, weights, shape, x, out),
        }
    }
}

/// How rows of weights are multiplied with one of activations.
trait Rows {
    /// The products of `out.len()` rows, at least one.
    ///
    /// # Safety
    ///
    /// The DSP instructions and the FPU are there, `x` has at least one block, and `weights` has
    /// `out.len()` rows of as many blocks.
    unsafe fn multiply(weights: &[u8], x: &[Q8Act], out: &mut [f32]);
}

/// All rows of activations, one after the other.
///
/// # Safety
///
/// The DSP instructions and the FPU are there, and the lengths of the slices are those of `shape`.
#[inline(always)]
unsafe fn each<R: Rows>(weights: &[u8], shape: Shape, x: &[Q8Act], out: &mut [f32]) {
    let outs = out.chunks_exact_mut(shape.rows);
    for (x, out) in x.chunks_exact(shape.blocks).zip(outs) {
        // SAFETY: these are the lengths of the shape.
        unsafe { R::multiply(weights, x, out) };
    }
}

/// Calls `pairs` for two rows at a time, and for a last one alone as if there were two of it.
///
/// `pairs` is given where the first and the second row begin, the distance from one row to the next,
/// and how many pairs there are.
#[inline(always)]
fn in_pairs(
    weights: &[u8],
    out: &mut [f32],
    mut pairs: impl FnMut(*const u8, *const u8, usize, usize, *mut f32),
) {
    let row_bytes = weights.len() / out.len();
    let (of_pairs, last) = out.as_chunks_mut::<2>();
    let first = weights.as_ptr();
    if !of_pairs.is_empty() {
        let second = first.wrapping_add(row_bytes);
        let count = of_pairs.len();
        pairs(
            first,
            second,
            row_bytes,
            count,
            of_pairs.as_mut_ptr().cast(),
        );
    }
    if let [last] = last {
        let row = first.wrapping_add(weights.len() - row_bytes);
        let mut both = [0.0; 2];
        pairs(row, row, 0, 1, both.as_mut_ptr());
        [*last, _] = both;
    }
}
