//! The loops of attention over int8 rows: 74 instructions for a query head and a position.

use core::arch::asm;

use crate::kernels::attention::Q8Rows;
use crate::kernels::cortex_m_attention::{HEAD, Loops, Sums};
use crate::kernels::math::{EXP_CUT, EXP2_POLYNOMIAL, ONE, ROUNDER};

/// The loops.
pub(in crate::kernels) struct Dsp;

impl Loops for Dsp {
    /// 23 instructions a position.
    unsafe fn scores_of_8(q16: &[i16; HEAD], keys: Q8Rows<'_>, dq: f32, scores: &mut [f32]) -> f32 {
        let pair = |low: usize, high: usize| {
            u32::from(q16[low].cast_unsigned()) | u32::from(q16[high].cast_unsigned()) << 16
        };
        let max: u32;
        // SAFETY: a round reads a row of eight bytes and a scale and writes a score, and there are as
        // many rounds as scores. LDR and LDRH take any address; scores are aligned, as VSTM needs it.
        unsafe {
            asm!(
                "vmov s0, r10",
                "vmov s1, r11",
                "2:",
                "ldr r11, [r0], #8",
                "ldr r12, [r0, #-4]",
                "ldrh lr, [r1], #2",
                "vmov s2, lr",
                "sxtb16 lr, r11",
                "smuad r10, lr, r2",
                "sxtb16 r11, r11, ror #8",
                "smlad r10, r11, r3, r10",
                "sxtb16 lr, r12",
                "smlad r10, lr, r4, r10",
                "sxtb16 r12, r12, ror #8",
                "smlad r10, r12, r5, r10",
                "vcvtb.f32.f16 s2, s2",
                "vmov s3, r10",
                "vcvt.f32.s32 s3, s3",
                "vmul.f32 s2, s0, s2",
                "vmul.f32 s3, s3, s2",
                "vcmp.f32 s3, s1",
                "vmrs apsr_nzcv, fpscr",
                // Seldom: a score is larger than all before it. Not so NaN.
                "bgt 4f",
                "3:",
                "vstmia r9!, {{s3}}",
                "subs r8, r8, #1",
                "bne 2b",
                "b 5f",
                "4:",
                "vmov.f32 s1, s3",
                "b 3b",
                "5:",
                "vmov r11, s1",
                inout("r0") keys.qs.as_ptr() => _,
                inout("r1") keys.scales.as_ptr() => _,
                in("r2") pair(0, 2), in("r3") pair(1, 3), in("r4") pair(4, 6), in("r5") pair(5, 7),
                inout("r8") scores.len() => _,
                inout("r9") scores.as_mut_ptr() => _,
                inout("r10") dq.to_bits() => _,
                inout("r11") f32::NEG_INFINITY.to_bits() => max,
                out("r12") _, out("lr") _,
                out("s0") _, out("s1") _, out("s2") _, out("s3") _,
                options(nostack),
            );
        }
        f32::from_bits(max)
    }

