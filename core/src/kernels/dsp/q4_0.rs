//! Two rows of `Q4_0`: 105 instructions for 64 products.
//!
//! The offset of 8 is taken off at the end of a block: `sum((q - 8) * x) = sum(q * x) - 8 * sum(x)`.

use core::arch::asm;

use super::RowPair;
use crate::quant::Q8Act;

/// Rows of `Q4_0`.
pub(super) struct Pair;

impl RowPair for Pair {
    #[inline(always)]
    unsafe fn multiply(
        first: *const u8,
        second: *const u8,
        x: *const Q8Act,
        blocks: usize,
    ) -> [f32; 2] {
        let (a, b): (u32, u32);
        // SAFETY: as for `Q8_0`, with LDRD in place of LDM; r6 and r7 are given back as they were
        // found.
        unsafe {
            asm!(
                "push {{r6, r7}}",
                "movs r6, #0",
                "vmov s0, r6",
                "vmov s1, r6",
                // The low nibbles of bytes 0 and 2.
                "mov r7, #0x000f000f",
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
                "vmov r10, r11, s0, s1",
                "pop {{r6, r7}}",
                inout("r0") x => _,
                inout("r1") first => _,
                inout("r8") second => _,
                inout("r9") blocks => _,
                out("r2") _, out("r3") _, out("r4") _, out("r5") _,
                out("r10") a, out("r11") b, out("r12") _, out("lr") _,
                out("s0") _, out("s1") _, out("s2") _, out("s3") _, out("s4") _, out("s5") _,
                options(readonly),
            );
        }
        [f32::from_bits(a), f32::from_bits(b)]
    }
}
