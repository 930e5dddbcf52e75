//! The loops of attention over int8 rows: 42 instructions for a query head and a position.

use core::arch::asm;

use crate::kernels::attention::EXP2_FIXED;
use crate::kernels::cortex_m_attention::{HEAD, Loops};
use crate::kernels::math::ROUNDER;

/// The loops, which take two positions at a time. An odd last one is taken twice, or with nothing.
pub(in crate::kernels) struct Dsp;

impl Loops for Dsp {
    /// 2 instructions a scale.
    unsafe fn largest_scale(scales: &[u16]) -> u16 {
        let (fours, rest) = scales.as_chunks::<4>();
        let mut both = 0_u32;
        if !fours.is_empty() {
            // SAFETY: a round reads four scales, by words, which LDR takes from any address, and
            // there are as many rounds as fours.
            unsafe {
                asm!(
                    ".cpu cortex-m4",
                    "2:",
                    "ldr r3, [r0], #8",
                    "ldr r4, [r0, #-4]",
                    "usub16 r5, r3, r2",
                    "sel r2, r3, r2",
                    "usub16 r5, r4, r2",
                    "sel r2, r4, r2",
                    "subs r1, r1, #1",
                    "bne 2b",
                    inout("r0") fours.as_ptr() => _,
                    inout("r1") fours.len() => _,
                    inout("r2") both,
                    out("r3") _, out("r4") _, out("r5") _,
                    options(readonly, nostack),
                );
            }
        }
        #[allow(clippy::cast_possible_truncation)] // Two halves.
        let [low, high] = [both as u16, (both >> 16) as u16];
        rest.iter().copied().fold(low.max(high), u16::max)
    }

    /// 8.25 instructions a product.
    unsafe fn products_of_8(q16: &[i16; 2 * HEAD], keys: &[i8], products: &mut [[i32; 2]]) {
        let (pairs, last) = products.as_chunks_mut::<2>();
        // SAFETY: there are as many rows as places.
        unsafe {
            if !pairs.is_empty() {
                products_of_pairs(q16, keys.as_ptr(), pairs);
            }
            if let ([last], [.., row]) = (last, keys.as_chunks::<HEAD>().0) {
                let mut both = [[[0; 2]; 2]];
                let rows = [*row; 2];
                products_of_pairs(q16, rows.as_flattened().as_ptr(), &mut both);
                [[*last, _]] = both;
            }
        }
    }

    /// 8 instructions a score.
    unsafe fn scores(products: &mut [[i32; 2]], scales: &[u16], k: [f32; 2]) -> [i32; 2] {
        let mut most = 0x8000_8000;
        let (pairs, last) = products.as_chunks_mut::<2>();
        // SAFETY: there are as many scales as products.
        unsafe {
            if !pairs.is_empty() {
                most = scores_of_pairs(pairs, scales.as_ptr(), k, most);
            }
            if let ([last], [.., scale]) = (last, scales) {
                let mut both = [[*last; 2]];
                let scales = [*scale; 2];
                most = scores_of_pairs(&mut both, scales.as_ptr(), k, most);
                [[*last, _]] = both;
            }
        }
        let most = most.cast_signed();
        [(most << 16) >> 16, most >> 16]
    }

    /// 14.25 instructions a score.
    unsafe fn weigh(
        scores: &mut [[i32; 2]],
        scales: &[u16],
        reciprocal: f32,
        most: [i32; 2],
    ) -> [u32; 2] {
        let mut sums = [0; 2];
        let (scale_pairs, last) = scales.as_chunks::<2>();
        let (pairs, rest) = scores
            .as_chunks_mut::<2>()
            .0
            .split_at_mut(scale_pairs.len());
        // SAFETY: there are as many pairs of both, and if a scale is left so is a pair of scores.
        unsafe {
            if !pairs.is_empty() {
                weigh_pairs(pairs, scale_pairs.as_ptr(), reciprocal, most, &mut sums);
            }
            if let ([scale], [pair, ..]) = (last, rest) {
                let scales = [[*scale, 0]];
                let pairs = core::slice::from_mut(pair);
                weigh_pairs(pairs, scales.as_ptr(), reciprocal, most, &mut sums);
            }
        }
        sums
    }

