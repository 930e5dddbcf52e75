//! Cortex-M0 and M0+: two products a multiplication, and floats in integers.
//!
//! Words of activations hold two of them, `x[j]` in the upper half and `x[j + 16]` in the lower, as
//! one number: `x[j] * 2^16 + x[j + 16]`. With two weights the other way around, `w[j] + w[j + 16] *
//! 2^16`, the product is `w[j] * x[j + 16]`, plus 2^16 times the sum of the two products that are
//! wanted, plus a multiple of 2^32. Many such products can be added up as long as the sum of their
//! lower parts fits into 16 bits, and the wanted sum too, at least modulo 2^16.
//!
//! Only addresses of weights that are even are dealt with here: blocks have even lengths, and this
//! core faults where a halfword is not aligned.
#![allow(unsafe_code)]

use core::arch::naked_asm;

use super::backend::Shape;
use super::{scalar, soft_float};
use crate::gguf::GgmlType;
use crate::quant::{Activations, Q8Act};

/// `out[t * rows + r]` becomes the product of weight row `r` and activation row `t`.
pub(super) fn matmul(
    ty: GgmlType,
    weights: &[u8],
    shape: Shape,
    x: Activations<'_>,
    out: &mut [f32],
) {
    let even = weights.as_ptr().addr().is_multiple_of(2);
    match (ty, x) {
        (GgmlType::Q4_0, Activations::Q8(x)) if even => {
            each::<18>(weights, shape, x, out, |block, x| {
                // SAFETY: these are a block of `Q4_0` at an even address and activations.
                let sum = unsafe { sum_q4_0(block.as_ptr(), x.stored()) };
                // The sum of the lower parts is at most 16 * 15 * 127.
                let wanted = sum.wrapping_sub(low_half(sum).cast_unsigned()) >> 16;
                // At most 32 * 8 * 127, so that 16 bits tell it.
                low_half(wanted.wrapping_sub(x.sum.cast_unsigned() << 3))
            });
        }
        (GgmlType::Q5_0, Activations::Q8(x)) if even => {
            each::<22>(weights, shape, x, out, |block, x| {
                // SAFETY: these are a block of `Q5_0` at an even address and activations.
                unsafe { sum_q5_0(block.as_ptr(), x.stored()) }
            });
        }
        (GgmlType::Q8_0, Activations::Q8(x)) if even => {
            each::<34>(weights, shape, x, out, |block, x| {
                // SAFETY: these are a block of `Q8_0` at an even address and activations.
                unsafe { sum_q8_0(block.as_ptr(), x.stored()) }
            });
        }
        _ => scalar::matmul(ty, weights, shape, x, out),
    }
}

/// The lower half of a word as a signed number.
#[inline(always)]
fn low_half(word: u32) -> i32 {
    #[allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap)] // Meant.
    i32::from(word as i16)
}

/// All rows of weights times all rows of activations, by the integer sum of a block.
#[inline(never)] // A frame of its own: this core has little stack.
fn each<const BYTES: usize>(
    weights: &[u8],
    shape: Shape,
    x: &[Q8Act],
    out: &mut [f32],
    isum: impl Fn(&[u8; BYTES], &Q8Act) -> i32,
) {
    let outs = out.chunks_exact_mut(shape.rows);
    for (x, out) in x.chunks_exact(shape.blocks).zip(outs) {
        let (mut blocks, _) = weights.as_chunks::<BYTES>();
        for out in out {
            let Some((row, rest)) = blocks.split_at_checked(x.len()) else {
                return;
            };
            blocks = rest;
            let mut acc = 0.0;
            for (block, x) in row.iter().zip(x) {
                let d = u16::from_le_bytes([block[0], block[1]]);
                let scaled = soft_float::scaled(d, x.d.to_bits(), isum(block, x));
                acc += f32::from_bits(scaled);
            }
            *out = acc;
        }
    }
}

/// The sum of the products of words of two weights each, 0 to 15, with those of two activations.
///
/// # Safety
///
/// `block` is the address of a block of `Q4_0`, and even.
#[unsafe(naked)]
unsafe extern "C" fn sum_q4_0(block: *const u8, x: &[u32; 16]) -> u32 {
    naked_asm!(
        "push {{r4, r5, r6, r7, lr}}",
        "movs r2, #0",
        // The low nibbles of bytes 0 and 2.
        "movs r6, #15",
        "lsls r7, r6, #16",
        "orrs r6, r7",
        ".irp at, 2, 4, 6, 8, 10, 12, 14, 16",
        // Two bytes, four weights: the high nibbles move to the upper half.
        "ldrh r3, [r0, #\\at]",
        "lsls r4, r3, #12",
        "orrs r3, r4",
        "lsrs r4, r3, #8",
        "ands r3, r6",
        "ands r4, r6",
        "ldmia r1!, {{r5, r7}}",
        "muls r3, r5, r3",
        "adds r2, r2, r3",
        "muls r4, r7, r4",
        "adds r2, r2, r4",
        ".endr",
        "mov r0, r2",
        "pop {{r4, r5, r6, r7, pc}}",
    )
}

