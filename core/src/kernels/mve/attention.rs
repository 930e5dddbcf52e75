//! The loops of attention over int8 rows: about 12 instructions for a query head and a position.
//!
//! Floating-point numbers in vectors, and why that subnormal ones are flushed changes no bit: what
//! becomes of them is cut or rounded to an integer, which is 0 in any case; and f16 scales are 2^-24
//! or more, or 0.

use core::arch::asm;

use crate::kernels::attention::EXP2_FIXED;
use crate::kernels::cortex_m_attention::{BLOCK, HEAD, Loops};

/// The loops.
pub(in crate::kernels) struct Mve;

impl Loops for Mve {
    /// 0.4 instructions a scale.
    unsafe fn largest_scale(scales: &[u16]) -> u16 {
        let largest: u32;
        // SAFETY: the loop reads as many halfwords as there are, from any address; what is beyond the
        // last is predicated off.
        unsafe {
            asm!(
                "vmov.i32 q1, #0",
                "dlstp.16 lr, r1",
                "2:",
                "vldrh.u16 q0, [r0], #16",
                "vmax.u16 q1, q1, q0",
                "letp lr, 2b",
                "movs r2, #0",
                "vmaxv.u16 r2, q1",
                inout("r0") scales.as_ptr() => _,
                in("r1") scales.len(),
                out("r2") largest,
                out("lr") _,
                out("s0") _, out("s1") _, out("s2") _, out("s3") _,
                out("s4") _, out("s5") _, out("s6") _, out("s7") _,
                options(readonly, nostack),
            );
        }
        #[allow(clippy::cast_possible_truncation)] // A halfword.
        {
            largest as u16
        }
    }

    /// 2.5 instructions a product.
    unsafe fn products_of_8(q16: &[i16; 2 * HEAD], keys: &[i8], products: &mut [[i32; 2]]) {
        // SAFETY: a round reads a row of eight bytes and writes two words, and there are as many
        // rounds as places. `q16` is two times eight halfwords. Bytes and halfwords are loaded from
        // any address, words are aligned.
        unsafe {
            asm!(
                "vldrh.u16 q1, [r2]",
                "vldrh.u16 q2, [r2, #16]",
                "dls lr, r3",
                "2:",
                "vldrb.s16 q0, [r0], #8",
                "vmladav.s16 r4, q0, q1",
                "vmladav.s16 r8, q0, q2",
                "strd r4, r8, [r1], #8",
                "le lr, 2b",
                inout("r0") keys.as_ptr() => _,
                inout("r1") products.as_mut_ptr() => _,
                in("r2") q16.as_ptr(),
                in("r3") products.len(),
                out("r4") _, out("r8") _, out("lr") _,
                out("s0") _, out("s1") _, out("s2") _, out("s3") _, out("s4") _, out("s5") _,
                out("s6") _, out("s7") _, out("s8") _, out("s9") _, out("s10") _, out("s11") _,
                options(nostack),
            );
        }
    }

    /// 2.75 instructions a score.
    unsafe fn scores(products: &mut [[i32; 2]], scales: &[u16], k: [f32; 2]) -> [i32; 2] {
        let k = [k; 2];
        // Scales of two positions, for two heads.
        let offsets = [0_u32, 0, 2, 2];
        let mut most = [[i32::MIN; 2]; 2];
        // SAFETY: a round handles four words, of two positions, and reads their scales; what is beyond
        // the last is predicated off. Halfwords are loaded from any address, words are aligned. `k`,
        // `offsets` and `most` have four words each.
        unsafe {
            asm!(
                ".arch_extension mve.fp",
                "vldrw.u32 q1, [r3]",
                "vldrw.u32 q2, [r4]",
                "vldrw.u32 q3, [r5]",
                "dlstp.32 lr, r2",
                "2:",
                "vldrh.u32 q4, [r1, q2]",
                "vldrw.u32 q0, [r0]",
                "vcvtb.f32.f16 q4, q4",
                "vcvt.f32.s32 q0, q0",
                "vmul.f32 q4, q4, q1",
                "vmul.f32 q0, q0, q4",
                "vcvt.s32.f32 q0, q0",
                "adds r1, r1, #4",
                "vmax.s32 q3, q3, q0",
                "vstrw.32 q0, [r0], #16",
                "letp lr, 2b",
                "vstrw.32 q3, [r5]",
                inout("r0") products.as_mut_ptr() => _,
                inout("r1") scales.as_ptr() => _,
                in("r2") 2 * products.len(),
                in("r3") k.as_ptr(),
                in("r4") offsets.as_ptr(),
                in("r5") most.as_mut_ptr(),
                out("lr") _,
                out("s0") _, out("s1") _, out("s2") _, out("s3") _, out("s4") _, out("s5") _,
                out("s6") _, out("s7") _, out("s8") _, out("s9") _, out("s10") _, out("s11") _,
                out("s12") _, out("s13") _, out("s14") _, out("s15") _, out("s16") _, out("s17") _,
                out("s18") _, out("s19") _,
                options(nostack),
            );
        }
        let [[a, b], [c, d]] = most;
        [a.max(c) >> 16, b.max(d) >> 16]
    }

