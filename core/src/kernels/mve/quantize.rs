//! Activations to blocks of 32.
//!
//! Flushing changes no bit: a number that is subnormal, or whose product with the reciprocal is, is
//! rounded to 0 either way.

use core::arch::asm;

use crate::kernels::math::ROUNDER;
use crate::kernels::scalar::scale_of;
use crate::quant::Q8Act;

/// Quantizes each 32 of `x` into one of `out`, as the scalar code defines it.
///
/// # Safety
///
/// Helium is there.
pub(in crate::kernels) unsafe fn quantize_q8(x: &[f32], out: &mut [Q8Act]) {
    for (x, out) in x.as_chunks::<32>().0.iter().zip(out) {
        // SAFETY: Helium is there.
        let (d, inverse) = scale_of(unsafe { largest_magnitude(x) });
        out.d = d;
        match inverse {
            // SAFETY: Helium is there.
            Some(inverse) => out.sum = unsafe { round(x, inverse, out.stored_mut()) },
            None => {
                *out.stored_mut() = [0; 32];
                out.sum = 0;
            }
        }
    }
}

/// The largest magnitude, as the bits of an f32; integers, which are not flushed.
///
/// # Safety
///
/// Helium is there.
#[inline(always)]
unsafe fn largest_magnitude(x: &[f32; 32]) -> u32 {
    let amax: u32;
    // SAFETY: the loop reads eight times four aligned words.
    unsafe {
        asm!(
            "vmov.i32 q1, #0",
            ".rept 8",
            "vldrw.u32 q0, [r0], #16",
            // Without the sign, which is shifted out.
            "vshl.i32 q0, q0, #1",
            "vmax.u32 q1, q1, q0",
            ".endr",
            "vmaxv.u32 r2, q1",
            inout("r0") x.as_ptr() => _,
            inout("r2") 0 => amax,
            out("s0") _, out("s1") _, out("s2") _, out("s3") _,
            out("s4") _, out("s5") _, out("s6") _, out("s7") _,
            options(readonly, nostack),
        );
    }
    amax >> 1
}

/// `x * inverse`, rounded to nearest even; the answer is their sum. None is beyond ±127, since
/// `inverse` is that of their scale: nothing need be clamped.
///
/// # Safety
///
/// Helium is there.
#[inline(always)]
unsafe fn round(x: &[f32; 32], inverse: f32, out: &mut [i8; 32]) -> i32 {
    let sum: i32;
    // SAFETY: the loop reads eight times four aligned words and writes as many bytes; then these are
    // read. The low byte of 1.5 · 2^23 + n is n.
    unsafe {
        asm!(
            ".arch_extension mve.fp",
            ".rept 8",
            "vldrw.u32 q0, [r0], #16",
            "vmul.f32 q0, q0, r3",
            "vadd.f32 q0, q0, r4",
            "vstrb.32 q0, [r1], #4",
            ".endr",
            "vldrb.u8 q0, [r1, #-32]",
            "vldrb.u8 q1, [r1, #-16]",
            "vaddv.s8 r2, q0",
            "vaddva.s8 r2, q1",
            inout("r0") x.as_ptr() => _,
            inout("r1") out.as_mut_ptr() => _,
            out("r2") sum,
            in("r3") inverse.to_bits(),
            in("r4") ROUNDER.to_bits(),
            out("s0") _, out("s1") _, out("s2") _, out("s3") _,
            out("s4") _, out("s5") _, out("s6") _, out("s7") _,
            options(nostack),
        );
    }
    sum
}
