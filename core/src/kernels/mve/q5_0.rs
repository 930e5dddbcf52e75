//! Two rows of `Q5_0`: 49 instructions for 64 products.
//!
//! As `Q4_0`, with the word of fifth bits as a predicate: where a bit is set, so is 16. The offset
//! is 16.

use core::arch::asm;

use crate::quant::Q8Act;

/// The products of `pairs` pairs of rows, see [`Pairs`](super::Pairs).
///
/// # Safety
///
/// Helium and the FPU are there, `x` has at least one block and `pairs` is not 0. The rows of the
/// first pair begin at `first` and `second`, for more than one pair `row_bytes` apart, the others
/// follow, and `out` has room for all products.
#[inline(never)] // One copy, for pairs and for a last row alone.
pub(super) unsafe fn multiply(
    first: *const u8,
    second: *const u8,
    row_bytes: usize,
    x: &[Q8Act],
    pairs: usize,
    out: *mut f32,
) {
    // SAFETY: as for `Q8_0`.
    unsafe {
        asm!(
            "push {{r6, r7}}",
            // The low nibbles, and the fifth bits.
            "vmov.i8 q6, #15",
            "vmov.i8 q7, #16",
            "3:",
            "movs r6, #0",
            "mov r11, r0",
            "vmov s16, s17, r6, r6",
            "dls lr, r9",
            "2:",
            // Scales of the weights and of the activations, their products.
            "ldrh r6, [r1], #22",
            "ldrh r7, [r8], #22",
            "vldr s22, [r11]",
            "vmov s18, s19, r6, r7",
            "vldrb.u8 q0, [r11, #8]",
            "vcvtb.f32.f16 s18, s18",
            "vldrb.u8 q1, [r11, #24]",
            "vcvtb.f32.f16 s19, s19",
            "vmul.f32 s18, s18, s22",
            "vmul.f32 s19, s19, s22",
            "ldr r5, [r1, #-20]",
            "vldrb.u8 q2, [r1, #-16]",
            "vmsr p0, r5",
            "vand q3, q2, q6",
            "vpst",
            "vorrt q3, q3, q7",
            "vmladav.s8 r10, q0, q3",
            "lsrs r5, r5, #16",
            "vshr.u8 q2, q2, #4",
            "vmsr p0, r5",
            "vpst",
            "vorrt q2, q2, q7",
            "vmladava.s8 r10, q1, q2",
            "ldr r5, [r8, #-20]",
            "vldrb.u8 q2, [r8, #-16]",
            "vmsr p0, r5",
            "vand q3, q2, q6",
            "vpst",
            "vorrt q3, q3, q7",
            "vmladav.s8 r12, q0, q3",
            "lsrs r5, r5, #16",
            "vshr.u8 q2, q2, #4",
            "vmsr p0, r5",
            "vpst",
            "vorrt q2, q2, q7",
            "vmladava.s8 r12, q1, q2",
            "ldr r5, [r11, #4]",
            "sub r10, r10, r5, lsl #4",
            "sub r12, r12, r5, lsl #4",
            "adds r11, r11, #40",
            "vmov s20, s21, r10, r12",
            "vcvt.f32.s32 s20, s20",
            "vcvt.f32.s32 s21, s21",
            "vmul.f32 s20, s18, s20",
            "vmul.f32 s21, s19, s21",
            "vadd.f32 s16, s16, s20",
            "vadd.f32 s17, s17, s21",
            "le lr, 2b",
            // To the next pair: results, rows, count.
            "vstmia r3!, {{s16, s17}}",
            "mov r1, r8",
            "add r8, r8, r2",
            "subs r4, r4, #1",
            "bne 3b",
            "pop {{r6, r7}}",
            in("r0") x.as_ptr(),
            inout("r1") first => _,
            in("r2") row_bytes,
            inout("r3") out => _,
            inout("r4") pairs => _,
            out("r5") _,
            inout("r8") second => _,
            in("r9") x.len(),
            out("r10") _, out("r11") _, out("r12") _, out("lr") _,
            out("s0") _, out("s1") _, out("s2") _, out("s3") _, out("s4") _, out("s5") _, out("s6") _, out("s7") _,
            out("s8") _, out("s9") _, out("s10") _, out("s11") _, out("s12") _, out("s13") _, out("s14") _, out("s15") _,
            out("s16") _, out("s17") _, out("s18") _, out("s19") _, out("s20") _, out("s21") _, out("s22") _, out("s23") _,
            out("s24") _, out("s25") _, out("s26") _, out("s27") _,
            out("s28") _, out("s29") _, out("s30") _, out("s31") _,
        );
    }
}
