//! The loops of attention over int8 rows: about 21 instructions for a query head and a position.
//!
//! Floating-point numbers in vectors, and why that subnormal ones are flushed changes no bit:
//! - Scores are used only for their differences from the largest, in [`exp_eights`]. A score that is
//!   flushed is below 2^-126 · 2^31; a difference that changes by as little is so small that
//!   e^difference is 1, or does not change.
//! - There, what is small is added to a coefficient, beside which it vanishes, flushed or not; powers
//!   of two are from 2^-58 on, and so are the results, times f16 scales that are 2^-24 or more, or 0.
//! - In [`round`], what is flushed becomes 0 in any case.
//!
//! [`exp_eights`]: Loops::exp_eights
//! [`round`]: Loops::round

use core::arch::asm;

use crate::kernels::attention::Q8Rows;
use crate::kernels::cortex_m_attention::{HEAD, Loops, Sums};
use crate::kernels::math::{EXP_CUT, EXP2_POLYNOMIAL, ONE, ROUNDER};

/// The loops.
pub(in crate::kernels) struct Mve;

impl Loops for Mve {
    /// 6.75 instructions a position.
    unsafe fn scores_of_8(q16: &[i16; HEAD], keys: Q8Rows<'_>, dq: f32, scores: &mut [f32]) -> f32 {
        let mut largest = [f32::NEG_INFINITY; 4];
        // SAFETY: the first loop reads a row of eight bytes and writes a word a round, and there are
        // as many rounds as scores. The second handles as many words and scales; what is beyond the
        // last is predicated off. `largest` has four numbers. Bytes and halfwords are loaded from
        // any address, words are aligned.
        unsafe {
            asm!(
                ".arch_extension mve.fp",
                "vldrh.u16 q1, [r2]",
                "mov r8, r3",
                "dls lr, r4",
                "2:",
                "vldrb.s16 q0, [r0], #8",
                "vmladav.s16 r10, q0, q1",
                "str r10, [r8], #4",
                "le lr, 2b",
                "vldrw.u32 q3, [r9]",
                "dlstp.32 lr, r4",
                "3:",
                "vldrw.u32 q0, [r3]",
                "vldrh.u32 q2, [r1], #8",
                "vcvt.f32.s32 q0, q0",
                "vcvtb.f32.f16 q2, q2",
                "vmul.f32 q2, q2, r5",
                "vmul.f32 q0, q0, q2",
                // Not so NaN.
                "vcmp.f32 gt, q0, q3",
                "vpst",
                "vorrt q3, q0, q0",
                "vstrw.32 q0, [r3], #16",
                "letp lr, 3b",
                "vstrw.32 q3, [r9]",
                inout("r0") keys.qs.as_ptr() => _,
                inout("r1") keys.scales.as_ptr() => _,
                in("r2") q16.as_ptr(),
                inout("r3") scores.as_mut_ptr() => _,
                in("r4") scores.len(),
                in("r5") dq.to_bits(),
                out("r8") _,
                in("r9") largest.as_mut_ptr(),
                out("r10") _, out("lr") _,
                out("s0") _, out("s1") _, out("s2") _, out("s3") _, out("s4") _, out("s5") _,
                out("s6") _, out("s7") _, out("s8") _, out("s9") _, out("s10") _, out("s11") _,
                out("s12") _, out("s13") _, out("s14") _, out("s15") _,
                options(nostack),
            );
        }
        let larger = |a: f32, b: f32| if b > a { b } else { a };
        largest.into_iter().fold(f32::NEG_INFINITY, larger)
    }

