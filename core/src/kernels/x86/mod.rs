//! x86-64 with AVX2 and F16C.
//!
//! Eight rows of weights are multiplied at a time, so that the eight lanes of a register hold the
//! accumulators of eight rows. The last rows of a matrix are done again together with those before
//! them if they are fewer than eight; a matrix of fewer rows is done with one row in all lanes.
#![allow(unsafe_code)]
#![allow(clippy::needless_range_loop)] // Constant ranges that index several arrays.

mod block256;
mod block32;
mod float;
mod k_types;
mod quantize;
mod types32;

pub(super) use quantize::{quantize_q8, quantize_q8k};

use super::backend::Shape;
use crate::gguf::GgmlType;
use crate::quant::Activations;

/// Rows done at a time.
const GROUP: usize = 8;

/// `out[t * rows + r]` becomes the product of weight row `r` and activation row `t`.
#[target_feature(enable = "avx2,f16c")]
pub(super) fn matmul(
    ty: GgmlType,
    weights: &[u8],
    shape: Shape,
    x: Activations<'_>,
    out: &mut [f32],
) {
    match (ty, x) {
        (GgmlType::F32, Activations::F32(x)) => {
            float::matmul::<float::F32>(weights, shape, x, out);
        }
        (GgmlType::F16, Activations::F32(x)) => {
            float::matmul::<float::F16>(weights, shape, x, out);
        }
        (GgmlType::BF16, Activations::F32(x)) => {
            float::matmul::<float::Bf16>(weights, shape, x, out);
        }
        (GgmlType::Q8_0, Activations::Q8(x)) => {
            block32::matmul::<types32::Q8_0>(weights, shape, x, out);
        }
        (GgmlType::Q4_0, Activations::Q8(x)) => {
            block32::matmul::<types32::Q4_0>(weights, shape, x, out);
        }
        (GgmlType::Q4_1, Activations::Q8(x)) => {
            block32::matmul::<types32::Q4_1>(weights, shape, x, out);
        }
        (GgmlType::Q5_0, Activations::Q8(x)) => {
            block32::matmul::<types32::Q5_0>(weights, shape, x, out);
        }
        (GgmlType::Q5_1, Activations::Q8(x)) => {
            block32::matmul::<types32::Q5_1>(weights, shape, x, out);
        }
        (GgmlType::IQ4_NL, Activations::Q8(x)) => {
            block32::matmul::<types32::Iq4Nl>(weights, shape, x, out);
        }
        (GgmlType::Q2_K, Activations::Q8K(x)) => {
            block256::matmul::<k_types::Q2K>(weights, shape, x, out);
        }
        (GgmlType::Q3_K, Activations::Q8K(x)) => {
            block256::matmul::<k_types::Q3K>(weights, shape, x, out);
        }
        (GgmlType::Q4_K, Activations::Q8K(x)) => {
            block256::matmul::<k_types::Q4K>(weights, shape, x, out);
        }
        (GgmlType::Q5_K, Activations::Q8K(x)) => {
            block256::matmul::<k_types::Q5K>(weights, shape, x, out);
        }
        (GgmlType::Q6_K, Activations::Q8K(x)) => {
            block256::matmul::<k_types::Q6K>(weights, shape, x, out);
        }
        // A shape is only made for a type and the form of activations that belongs to it.
        _ => {}
    }
}

/// The first row of each group of eight, and how far apart the group's rows are: overlapping at
/// the end, or with fewer than eight rows each row alone, eight times.
fn groups(rows: usize) -> impl Iterator<Item = usize> {
    let (step, last) = if rows < GROUP {
        (1, rows.saturating_sub(1))
    } else {
        (GROUP, rows - GROUP)
    };
    (0..rows).step_by(step).map(move |row| row.min(last))
}
