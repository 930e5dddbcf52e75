//! Cortex-M55 with Helium: sixteen products an instruction.
//!
//! Helium flushes subnormal numbers to zero and gives NaN another sign. So sums of products of
//! blocks are left to the scalar FPU, and vectors of floating-point numbers are used only where it
//! can be shown that no bit of a result depends on that; it is shown where they are used.
//!
//! Stable Rust knows neither vector registers nor that the chip has them: all is written out, with
//! registers by name. What has no loop of its own goes to the scalar code.
#![allow(unsafe_code)]

mod attention;
mod q4_0;
mod q5_0;
mod q8_0;
mod quantize;

pub(super) use attention::Mve;
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
/// Helium and the FPU are there, and the lengths of the slices are those of `shape`.
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
                each(q8_0::multiply, weights, shape, x, out)
            }
            (GgmlType::Q4_0, Activations::Q8(x)) if built_in::Q4_0 => {
                each(q4_0::multiply, weights, shape, x, out)
            }
            (GgmlType::Q5_0, Activations::Q8(x)) if built_in::Q5_0 => {
                each(q5_0::multiply, weights, shape, x, out)
            }
            _ => scalar::matmul(ty, weights, shape, x, out),
        }
    }
}

/// Multiplies pairs of rows: given where the first and the second begin, the distance from one row
/// to the next, the activations, how many pairs there are, and where the products go. After one
/// pair, the next begins where its second row ends.
type Pairs = unsafe fn(*const u8, *const u8, usize, &[Q8Act], usize, *mut f32);

/// All rows, in pairs; a last one alone as if there were two of it.
///
/// # Safety
///
/// Helium and the FPU are there, and the lengths of the slices are those of `shape`.
#[inline(always)]
unsafe fn each(pairs: Pairs, weights: &[u8], shape: Shape, x: &[Q8Act], out: &mut [f32]) {
    let Shape {
        rows,
        row_bytes,
        blocks,
    } = shape;
    let first = weights.as_ptr();
    for (x, out) in x.chunks_exact(blocks).zip(out.chunks_exact_mut(rows)) {
        let (of_pairs, last) = out.as_chunks_mut::<2>();
        // SAFETY: the rows are inside of `weights`, and each has as many blocks as `x`.
        unsafe {
            if !of_pairs.is_empty() {
                let second = first.add(row_bytes);
                let out = of_pairs.as_mut_ptr().cast();
                pairs(first, second, row_bytes, x, of_pairs.len(), out);
            }
            if let [last] = last {
                let row = first.add(weights.len() - row_bytes);
                let mut both = [0.0; 2];
                pairs(row, row, 0, x, 1, both.as_mut_ptr());
                [*last, _] = both;
            }
        }
    }
}