    /// 2.75 instructions a score.
    unsafe fn weigh(
        scores: &mut [[i32; 2]],
        scales: &[u16],
        reciprocal: f32,
        most: [i32; 2],
    ) -> [u32; 2] {
        let [c1, c2, c3] = EXP2_FIXED;
        // Not shifted by more, since a shift is a byte; what is shifted by 31 is 0.
        let vectors = [[c3; 8], [-31; 8]];
        let (first, second): (u32, u32);
        // SAFETY: a round reads eight scales, those beyond the last predicated off, and 16 words, of
        // which it writes eight, and there are as many rounds as blocks. Halfwords are loaded from any
        // address, words are aligned. `vectors` has two times eight halfwords.
        unsafe {
            asm!(
                ".arch_extension mve.fp",
                "vldrh.u16 q6, [r4]",
                "vldrh.u16 q7, [r4, #16]",
                "movs r4, #0",
                "mov r12, #0",
                "dls lr, lr",
                "2:",
                // Scales as integers: those of even places, and of odd ones into the upper halves.
                "vctp.16 r2",
                "vpst",
                "vldrht.u16 q5, [r1], #16",
                "subs r2, r2, #8",
                "vcvtb.f32.f16 q0, q5",
                "vcvtt.f32.f16 q1, q5",
                "vmul.f32 q0, q0, r5",
                "vmul.f32 q1, q1, r5",
                "vcvtn.s32.f32 q5, q0",
                "vcvtn.s32.f32 q1, q1",
                "vmovnt.i32 q5, q1",
                // Lower and upper halves of the first head's scores, then of the second's.
                "vld40.16 {{q0, q1, q2, q3}}, [r0]",
                "vld41.16 {{q0, q1, q2, q3}}, [r0]",
                "vld42.16 {{q0, q1, q2, q3}}, [r0]",
                "vld43.16 {{q0, q1, q2, q3}}, [r0]",
                ".macro weigh low, high, most, sum",
                // The nearest integer less the largest: the lower half has a sign.
                "vqsub.s16 \\high, \\high, \\most",
                "vshr.s16 q4, \\low, #15",
                "vqsub.s16 \\high, \\high, q4",
                "vmax.s16 \\high, \\high, q7",
                "vmulh.s16 q4, q6, \\low",
                "vadd.i16 q4, q4, r8",
                "vmulh.s16 q4, q4, \\low",
                "vadd.i16 q4, q4, r9",
                "vmulh.s16 q4, q4, \\low",
                "vadd.i16 q4, q4, r10",
                "vshl.u16 q4, q4, \\high",
                "vaddva.u16 \\sum, q4",
                "vqrdmulh.s16 q4, q4, q5",
                "vstrh.16 q4, [r0], #16",
                ".endm",
                "weigh q0, q1, r11, r4",
                "weigh q2, q3, r3, r12",
                ".purgem weigh",
                "adds r0, r0, #32",
                "le lr, 2b",
                inout("r0") scores.as_mut_ptr() => _,
                inout("r1") scales.as_ptr() => _,
                inout("r2") scales.len() => _,
                in("r3") most[1] + 1,
                inout("r4") vectors.as_ptr() => first,
                in("r5") reciprocal.to_bits(),
                in("r8") i32::from(c2), in("r9") i32::from(c1), in("r10") 0x8000,
                in("r11") most[0] + 1,
                out("r12") second,
                inout("lr") scores.len() / BLOCK => _,
                out("s0") _, out("s1") _, out("s2") _, out("s3") _, out("s4") _, out("s5") _,
                out("s6") _, out("s7") _, out("s8") _, out("s9") _, out("s10") _, out("s11") _,
                out("s12") _, out("s13") _, out("s14") _, out("s15") _, out("s16") _, out("s17") _,
                out("s18") _, out("s19") _, out("s20") _, out("s21") _, out("s22") _, out("s23") _,
                out("s24") _, out("s25") _, out("s26") _, out("s27") _, out("s28") _, out("s29") _,
                out("s30") _, out("s31") _,
                options(nostack),
            );
        }
        [first, second]
    }