    /// The first two words of a pair of positions are the weights of the first and the second
    /// head, for both positions.
    fn weight(weights: &[[i32; 2]], position: usize, head: usize) -> i16 {
        let both = weights.get(position & !1).map_or(0, |both| both[head & 1]);
        #[allow(clippy::cast_possible_truncation)] // The half that is meant.
        {
            (both >> (16 * (position & 1))) as i16
        }
    }

    /// 11 instructions a weight.
    unsafe fn sums_of_8(weights: &[[i32; 2]], values: &[i8]) -> [[i32; HEAD]; 2] {
        let mut sums = [[0; HEAD]; 2];
        let (pairs, last) = values.as_chunks::<{ 2 * HEAD }>();
        let (weights, _) = weights.as_chunks::<2>();
        for half in [0, 4] {
            // SAFETY: there are as many pairs of weights as of rows, and one for a row that is left;
            // the halves of a row begin with its first and its fifth byte.
            unsafe {
                if !pairs.is_empty() {
                    let values = pairs.as_ptr().cast::<i8>().add(half);
                    sum_pairs(weights.as_ptr(), values, pairs.len(), half, &mut sums);
                }
                if let (Some(weights), Ok(row)) =
                    (weights.get(pairs.len()), <&[i8; HEAD]>::try_from(last))
                {
                    let rows = [*row, [0; HEAD]];
                    let values = rows.as_flattened().as_ptr().add(half);
                    sum_pairs(weights, values, 1, half, &mut sums);
                }
            }
        }
        sums
    }
}

/// Products of two queries with pairs of keys.
///
/// # Safety
///
/// The DSP instructions are there; `keys` has a pair of rows of eight for each of `products`, of
/// which there is at least one.
unsafe fn products_of_pairs(
    q16: &[i16; 2 * HEAD],
    keys: *const i8,
    products: &mut [[[i32; 2]; 2]],
) {
    let pair = |low: usize, high: usize| {
        u32::from(q16[low].cast_unsigned()) | u32::from(q16[high].cast_unsigned()) << 16
    };
    // SAFETY: a round reads two rows of eight bytes and writes four words, and the rounds end behind
    // the last row. LDR takes any address, words that are written are aligned, as STRD needs it. r6
    // and r7 are given back as they were found, and the stack is balanced.
    unsafe {
        asm!(
            ".cpu cortex-m4",
            "push {{r6, r7}}",
            "vmov s0, r12",
            "2:",
            ".rept 2",
            "ldr r6, [r0], #8",
            "sxtb16 r7, r6",
            "smuad r12, r7, r2",
            "smuad lr, r7, r8",
            "sxtb16 r6, r6, ror #8",
            "smlad r12, r6, r3, r12",
            "smlad lr, r6, r9, lr",
            "ldr r6, [r0, #-4]",
            "sxtb16 r7, r6",
            "smlad r12, r7, r4, r12",
            "smlad lr, r7, r10, lr",
            "sxtb16 r6, r6, ror #8",
            "smlad r12, r6, r5, r12",
            "smlad lr, r6, r11, lr",
            "strd r12, lr, [r1], #8",
            ".endr",
            "vmov r6, s0",
            "cmp r0, r6",
            "bne 2b",
            "pop {{r6, r7}}",
            inout("r0") keys => _,
            inout("r1") products.as_mut_ptr() => _,
            in("r2") pair(0, 2), in("r3") pair(1, 3), in("r4") pair(4, 6), in("r5") pair(5, 7),
            in("r8") pair(8, 10), in("r9") pair(9, 11), in("r10") pair(12, 14), in("r11") pair(13, 15),
            inout("r12") keys.wrapping_add(2 * HEAD * products.len()) => _,
            out("lr") _,
            out("s0") _,
        );
    }
}

