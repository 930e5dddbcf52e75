//! Two rows of `Q4_0`: 105 instructions for 64 products.
//!
//! The offset of 8 is taken off at the end of a block: `sum((q - 8) * x) = sum(q * x) - 8 * sum(x)`.

use core::arch::asm;

use super::{Rows, in_pairs};
use crate::quant::Q8Act;

/// Rows of `Q4_0`.
#[allow(non_camel_case_types)] // ggml's name.
pub(super) struct Q4_0;

impl Rows for Q4_0 {
    #[inline(always)]
    unsafe fn multiply(weights: &[u8], x: &[Q8Act], out: &mut [f32]) {
        in_pairs(weights, out, |first, second, row_bytes, pairs, out| {
            // SAFETY: the instructions are there, and so many rows begin at these places.
            unsafe { multiply(first, second, row_bytes, x, pairs, out) };
        });
    }
}

/// The products of `pairs` pairs of rows: after one pair, the next begins where its second row ends.
///
/// # Safety
///
/// The DSP instructions and the FPU are there, `x` has at least one block and `pairs` is not 0. The
/// rows of the first pair begin at `first` and `second`, for more than one pair `row_bytes` apart,
/// the others follow, and `out` has room for all products.
#[inline(never)] // One copy, for pairs and for a last row alone.
unsafe fn multiply(
    first: *const u8,
    second: *const u8,
    row_bytes: usize,
    x: &[Q8Act],
    pairs: usize,
    out: *mut f32,
) {
    // SAFETY: as for `Q8_0`, with LDRD in place of LDM.
    unsafe {
        asm!(
            ".cpu cortex-m4",
            "push {{r6, r7}}",
            "vmov s16, r0",
            "vmov s17, r9",
            "vmov s18, r2",
            "vmov s19, r3",
            "vmov s20, r4",
            // The low nibbles of bytes 0 and 2.
            "mov r7, #0x000f000f",
            "3:",
            "movs r6, #0",
            "vmov r0, s16",
            "vmov r9, s17",
            "vmov s0, r6",
            "vmov s1, r6",
            "2:",
            "vldr s4, [r0]",
            "ldrh r12, [r1], #18",
            "ldrh lr, [r8], #18",
            "vmov s2, s3, r12, lr",
            "vcvtb.f32.f16 s2, s2",
            "vcvtb.f32.f16 s3, s3",
            "vmul.f32 s2, s2, s4",
            "vmul.f32 s3, s3, s4",
            // Four bytes of both rows: r2 and r3 have the activations of the low nibbles, r4
            // and r5 those of the high ones, 16 elements further on.
            ".irp at, 16, 12, 8, 4",
            "ldrd r2, r3, [r0, #40 - 2 * \\at]",
            "ldrd r4, r5, [r0, #72 - 2 * \\at]",
            "ldr r12, [r1, #-\\at]",
            "ldr lr, [r8, #-\\at]",
            "and r6, r7, r12",
            ".if \\at == 16",
            "smuad r10, r6, r2",
            ".else",
            "smlad r10, r6, r2, r10",
            ".endif",
            "and r6, r7, r12, lsr #8",
            "smlad r10, r6, r3, r10",
            "and r6, r7, r12, lsr #4",
            "smlad r10, r6, r4, r10",
            "and r6, r7, r12, lsr #12",
            "smlad r10, r6, r5, r10",
            "and r6, r7, lr",
            ".if \\at == 16",
            "smuad r11, r6, r2",
            ".else",
            "smlad r11, r6, r2, r11",
            ".endif",
            "and r6, r7, lr, lsr #8",
            "smlad r11, r6, r3, r11",
            "and r6, r7, lr, lsr #4",
            "smlad r11, r6, r4, r11",
            "and r6, r7, lr, lsr #12",
            "smlad r11, r6, r5, r11",
            ".endr",
            "ldr r2, [r0, #4]",
            "adds r0, r0, #72",
            "sub r10, r10, r2, lsl #3",
            "sub r11, r11, r2, lsl #3",
            "vmov s4, s5, r10, r11",
            "vcvt.f32.s32 s4, s4",
            "vcvt.f32.s32 s5, s5",
            "vmul.f32 s4, s2, s4",
            "vmul.f32 s5, s3, s5",
            "vadd.f32 s0, s0, s4",
            "vadd.f32 s1, s1, s5",
            "subs r9, r9, #1",
            "bne 2b",
            // To the next pair: results, rows, count.
            "vmov r2, s19",
            "vmov r3, s18",
            "vmov r4, s20",
            "mov r1, r8",
            "add r8, r8, r3",
            "vstmia r2!, {{s0, s1}}",
            "vmov s19, r2",
            "subs r4, r4, #1",
            "vmov s20, r4",
            "bne 3b",
            "pop {{r6, r7}}",
            inout("r0") x.as_ptr() => _,
            inout("r1") first => _,
            inout("r2") row_bytes => _,
            inout("r3") out => _,
            inout("r4") pairs => _,
            inout("r8") second => _,
            inout("r9") x.len() => _,
            out("r5") _, out("r10") _, out("r11") _, out("r12") _, out("lr") _,
            out("s0") _, out("s1") _, out("s2") _, out("s3") _, out("s4") _, out("s5") _,
            out("s16") _, out("s17") _, out("s18") _, out("s19") _, out("s20") _,
        );
    }
}