/// The sum of the products of a block: of each half of the words on its own, since 16 bits tell at
/// most 16 * 16 * 127.
///
/// # Safety
///
/// `block` is the address of a block of `Q5_0`, and even.
#[unsafe(naked)]
unsafe extern "C" fn sum_q5_0(block: *const u8, x: &[u32; 16]) -> i32 {
    naked_asm!(
        "push {{r4, r5, r6, r7, lr}}",
        "mov r4, r8",
        "push {{r4}}",
        // The inverse of the fifth bits: what they stand for, 16, is taken off where they are not
        // set, so that weights are -16 to 15.
        "ldrh r3, [r0, #2]",
        "ldrh r4, [r0, #4]",
        "lsls r4, r4, #16",
        "orrs r3, r4",
        "mvns r7, r3",
        // The low nibbles of bytes 0 and 2, and the bits above them.
        "movs r6, #15",
        "lsls r2, r6, #16",
        "orrs r6, r2",
        "movs r2, #16",
        "lsls r3, r2, #16",
        "orrs r2, r3",
        "movs r3, #0",
        "mov r8, r3",
        // Where the bits of two weights are: up to the fourth they move up, then down.
        ".irp pair, 0, 1, 2, 3, 4, 5, 6, 7",
        "ldrh r3, [r0, #6 + 2 * \\pair]",
        "lsls r4, r3, #12",
        "orrs r3, r4",
        "lsrs r4, r3, #8",
        "ands r3, r6",
        "ands r4, r6",
        ".if \\pair < 3",
        "lsls r5, r7, #4 - 2 * \\pair",
        ".else",
        "lsrs r5, r7, #2 * \\pair - 4",
        ".endif",
        "ands r5, r2",
        "subs r3, r3, r5",
        ".if \\pair < 2",
        "lsls r5, r7, #3 - 2 * \\pair",
        ".else",
        "lsrs r5, r7, #2 * \\pair - 3",
        ".endif",
        "ands r5, r2",
        "subs r4, r4, r5",
        "ldmia r1!, {{r5}}",
        "muls r3, r5, r3",
        "add r8, r3",
        "ldmia r1!, {{r5}}",
        "muls r4, r5, r4",
        "add r8, r4",
        ".if \\pair == 3",
        "mov r12, r8",
        "movs r3, #0",
        "mov r8, r3",
        ".endif",
        ".endr",
        "mov r3, r8",
        "sxth r4, r3",
        "subs r3, r3, r4",
        "asrs r0, r3, #16",
        "mov r3, r12",
        "sxth r4, r3",
        "subs r3, r3, r4",
        "asrs r3, r3, #16",
        "adds r0, r0, r3",
        "pop {{r4}}",
        "mov r8, r4",
        "pop {{r4, r5, r6, r7, pc}}",
    )
}

/// The sum of the products of a block. The lower part of one product is at most 128 * 127, so that
/// half of 2^16 more rounds it off; two products fill 16 bits, so that each word is taken apart.
///
/// # Safety
///
/// `block` is the address of a block of `Q8_0`, and even.
#[unsafe(naked)]
unsafe extern "C" fn sum_q8_0(block: *const u8, x: &[u32; 16]) -> i32 {
    naked_asm!(
        "push {{r4, r5, r6, r7, lr}}",
        "movs r2, #0",
        "movs r7, #1",
        "lsls r7, r7, #15",
        ".irp at, 2, 4, 6, 8, 10, 12, 14, 16",
        "ldrh r3, [r0, #\\at]",
        "ldrh r4, [r0, #16 + \\at]",
        // The first bytes.
        "sxtb r5, r3",
        "lsls r6, r4, #24",
        "asrs r6, r6, #8",
        "adds r5, r5, r6",
        "ldmia r1!, {{r6}}",
        "muls r5, r6, r5",
        "adds r5, r5, r7",
        "asrs r5, r5, #16",
        "adds r2, r2, r5",
        // The second bytes.
        "sxth r3, r3",
        "asrs r3, r3, #8",
        "lsrs r4, r4, #8",
        "lsls r4, r4, #24",
        "asrs r4, r4, #8",
        "adds r3, r3, r4",
        "ldmia r1!, {{r6}}",
        "muls r3, r6, r3",
        "adds r3, r3, r7",
        "asrs r3, r3, #16",
        "adds r2, r2, r3",
        ".endr",
        "mov r0, r2",
        "pop {{r4, r5, r6, r7, pc}}",
    )
}