/// Products become scores. `most` has the integer parts of the largest in its halves; the answer
/// are those with these scores.
///
/// # Safety
///
/// The DSP instructions and the FPU are there; there are as many pairs of scales as of products, at
/// least one.
#[inline(never)] // Two places call it.
unsafe fn scores_of_pairs(
    products: &mut [[[i32; 2]; 2]],
    scales: *const u16,
    k: [f32; 2],
    mut most: u32,
) -> u32 {
    // SAFETY: a round reads two scales, as a word, which LDR takes from any address, and four words,
    // which are aligned, as VLDM and VSTM need it, and writes these. There are as many rounds as
    // pairs.
    unsafe {
        asm!(
            ".cpu cortex-m4",
            "vmov s0, s1, r3, r4",
            "2:",
            "ldr r3, [r1], #4",
            "vldmia r0, {{s4-s7}}",
            "vmov s2, r3",
            "vcvtt.f32.f16 s3, s2",
            "vcvtb.f32.f16 s2, s2",
            "vcvt.f32.s32 s4, s4",
            "vcvt.f32.s32 s5, s5",
            "vcvt.f32.s32 s6, s6",
            "vcvt.f32.s32 s7, s7",
            "vmul.f32 s8, s0, s2",
            "vmul.f32 s9, s1, s2",
            "vmul.f32 s10, s0, s3",
            "vmul.f32 s11, s1, s3",
            "vmul.f32 s4, s4, s8",
            "vmul.f32 s5, s5, s9",
            "vmul.f32 s6, s6, s10",
            "vmul.f32 s7, s7, s11",
            "vcvt.s32.f32 s4, s4",
            "vcvt.s32.f32 s5, s5",
            "vcvt.s32.f32 s6, s6",
            "vcvt.s32.f32 s7, s7",
            "vmov r3, r4, s4, s5",
            "vmov r8, r9, s6, s7",
            "vstmia r0!, {{s4-s7}}",
            // The upper halves of both heads, and of each the larger.
            "pkhtb r4, r4, r3, asr #16",
            "pkhtb r9, r9, r8, asr #16",
            "ssub16 r3, r4, r5",
            "sel r5, r4, r5",
            "ssub16 r3, r9, r5",
            "sel r5, r9, r5",
            "subs r2, r2, #1",
            "bne 2b",
            inout("r0") products.as_mut_ptr() => _,
            inout("r1") scales => _,
            inout("r2") products.len() => _,
            inout("r3") k[0].to_bits() => _,
            inout("r4") k[1].to_bits() => _,
            inout("r5") most,
            out("r8") _, out("r9") _,
            out("s0") _, out("s1") _, out("s2") _, out("s3") _, out("s4") _, out("s5") _,
            out("s6") _, out("s7") _, out("s8") _, out("s9") _, out("s10") _, out("s11") _,
            options(nostack),
        );
    }
    most
}

/// Scores become weights times the scales of the values: of each four words the first two, for the
/// first and the second head, have the weights of two positions. Adds the weights to `sums`.
///
/// # Safety
///
/// The DSP instructions and the FPU are there; there are as many pairs of scales as of scores, at
/// least one.
unsafe fn weigh_pairs(
    scores: &mut [[[i32; 2]; 2]],
    scales: *const [u16; 2],
    reciprocal: f32,
    most: [i32; 2],
    sums: &mut [u32; 2],
) {
    let [c1, c2, c3] = EXP2_FIXED.map(i32::from);
    // A shift is the integer part of this less the score.
    let [from_0, from_1] = most.map(|most| (most << 16) + 0x1_7fff);
    let constants = [reciprocal, ROUNDER];
    // SAFETY: a round reads two scales, as a word, which LDR takes from any address, and four words,
    // of which it writes two, and the rounds end behind the last. `constants` has two numbers. r6 and
    // r7 are given back as they were found, and the stack is balanced. The lower half of
    // 1.5 · 2^23 + n is n.
    unsafe {
        asm!(
            ".cpu cortex-m4",
            "push {{r6, r7}}",
            "vldmia r12, {{s0, s1}}",
            "vmov s2, lr",
            "2:",
            // The scales as integers, in the halves of lr.
            "ldr r6, [r1], #4",
            "vmov s3, r6",
            "vcvtt.f32.f16 s4, s3",
            "vcvtb.f32.f16 s3, s3",
            "vmul.f32 s3, s3, s0",
            "vmul.f32 s4, s4, s0",
            "vadd.f32 s3, s3, s1",
            "vadd.f32 s4, s4, s1",
            "vmov r6, r7, s3, s4",
            "pkhbt lr, r6, r7, lsl #16",
            "ldr r6, [r0], #16",
            ".macro weigh most, sum, to, half",
            "smlawb r7, r2, r6, r3",
            "smlawb r7, r7, r6, r4",
            "smlawb r7, r7, r6, r5",
            "qsub r6, \\most, r6",
            "usat r6, #8, r6, asr #16",
            "lsr r7, r7, r6",
            "add \\sum, \\sum, r7",
            "smlab\\half \\to, r7, lr, r5",
            "smlab\\half \\to, r7, lr, \\to",
            ".endm",
            "weigh r8, r10, r12, b",
            "ldr r6, [r0, #-8]",
            "weigh r8, r10, r6, t",
            "pkhtb r7, r6, r12, asr #16",
            "ldr r6, [r0, #-12]",
            "str r7, [r0, #-16]",
            "weigh r9, r11, r12, b",
            "ldr r6, [r0, #-4]",
            "weigh r9, r11, r6, t",
            ".purgem weigh",
            "pkhtb r7, r6, r12, asr #16",
            "vmov r6, s2",
            "str r7, [r0, #-12]",
            "cmp r0, r6",
            "bne 2b",
            "pop {{r6, r7}}",
            inout("r0") scores.as_mut_ptr() => _,
            inout("r1") scales => _,
            in("r2") c3, in("r3") c2, in("r4") c1, in("r5") 0x8000,
            in("r8") from_0, in("r9") from_1,
            inout("r10") sums[0], inout("r11") sums[1],
            inout("r12") constants.as_ptr() => _,
            inout("lr") scores.as_mut_ptr_range().end => _,
            out("s0") _, out("s1") _, out("s2") _, out("s3") _, out("s4") _,
        );
    }
}