    /// 7.5 instructions a score.
    unsafe fn exp_eights(scores: &mut [f32], scales: &[u16], max: f32, sums: &mut Sums) {
        let [c1, c2, c3, c4, c5] = EXP2_POLYNOMIAL;
        let log2_e = core::f32::consts::LOG2_E;
        let one = f32::from_bits(ONE);
        let constants = [c1, c2, c3, c4, EXP_CUT, c5, one, log2_e, ROUNDER, max];
        let amax: u32;
        // SAFETY: a round reads eight scores and eight scales and writes eight numbers in place of
        // the scores, and there are as many rounds as eights. Halfwords are loaded from any address,
        // words are aligned. `constants` has ten numbers, the lanes are eight. r6
        // and r7 are given back as they were found, and the stack is balanced.
        unsafe {
            asm!(
                ".arch_extension mve.fp",
                "push {{r6, r7}}",
                "mov r7, r2",
                "dls lr, r3",
                "vldrw.u32 q6, [r7]",
                "vldrw.u32 q7, [r7, #16]",
                "vmov.i32 q5, #0",
                "ldr r12, [r4, #36]",
                "ldm r4, {{r2, r3, r4, r5, r6, r8, r9, r10, r11}}",
                "2:",
                ".irp lanes, q6, q7",
                "vldrw.u32 q0, [r0]",
                "vldrh.u32 q1, [r1], #8",
                "vsub.f32 q0, q0, r12",
                "vcvtb.f32.f16 q1, q1",
                "vmul.f32 q2, q0, r10",
                "vadd.f32 q3, q2, r11",
                "vsub.f32 q4, q3, r11",
                "vsub.f32 q2, q2, q4",
                "vmul.f32 q4, q2, r8",
                "vadd.f32 q4, q4, r5",
                "vmul.f32 q4, q4, q2",
                "vadd.f32 q4, q4, r4",
                "vmul.f32 q4, q4, q2",
                "vadd.f32 q4, q4, r3",
                "vmul.f32 q4, q4, q2",
                "vadd.f32 q4, q4, r2",
                "vmul.f32 q4, q4, q2",
                "vadd.f32 q4, q4, r9",
                "vshl.i32 q3, q3, #23",
                "vadd.i32 q3, q3, r9",
                "vmul.f32 q4, q4, q3",
                // Not so NaN.
                "vcmp.f32 lt, q0, r6",
                "vpst",
                "veort q4, q4, q4",
                "vadd.f32 \\lanes, \\lanes, q4",
                "vmul.f32 q4, q4, q1",
                // Without the sign, which is shifted out.
                "vshl.i32 q3, q4, #1",
                "vmax.u32 q5, q5, q3",
                "vstrw.32 q4, [r0], #16",
                ".endr",
                "le lr, 2b",
                "vstrw.32 q6, [r7]",
                "vstrw.32 q7, [r7, #16]",
                "movs r6, #0",
                "vmaxv.u32 r6, q5",
                "mov r2, r6",
                "pop {{r6, r7}}",
                inout("r0") scores.as_mut_ptr() => _,
                inout("r1") scales.as_ptr() => _,
                inout("r2") sums.lanes.as_mut_ptr() => amax,
                inout("r3") scores.len() / 8 => _,
                inout("r4") constants.as_ptr() => _,
                out("r5") _, out("r8") _, out("r9") _, out("r10") _, out("r11") _, out("r12") _,
                out("lr") _,
                out("s0") _, out("s1") _, out("s2") _, out("s3") _, out("s4") _, out("s5") _,
                out("s6") _, out("s7") _, out("s8") _, out("s9") _, out("s10") _, out("s11") _,
                out("s12") _, out("s13") _, out("s14") _, out("s15") _, out("s16") _, out("s17") _,
                out("s18") _, out("s19") _, out("s20") _, out("s21") _, out("s22") _, out("s23") _,
                out("s24") _, out("s25") _, out("s26") _, out("s27") _, out("s28") _, out("s29") _,
                out("s30") _, out("s31") _,
            );
        }
        sums.amax = sums.amax.max(amax);
    }

    /// 1.25 instructions a number.
    unsafe fn round(x: &[f32], reciprocal: f32, out: &mut [i16]) {
        // SAFETY: a round reads four numbers and writes four halfwords, and there are as many rounds
        // as fours. The lower half of 1.5 · 2^23 + n is n.
        unsafe {
            asm!(
                ".arch_extension mve.fp",
                "dls lr, r2",
                "2:",
                "vldrw.u32 q0, [r0], #16",
                "vmul.f32 q0, q0, r3",
                "vadd.f32 q0, q0, r4",
                "vstrh.32 q0, [r1], #8",
                "le lr, 2b",
                inout("r0") x.as_ptr() => _,
                inout("r1") out.as_mut_ptr() => _,
                in("r2") out.len() / 4,
                in("r3") reciprocal.to_bits(),
                in("r4") ROUNDER.to_bits(),
                out("lr") _,
                out("s0") _, out("s1") _, out("s2") _, out("s3") _,
                options(nostack),
            );
        }
    }

    /// 6 instructions a position.
    unsafe fn sum_of_8(c: &[i16], values: &[i8]) -> [i32; HEAD] {
        let mut sum = [0; HEAD];
        // SAFETY: a round reads an element of `c` and a row of eight bytes, and there are as many
        // rounds as elements. Bytes are loaded from any address; `sum` has two times four words.
        unsafe {
            asm!(
                "vmov.i32 q0, #0",
                "vmov.i32 q1, #0",
                "dls lr, r2",
                "2:",
                "ldrsh r4, [r1], #2",
                "vldrb.s32 q2, [r0], #4",
                "vldrb.s32 q3, [r0], #4",
                "vmla.i32 q0, q2, r4",
                "vmla.i32 q1, q3, r4",
                "le lr, 2b",
                "vstrw.32 q0, [r3]",
                "vstrw.32 q1, [r3, #16]",
                inout("r0") values.as_ptr() => _,
                inout("r1") c.as_ptr() => _,
                in("r2") c.len(),
                in("r3") sum.as_mut_ptr(),
                out("r4") _, out("lr") _,
                out("s0") _, out("s1") _, out("s2") _, out("s3") _, out("s4") _, out("s5") _,
                out("s6") _, out("s7") _, out("s8") _, out("s9") _, out("s10") _, out("s11") _,
                out("s12") _, out("s13") _, out("s14") _, out("s15") _,
                options(nostack),
            );
        }
        sum
    }
}
