//! `AArch64` with NEON, and with the dot product extension where that makes a difference.
#![allow(unsafe_code)]
#![allow(clippy::needless_range_loop)] // Constant ranges that index several arrays.

mod attention;
mod block256;
mod block32;
mod dot;
mod float;
mod k_types;
mod quantize;
mod types32;

pub(super) use attention::attend_q8;
pub(super) use dot::{Dotprod, Neon};
pub(super) use quantize::{quantize_q8, quantize_q8k};

use core::arch::aarch64::*;
use core::arch::asm;

use super::backend::Shape;
use crate::built_in;
use crate::gguf::GgmlType;
use crate::quant::Activations;

/// `out[t * rows + r]` becomes the product of weight row `r` and activation row `t`.
///
/// # Safety
///
/// The instructions of `D` are there, and the lengths of the slices are those of `shape`.
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
            (T::F32, A::F32(x)) if built_in::F32 => {
                float::matmul::<float::F32>(weights, shape, x, out)
            }
            (T::F16, A::F32(x)) if built_in::F16 => {
                float::matmul::<float::F16>(weights, shape, x, out)
            }
            (T::BF16, A::F32(x)) if built_in::BF16 => {
                float::matmul::<float::Bf16>(weights, shape, x, out)
            }
            (T::Q8_0, A::Q8(x)) if built_in::Q8_0 => {
                block32::matmul::<types32::Q8_0, D>(weights, shape, x, out)
            }
            (T::Q4_0, A::Q8(x)) if built_in::Q4_0 => {
                block32::matmul::<types32::Q4_0, D>(weights, shape, x, out)
            }
            (T::Q4_1, A::Q8(x)) if built_in::Q4_1 => {
                block32::matmul::<types32::Q4_1, D>(weights, shape, x, out)
            }
            (T::Q5_0, A::Q8(x)) if built_in::Q5_0 => {
                block32::matmul::<types32::Q5_0, D>(weights, shape, x, out)
            }
            (T::Q5_1, A::Q8(x)) if built_in::Q5_1 => {
                block32::matmul::<types32::Q5_1, D>(weights, shape, x, out)
            }
            (T::IQ4_NL, A::Q8(x)) if built_in::IQ4_NL => {
                block32::matmul::<types32::Iq4Nl, D>(weights, shape, x, out)
            }
            (T::Q2_K, A::Q8K(x)) if built_in::Q2_K => {
                block256::matmul::<k_types::Q2K, D>(weights, shape, x, out)
            }
            (T::Q3_K, A::Q8K(x)) if built_in::Q3_K => {
                block256::matmul::<k_types::Q3K, D>(weights, shape, x, out)
            }
            (T::Q4_K, A::Q8K(x)) if built_in::Q4_K => {
                block256::matmul::<k_types::Q4K, D>(weights, shape, x, out)
            }
            (T::Q5_K, A::Q8K(x)) if built_in::Q5_K => {
                block256::matmul::<k_types::Q5K, D>(weights, shape, x, out)
            }
            (T::Q6_K, A::Q8K(x)) if built_in::Q6_K => {
                block256::matmul::<k_types::Q6K, D>(weights, shape, x, out)
            }
            // A shape is only made for a type and the form of activations that belongs to it.
            _ => {}
        }
    }
}

/// Four half-precision numbers as f32; the intrinsic for it is not in stable Rust everywhere.
#[inline(always)]
fn f16_to_f32(halves: uint16x4_t) -> float32x4_t {
    let out: float32x4_t;
    // SAFETY: FCVTL is part of NEON, and only registers change.
    unsafe {
        asm!("fcvtl {out:v}.4s, {halves:v}.4h", out = lateout(vreg) out, halves = in(vreg) halves,
            options(pure, nomem, nostack, preserves_flags));
    }
    out
}

/// The upper four of eight half-precision numbers as f32.
#[inline(always)]
fn f16_to_f32_high(halves: uint16x8_t) -> float32x4_t {
    let out: float32x4_t;
    // SAFETY: FCVTL2 is part of NEON, and only registers change.
    unsafe {
        asm!("fcvtl2 {out:v}.4s, {halves:v}.8h", out = lateout(vreg) out, halves = in(vreg) halves,
            options(pure, nomem, nostack, preserves_flags));
    }
    out
}

/// Four sums, each of the lanes of one register.
#[inline(always)]
fn join(of: [int32x4_t; 4]) -> int32x4_t {
    // SAFETY: NEON is there.
    unsafe { vpaddq_s32(vpaddq_s32(of[0], of[1]), vpaddq_s32(of[2], of[3])) }
}