    /// 31 instructions a score.
    unsafe fn exp_eights(scores: &mut [f32], scales: &[u16], max: f32, sums: &mut Sums) {
        let [c1, c2, c3, c4, c5] = EXP2_POLYNOMIAL;
        let log2_e = core::f32::consts::LOG2_E;
        let constants = [c1, c2, c3, c4, c5, 1.0, log2_e, ROUNDER, max, EXP_CUT, 0.0];
        // SAFETY: a round reads eight scores and eight scales and writes eight numbers in place of the
        // scores, and there are as many rounds as eights. Scores are aligned, as VLDR and VSTM need it,
        // LDRH takes any address; `constants` and the lanes have eleven and eight numbers.
        unsafe {
            asm!(
                "vldmia r10, {{s16-s26}}",
                "vldmia r11, {{s8-s15}}",
                "ldr r5, [r11, #32]",
                "2:",
                ".irp lane, 8, 9, 10, 11, 12, 13, 14, 15",
                "vldr s0, [r0]",
                "ldrh r8, [r1], #2",
                "vsub.f32 s0, s0, s24",
                "vmov s5, r8",
                "vmul.f32 s2, s0, s22",
                "vcvtb.f32.f16 s5, s5",
                "vadd.f32 s1, s2, s23",
                "vsub.f32 s3, s1, s23",
                "vsub.f32 s2, s2, s3",
                "vmul.f32 s3, s2, s20",
                "vadd.f32 s3, s3, s19",
                "vmul.f32 s3, s2, s3",
                "vadd.f32 s3, s3, s18",
                "vmul.f32 s3, s2, s3",
                "vadd.f32 s3, s3, s17",
                "vmul.f32 s3, s2, s3",
                "vadd.f32 s3, s3, s16",
                "vmul.f32 s3, s2, s3",
                "vadd.f32 s3, s3, s21",
                "vmov r8, r9, s0, s1",
                "add r9, r3, r9, lsl #23",
                "vmov s1, r9",
                "cmp r8, r4",
                "vmul.f32 s3, s3, s1",
                // Seldom: below the cut, or NaN with a sign.
                "bhi 1\\lane\\()f",
                "2\\lane\\():",
                "vadd.f32 s\\lane, s\\lane, s3",
                "vmul.f32 s3, s3, s5",
                "vmov r8, s3",
                "cmp r5, r8, lsl #1",
                // Seldom: larger than all before it.
                "blo 3\\lane\\()f",
                "4\\lane\\():",
                "vstmia r0!, {{s3}}",
                ".endr",
                "subs r2, r2, #1",
                "bne 2b",
                "b 3f",
                ".irp lane, 8, 9, 10, 11, 12, 13, 14, 15",
                "1\\lane\\():",
                "vcmp.f32 s0, s25",
                "vmrs apsr_nzcv, fpscr",
                "it lt",
                "vmovlt.f32 s3, s26",
                "b 2\\lane\\()b",
                "3\\lane\\():",
                "lsl r5, r8, #1",
                "b 4\\lane\\()b",
                ".endr",
                "3:",
                "vstmia r11, {{s8-s15}}",
                "str r5, [r11, #32]",
                inout("r0") scores.as_mut_ptr() => _,
                inout("r1") scales.as_ptr() => _,
                inout("r2") scores.len() / 8 => _,
                in("r3") ONE,
                in("r4") EXP_CUT.to_bits(),
                out("r5") _, out("r8") _, out("r9") _,
                in("r10") constants.as_ptr(),
                in("r11") sums,
                out("s0") _, out("s1") _, out("s2") _, out("s3") _, out("s4") _, out("s5") _,
                out("s8") _, out("s9") _, out("s10") _, out("s11") _, out("s12") _, out("s13") _, out("s14") _, out("s15") _, out("s16") _, out("s17") _, out("s18") _, out("s19") _, out("s20") _, out("s21") _, out("s22") _, out("s23") _, out("s24") _, out("s25") _, out("s26") _,
                options(nostack),
            );
        }
    }