/// Adds to `sums[..][half..half + 4]` the products of pairs of weights with four bytes of pairs of
/// rows.
///
/// # Safety
///
/// The DSP instructions are there; `weights` and `values` have `pairs` pairs, at least one, and a
/// row has eight bytes, of which four begin where `values` points to. `half` is 0 or 4.
unsafe fn sum_pairs(
    weights: *const [[i32; 2]; 2],
    values: *const i8,
    pairs: usize,
    half: usize,
    sums: &mut [[i32; HEAD]; 2],
) {
    let [first, second] = sums;
    let (first, second) = (&mut first[half..half + 4], &mut second[half..half + 4]);
    // SAFETY: a round reads four bytes of two rows, which LDR takes from any address, and two words
    // of weights, which are aligned, as LDRD needs it, and the rounds end behind the last row. r6 and
    // r7 are given back as they were found, and the stack is balanced.
    unsafe {
        asm!(
            ".cpu cortex-m4",
            "push {{r6, r7}}",
            "vmov s0, r12",
            "2:",
            "ldr r6, [r0], #16",
            "ldr r7, [r0, #-8]",
            // Bytes of both rows: 2, 3, 2, 3 and 0, 1, 0, 1.
            "pkhtb r12, r7, r6, asr #16",
            "vmov s1, r12",
            "pkhbt r6, r6, r7, lsl #16",
            "ldrd r12, lr, [r1], #16",
            "sxtb16 r7, r6",
            "smlad r2, r7, r12, r2",
            "smlad r8, r7, lr, r8",
            "sxtb16 r7, r6, ror #8",
            "smlad r3, r7, r12, r3",
            "smlad r9, r7, lr, r9",
            "vmov r6, s1",
            "sxtb16 r7, r6",
            "smlad r4, r7, r12, r4",
            "smlad r10, r7, lr, r10",
            "sxtb16 r7, r6, ror #8",
            "smlad r5, r7, r12, r5",
            "smlad r11, r7, lr, r11",
            "vmov r6, s0",
            "cmp r0, r6",
            "bne 2b",
            "pop {{r6, r7}}",
            inout("r0") values => _,
            inout("r1") weights => _,
            inout("r2") first[0], inout("r3") first[1], inout("r4") first[2], inout("r5") first[3],
            inout("r8") second[0], inout("r9") second[1], inout("r10") second[2],
            inout("r11") second[3],
            inout("r12") values.wrapping_add(2 * HEAD * pairs) => _,
            out("lr") _,
            out("s0") _, out("s1") _,
            options(readonly),
        );
    }
}
