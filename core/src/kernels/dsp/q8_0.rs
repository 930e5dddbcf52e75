//! Two rows of `Q8_0`: 102 instructions for 64 products.

use core::arch::asm;

use super::RowPair;
use crate::quant::Q8Act;

/// Rows of `Q8_0`.
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
        // SAFETY: a round reads one block at each of the three pointers and moves them on to the
        // next, and there are as many rounds as blocks. Words of weights are unaligned, which LDR
        // and LDRH allow; those of activations are aligned, as LDM needs it. r6 is given back as it
        // was found, the stack is balanced, and all other registers are named.
        unsafe {
            asm!(
                "push {{r6, r7}}",
                "movs r6, #0",
                "vmov s0, r6",
                "vmov s1, r6",
                "2:",
                // Scale and sum of the activations, scales of the weights, their products.
                "ldm r0!, {{r2, r3}}",
                "ldrh r12, [r1], #34",
                "ldrh lr, [r8], #34",
                "vmov s4, r2",
                "vmov s2, s3, r12, lr",
                "vcvtb.f32.f16 s2, s2",
                "vcvtb.f32.f16 s3, s3",
                "vmul.f32 s2, s2, s4",
                "vmul.f32 s3, s3, s4",
                // Eight elements of both rows: r2 to r5 have the activations 0 and 2, 1 and 3, ….
                ".irp at, 32, 24, 16, 8",
                "ldm r0!, {{r2-r5}}",
                "ldr r12, [r1, #-\\at]",
                "ldr lr, [r8, #-\\at]",
                "sxtb16 r6, r12",
                "sxtb16 r7, lr",
                ".if \\at == 32",
                "smuad r10, r6, r2",
                "smuad r11, r7, r2",
                ".else",
                "smlad r10, r6, r2, r10",
                "smlad r11, r7, r2, r11",
                ".endif",
                "sxtb16 r12, r12, ror #8",
                "sxtb16 lr, lr, ror #8",
                "smlad r10, r12, r3, r10",
                "smlad r11, lr, r3, r11",
                "ldr r12, [r1, #4 - \\at]",
                "ldr lr, [r8, #4 - \\at]",
                "sxtb16 r6, r12",
                "sxtb16 r7, lr",
                "smlad r10, r6, r4, r10",
                "smlad r11, r7, r4, r11",
                "sxtb16 r12, r12, ror #8",
                "sxtb16 lr, lr, ror #8",
                "smlad r10, r12, r5, r10",
                "smlad r11, lr, r5, r11",
                ".endr",
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