    /// 4.25 instructions a number.
    unsafe fn round(x: &[f32], reciprocal: f32, out: &mut [i16]) {
        // SAFETY: a round reads eight numbers and writes eight, and there are as many rounds as eights.
        // Numbers are aligned, as VLDM needs it, STR takes any address. The lower half of 1.5 · 2^23 + n
        // is n.
        unsafe {
            asm!(
                "vmov s8, r3",
                "vmov s9, r4",
                "2:",
                "vldmia r0!, {{s0-s7}}",
                ".irp at, 0, 1, 2, 3, 4, 5, 6, 7",
                "vmul.f32 s\\at, s\\at, s8",
                ".endr",
                ".irp at, 0, 1, 2, 3, 4, 5, 6, 7",
                "vadd.f32 s\\at, s\\at, s9",
                ".endr",
                "vmov r3, r4, s0, s1",
                "vmov r5, r8, s2, s3",
                "pkhbt r3, r3, r4, lsl #16",
                "pkhbt r5, r5, r8, lsl #16",
                "str r3, [r1], #4",
                "str r5, [r1], #4",
                "vmov r3, r4, s4, s5",
                "vmov r5, r8, s6, s7",
                "pkhbt r3, r3, r4, lsl #16",
                "pkhbt r5, r5, r8, lsl #16",
                "str r3, [r1], #4",
                "str r5, [r1], #4",
                "subs r2, r2, #1",
                "bne 2b",
                inout("r0") x.as_ptr() => _,
                inout("r1") out.as_mut_ptr() => _,
                inout("r2") out.len() / 8 => _,
                inout("r3") reciprocal.to_bits() => _,
                inout("r4") ROUNDER.to_bits() => _,
                out("r5") _, out("r8") _,
                out("s0") _, out("s1") _, out("s2") _, out("s3") _, out("s4") _,
                out("s5") _, out("s6") _, out("s7") _, out("s8") _, out("s9") _,
                options(nostack),
            );
        }
    }

    /// 15.5 instructions a position.
    unsafe fn sum_of_8(c: &[i16], values: &[i8]) -> [i32; HEAD] {
        let mut sum = [0; HEAD];
        if c.len() > 1 {
            // SAFETY: there are as many rows as elements of `c`.
            sum = unsafe { sum_pairs(c, values) };
        }
        let (rows, _) = values.as_chunks::<HEAD>();
        if let (1, Some(row), Some(&c)) = (c.len() % 2, rows.last(), c.last()) {
            for (sum, &v) in sum.iter_mut().zip(row) {
                *sum += i32::from(c) * i32::from(v);
            }
        }
        sum
    }
}

/// `sum(c[i] * values[i])` over pairs of rows; a last row alone is left out.
///
/// # Safety
///
/// The DSP instructions are there, `c` has two elements or more, at most 512, and
/// there are as many rows of eight values.
unsafe fn sum_pairs(c: &[i16], values: &[i8]) -> [i32; HEAD] {
    let mut sum = [0; HEAD];
    // SAFETY: a round reads two elements of `c` and two rows of eight bytes, and there are half as
    // many rounds as elements. LDR takes any address. r6 and r7 are given back as they were found,
    // and the stack is balanced.
    unsafe {
        asm!(
            "push {{r6, r7}}",
            "2:",
            "ldr r7, [r1], #4",
            ".irp half, b, t",
            "ldr lr, [r0], #8",
            "sxtb16 r6, lr",
            "smlab\\half r3, r6, r7, r3",
            "smlat\\half r5, r6, r7, r5",
            "sxtb16 r6, lr, ror #8",
            "ldr lr, [r0, #-4]",
            "smlab\\half r4, r6, r7, r4",
            "smlat\\half r8, r6, r7, r8",
            "sxtb16 r6, lr",
            "smlab\\half r9, r6, r7, r9",
            "smlat\\half r11, r6, r7, r11",
            "sxtb16 r6, lr, ror #8",
            "smlab\\half r10, r6, r7, r10",
            "smlat\\half r12, r6, r7, r12",
            ".endr",
            "subs r2, r2, #1",
            "bne 2b",
            "pop {{r6, r7}}",
            inout("r0") values.as_ptr() => _,
            inout("r1") c.as_ptr() => _,
            inout("r2") c.len() / 2 => _,
            inout("r3") 0 => sum[0],
            inout("r4") 0 => sum[1],
            inout("r5") 0 => sum[2],
            inout("r8") 0 => sum[3],
            inout("r9") 0 => sum[4],
            inout("r10") 0 => sum[5],
            inout("r11") 0 => sum[6],
            inout("r12") 0 => sum[7],
            out("lr") _,
            options(readonly),
        );
    }
    sum
}
