//! Rows of `Q5_0`: 89 instructions for 32 products.
//!
//! As `Q4_0`, with the fifth bits of four elements looked up: as 16 in the halfwords of elements 0
//! and 2, and of 1 and 3. The offset is 16.

use core::arch::asm;

use super::Rows;
use crate::quant::Q8Act;

/// Rows of `Q5_0`.
#[allow(non_camel_case_types)] // ggml's name.
pub(super) struct Q5_0;

/// For four bits the words for elements 0 and 2, and for 1 and 3.
static FIFTH_BITS: [[u32; 2]; 16] = {
    let mut words = [[0; 2]; 16];
    let mut bits: u32 = 0;
    while bits < 16 {
        words[bits as usize] = [
            (bits & 1) << 4 | (bits >> 2 & 1) << 20,
            (bits >> 1 & 1) << 4 | (bits >> 3 & 1) << 20,
        ];
        bits += 1;
    }
    words
};

impl Rows for Q5_0 {
    #[inline(always)]
    unsafe fn multiply(weights: &[u8], x: &[Q8Act], out: &mut [f32]) {
        let row_bytes = weights.len() / out.len();
        for (row, out) in weights.chunks_exact(row_bytes).zip(out) {
            // SAFETY: the instructions are there, and a row has as many blocks as `x`.
            *out = unsafe { multiply(row.as_ptr(), x.as_ptr(), x.len()) };
        }
    }
}

/// The product of one row.
///
/// # Safety
///
/// The DSP instructions and the FPU are there, and `blocks`, at least one, blocks can be read at
/// both pointers.
#[inline(always)]
unsafe fn multiply(row: *const u8, x: *const Q8Act, blocks: usize) -> f32 {
    let product: u32;
    // SAFETY: as for `Q4_0`; the table has an entry for every four bits.
    unsafe {
        asm!(
            ".cpu cortex-m4",
            "push {{r6, r7}}",
            "movs r6, #0",
            "vmov s0, r6",
            "mov r7, #0x000f000f",
            "2:",
            "vldr s4, [r0]",
            "ldrh r12, [r1], #22",
            "vmov s2, r12",
            "vcvtb.f32.f16 s2, s2",
            "vmul.f32 s2, s2, s4",
            // The fifth bits.
            "ldr r10, [r1, #-20]",
            ".irp at, 16, 12, 8, 4",
            "ldrd r2, r3, [r0, #40 - 2 * \\at]",
            "ldr r12, [r1, #-\\at]",
            // Low nibbles.
            "ubfx r6, r10, #16 - \\at, #4",
            "add r6, r8, r6, lsl #3",
            "ldrd r4, r5, [r6]",
            "and r6, r7, r12",
            "orr r4, r4, r6",
            ".if \\at == 16",
            "smuad r11, r4, r2",
            ".else",
            "smlad r11, r4, r2, r11",
            ".endif",
            "and r6, r7, r12, lsr #8",
            "orr r5, r5, r6",
            "smlad r11, r5, r3, r11",
            // High nibbles.
            "ldrd r2, r3, [r0, #72 - 2 * \\at]",
            "ubfx r6, r10, #32 - \\at, #4",
            "add r6, r8, r6, lsl #3",
            "ldrd r4, r5, [r6]",
            "and r6, r7, r12, lsr #4",
            "orr r4, r4, r6",
            "smlad r11, r4, r2, r11",
            "and r6, r7, r12, lsr #12",
            "orr r5, r5, r6",
            "smlad r11, r5, r3, r11",
            ".endr",
            "ldr r2, [r0, #4]",
            "adds r0, r0, #72",
            "sub r11, r11, r2, lsl #4",
            "vmov s4, r11",
            "vcvt.f32.s32 s4, s4",
            "vmul.f32 s4, s2, s4",
            "vadd.f32 s0, s0, s4",
            "subs r9, r9, #1",
            "bne 2b",
            "vmov r11, s0",
            "pop {{r6, r7}}",
            inout("r0") x => _,
            inout("r1") row => _,
            in("r8") &raw const FIFTH_BITS,
            inout("r9") blocks => _,
            out("r2") _, out("r3") _, out("r4") _, out("r5") _,
            out("r10") _, out("r11") product, out("r12") _,
            out("s0") _, out("s2") _, out("s4") _,
            options(readonly),
        );
    }
    f32::from_bits(product)
}
