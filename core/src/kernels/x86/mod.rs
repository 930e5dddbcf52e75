//! x86-64 with AVX2 and F16C, and with AVX-VNNI where that makes a difference.
#![allow(unsafe_code)]
#![allow(clippy::needless_range_loop)] // Constant ranges that index several arrays.

mod attention;
mod block256;
mod block32;
mod dot;
mod float;
mod k_types;
mod quantize;
mod rows;
mod types32;

pub(super) use attention::{attend, attend_q8};
pub(super) use dot::{Avx2, AvxVnni};
pub(super) use quantize::{quantize_q8, quantize_q8k};
pub(super) use rows::{add, largest_magnitude, quantize_bytes, rms_norm, rope, swiglu, to_f16};

use super::backend::Shape;
use crate::gguf::GgmlType;
use crate::quant::Activations;

/// `out[t * rows + r]` becomes the product of weight row `r` and activation row `t`.
///
/// # Safety
///
/// The instructions of `D` and F16C are there, and the lengths of the slices are those of `shape`.
pub(super) unsafe fn matmul<D: dot::Dot>(
    ty: GgmlType,
    weights: &[u8],
    shape: Shape,
    x: Activations<'_>,
    out: &mut [f32],
) {
    use {Activations as A, GgmlType as T};
    // SAFETY: the caller's promises are those of all of them.
    unsafe {
        match (ty, x) {
            (T::F32, A::F32(x)) => float::matmul::<float::F32>(weights, shape, x, out),
            (T::F16, A::F32(x)) => float::matmul::<float::F16>(weights, shape, x, out),
            (T::BF16, A::F32(x)) => float::matmul::<float::Bf16>(weights, shape, x, out),
            (T::Q8_0, A::Q8(x)) => block32::matmul::<types32::Q8_0, D>(weights, shape, x, out),
            (T::Q4_0, A::Q8(x)) => block32::matmul::<types32::Q4_0, D>(weights, shape, x, out),
            (T::Q4_1, A::Q8(x)) => block32::matmul::<types32::Q4_1, D>(weights, shape, x, out),
            (T::Q5_0, A::Q8(x)) => block32::matmul::<types32::Q5_0, D>(weights, shape, x, out),
            (T::Q5_1, A::Q8(x)) => block32::matmul::<types32::Q5_1, D>(weights, shape, x, out),
            (T::IQ4_NL, A::Q8(x)) => block32::matmul::<types32::Iq4Nl, D>(weights, shape, x, out),
            (T::Q2_K, A::Q8K(x)) => block256::matmul::<k_types::Q2K>(weights, shape, x, out),
            (T::Q3_K, A::Q8K(x)) => block256::matmul::<k_types::Q3K>(weights, shape, x, out),
            (T::Q4_K, A::Q8K(x)) => block256::matmul::<k_types::Q4K>(weights, shape, x, out),
            (T::Q5_K, A::Q8K(x)) => block256::matmul::<k_types::Q5K>(weights, shape, x, out),
            (T::Q6_K, A::Q8K(x)) => block256::matmul::<k_types::Q6K>(weights, shape, x, out),
            // A shape is only made for a type and the form of activations that belongs to it.
            _ => {}
        }
    }
}
