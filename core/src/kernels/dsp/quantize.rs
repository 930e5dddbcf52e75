//! Activations to blocks of 32, widened to halfwords: about 8 instructions each.

use core::arch::asm;

use crate::kernels::math::ROUNDER;
use crate::kernels::scalar::scale_of;
use crate::quant::Q8Act;

/// Quantizes each 32 of `x` into one of `out`, as the scalar code defines it.
///
/// # Safety
///
/// The DSP instructions and the FPU are there.
pub(in crate::kernels) unsafe fn quantize_q8(x: &[f32], out: &mut [Q8Act]) {
    for (x, out) in x.as_chunks::<32>().0.iter().zip(out) {
        // SAFETY: the instructions are there.
        let (d, inverse) = scale_of(unsafe { largest_magnitude(x) });
        out.d = d;
        match inverse {
            // SAFETY: the instructions are there.
            Some(inverse) => out.sum = unsafe { round(x, inverse, out.stored_mut()) },
            None => {
                *out.stored_mut() = [0; 32];
                out.sum = 0;
            }
        }
    }
}

/// The largest magnitude, as the bits of an f32.
///
/// # Safety
///
/// The DSP instructions are there.
#[inline(always)]
unsafe fn largest_magnitude(x: &[f32; 32]) -> u32 {
    let amax: u32;
    // SAFETY: eight rounds read four words each, which are aligned, as LDM needs it.
    unsafe {
        asm!(
            ".cpu cortex-m4",
            "2:",
            "ldm r0!, {{r3, r4, r5, r8}}",
            // Without the sign, which is shifted out.
            ".irp word, r3, r4, r5, r8",
            "cmp r1, \\word, lsl #1",
            "it lo",
            "lsllo r1, \\word, #1",
            ".endr",
            "subs r2, r2, #1",
            "bne 2b",
            inout("r0") x.as_ptr() => _,
            inout("r1") 0 => amax,
            inout("r2") 8 => _,
            out("r3") _, out("r4") _, out("r5") _, out("r8") _,
            options(readonly, nostack),
        );
    }
    amax >> 1
}

/// `x * inverse`, rounded to nearest even, in the order in which a block stores them; the answer is
/// their sum. None is beyond ±127, since `inverse` is that of their scale: nothing need be clamped.
///
/// # Safety
///
/// The DSP instructions and the FPU are there.
#[inline(always)]
unsafe fn round(x: &[f32; 32], inverse: f32, out: &mut [i16; 32]) -> i32 {
    let sum: i32;
    // SAFETY: eight rounds read four numbers and write four halfwords each, at aligned addresses, as
    // VLDM and STM need them: a block is aligned to words, and its halfwords begin with one. The
    // lower half of 1.5 · 2^23 + n is n.
    unsafe {
        asm!(
            ".cpu cortex-m4",
            "vmov s4, r3",
            "vmov s5, r4",
            "2:",
            "vldmia r0!, {{s0-s3}}",
            ".irp at, 0, 1, 2, 3",
            "vmul.f32 s\\at, s\\at, s4",
            ".endr",
            ".irp at, 0, 1, 2, 3",
            "vadd.f32 s\\at, s\\at, s5",
            ".endr",
            "vmov r3, r4, s0, s1",
            "vmov r5, r8, s2, s3",
            "pkhbt r3, r3, r5, lsl #16",
            "pkhbt r4, r4, r8, lsl #16",
            "smlad r9, r3, r10, r9",
            "smlad r9, r4, r10, r9",
            "stm r1!, {{r3, r4}}",
            "subs r2, r2, #1",
            "bne 2b",
            inout("r0") x.as_ptr() => _,
            inout("r1") out.as_mut_ptr() => _,
            inout("r2") 8 => _,
            inout("r3") inverse.to_bits() => _,
            inout("r4") ROUNDER.to_bits() => _,
            out("r5") _, out("r8") _,
            inout("r9") 0 => sum,
            in("r10") 0x0001_0001,
            out("s0") _, out("s1") _, out("s2") _, out("s3") _, out("s4") _, out("s5") _,
            options(nostack),
        );
    }
    sum
}