    /// The first words of a block are the weights of the first head, then come those of the second.
    fn weight(weights: &[[i32; 2]], position: usize, head: usize) -> i16 {
        let (blocks, _) = weights.as_chunks::<BLOCK>();
        let block = blocks
            .get(position / BLOCK)
            .map(|block| block.as_flattened());
        let word = 4 * (head & 1) + position % BLOCK / 2;
        let both = block.and_then(|block| block.get(word).copied());
        #[allow(clippy::cast_possible_truncation)] // The half that is meant.
        {
            (both.unwrap_or_default() >> (16 * (position & 1))) as i16
        }
    }

    /// 2.6 instructions a weight.
    unsafe fn sums_of_8(weights: &[[i32; 2]], values: &[i8]) -> [[i32; HEAD]; 2] {
        let (blocks, last) = values.as_chunks::<{ BLOCK * HEAD }>();
        let (weights, _) = weights.as_chunks::<BLOCK>();
        let mut last_block = [[0; BLOCK * HEAD]];
        for (to, &v) in last_block[0].iter_mut().zip(last) {
            *to = v;
        }
        let mut sums = [[0; HEAD]; 2];
        // SAFETY: there are as many blocks of weights as of rows, and one for rows that are left.
        unsafe {
            if !blocks.is_empty() {
                sum_blocks(weights.as_ptr(), blocks, &mut sums);
            }
            if let (Some(weights), false) = (weights.get(blocks.len()), last.is_empty()) {
                sum_blocks(weights, &last_block, &mut sums);
            }
        }
        sums
    }
}

/// Adds the products of weights with blocks of rows to `sums`.
///
/// # Safety
///
/// Helium is there; `weights` has as many blocks as `values`, at least one.
unsafe fn sum_blocks(
    weights: *const [[i32; 2]; BLOCK],
    values: &[[i8; BLOCK * HEAD]],
    sums: &mut [[i32; HEAD]; 2],
) {
    let [first, second] = sums;
    macro_rules! four {
        // Widens the elements from `$at` on of each row.
        ($move:literal, $at:literal) => {
            // SAFETY: a round reads 64 bytes of values, at any address, and the first eight of 16 words of
            // weights, and there are as many rounds as blocks. r6 is given back as it was found, and the
            // stack is balanced.
            unsafe {
                asm!(
                    "push {{r6, r7}}",
                    "mov r6, r11",
                    "2:",
                    "vldrh.u16 q6, [r3]",
                    "vldrh.u16 q7, [r3, #16]",
                    // Elements 0 and 4 of eight rows, and so on.
                    "vld40.8 {{q0, q1, q2, q3}}, [r1]",
                    "vld41.8 {{q0, q1, q2, q3}}, [r1]",
                    "vld42.8 {{q0, q1, q2, q3}}, [r1]",
                    "vld43.8 {{q0, q1, q2, q3}}, [r1]!",
                    concat!($move, " q4, q0"),
                    "vmladava.s16 r0, q4, q6",
                    "vmladava.s16 r2, q4, q7",
                    concat!($move, " q4, q1"),
                    "vmladava.s16 r4, q4, q6",
                    "vmladava.s16 r6, q4, q7",
                    concat!($move, " q4, q2"),
                    "vmladava.s16 r8, q4, q6",
                    "vmladava.s16 r10, q4, q7",
                    concat!($move, " q4, q3"),
                    "vmladava.s16 r12, q4, q6",
                    "vmladava.s16 lr, q4, q7",
                    "adds r3, r3, #64",
                    "subs r5, r5, #1",
                    "bne 2b",
                    "mov r11, r6",
                    "pop {{r6, r7}}",
                    inout("r0") first[$at] => first[$at],
                    inout("r1") values.as_ptr() => _,
                    inout("r2") second[$at] => second[$at],
                    inout("r3") weights => _,
                    inout("r4") first[$at + 1] => first[$at + 1],
                    inout("r5") values.len() => _,
                    inout("r8") first[$at + 2] => first[$at + 2],
                    inout("r10") second[$at + 2] => second[$at + 2],
                    inout("r11") second[$at + 1] => second[$at + 1],
                    inout("r12") first[$at + 3] => first[$at + 3],
                    inout("lr") second[$at + 3] => second[$at + 3],
                    out("s0") _, out("s1") _, out("s2") _, out("s3") _, out("s4") _, out("s5") _,
                    out("s6") _, out("s7") _, out("s8") _, out("s9") _, out("s10") _, out("s11") _,
                    out("s12") _, out("s13") _, out("s14") _, out("s15") _, out("s16") _, out("s17") _,
                    out("s18") _, out("s19") _, out("s24") _, out("s25") _, out("s26") _, out("s27") _,
                    out("s28") _, out("s29") _, out("s30") _, out("s31") _,
                );
            }
        };
    }
    four!("vmovlb.s8", 0);
    four!("vmovlt.s8", 4);
}
