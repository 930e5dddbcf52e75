//! Float arithmetic in integers, for cores without a unit for it: IEEE 754 single precision, to
//! nearest even, with subnormals. NaN results are all the same NaN.
//!
//! What comes with the compiler is made for every target and takes several times as long on a
//! Cortex-M0, which has no instruction that counts zeros, multiplies to 64 bits or divides. On such
//! a chip the functions of this module take the place of the compiler's.
#![cfg_attr(test, allow(dead_code))] // What only the symbols use.

use crate::quant::f16_to_f32;

/// Sign of a number.
const SIGN: u32 = 1 << 31;
/// The bit in front of the fraction.
const IMPLICIT: u32 = 1 << 23;
const FRACTION: u32 = IMPLICIT - 1;
const INFINITY: u32 = 0xff << 23;
const NAN: u32 = 0x7fc0_0000;

/// `a * b` of bits.
#[inline(always)]
pub(super) fn mul(a: u32, b: u32) -> u32 {
    let sign = (a ^ b) & SIGN;
    let (a, b) = (a & !SIGN, b & !SIGN);
    let exponents = (a >> 23, b >> 23);
    if is_special(exponents.0) || is_special(exponents.1) {
        return sign_nan(sign, mul_special(a, b));
    }
    let exponent = exponents.0.wrapping_add(exponents.1).wrapping_sub(127);
    let (a, b) = (a & FRACTION | IMPLICIT, b & FRACTION | IMPLICIT);
    // 48 bits out of 16 times 16.
    let (al, ah, bl, bh) = (a & 0xffff, a >> 16, b & 0xffff, b >> 16);
    let low = al * bl;
    let middle = al * bh + ah * bl;
    let sum = low.wrapping_add(middle << 16);
    let high = ah * bh + (middle >> 16) + u32::from(sum < low);
    // From 2^23 on, below 2^25; what was cut off is in the bits from 31 down.
    let mantissa = high << 9 | sum >> 23;
    let rest = sum << 9;
    let (mantissa, rest, exponent) = if mantissa >> 24 != 0 {
        (
            mantissa >> 1,
            mantissa << 31 | rest >> 1,
            exponent.wrapping_add(1),
        )
    } else {
        (mantissa, rest, exponent)
    };
    if is_special(exponent) {
        return sign | out_of_range(mantissa, rest != 0, exponent);
    }
    let up = rest >> 31 & (mantissa | u32::from(rest << 1 != 0));
    // The implicit bit adds one to the exponent, and so does a carry.
    sign | ((exponent - 1) << 23)
        .wrapping_add(mantissa)
        .wrapping_add(up)
}

/// Whether numbers with this exponent are not plain: zero, subnormal, infinite, NaN.
#[inline(always)]
fn is_special(exponent: u32) -> bool {
    exponent.wrapping_sub(1) >= 254
}

/// A sign for a magnitude that is not NaN.
#[inline(always)]
fn sign_nan(sign: u32, magnitude: u32) -> u32 {
    if magnitude > INFINITY {
        NAN
    } else {
        sign | magnitude
    }
}

/// A number that is too large or too small, as its magnitude: `mantissa` (with the implicit bit, and
/// `sticky` if it was cut off) times 2 to the `exponent`.
#[cold]
#[inline(never)]
fn out_of_range(mantissa: u32, sticky: bool, exponent: u32) -> u32 {
    let exponent = exponent.cast_signed();
    if exponent > 0 {
        return INFINITY;
    }
    // How far it has to move down so that the exponent is that of subnormals.
    let shift = (1 - exponent).cast_unsigned();
    if shift > 25 {
        return 0;
    }
    let shifted = mantissa >> shift;
    let rest = mantissa << (32 - shift);
    let sticky = sticky || rest << 1 != 0;
    shifted + (rest >> 31 & (shifted | u32::from(sticky)))
}

/// Magnitudes of which at least one is not a plain number.
#[cold]
#[inline(never)]
fn mul_special(a: u32, b: u32) -> u32 {
    if a > INFINITY || b > INFINITY {
        return NAN;
    }
    if a == INFINITY || b == INFINITY {
        return if a == 0 || b == 0 { NAN } else { INFINITY };
    }
    if a == 0 || b == 0 {
        return 0;
    }
    let ((a, ea), (b, eb)) = (normalized(a), normalized(b));
    let product = u64::from(a) * u64::from(b);
    let exponent = ea + eb - 127;
    // To 2^23 and above, below 2^24.
    let (shift, exponent) = match product >> 47 {
        0 => (23, exponent),
        _ => (24, exponent + 1),
    };
    let mantissa = (product >> shift) as u32;
    let rest = (product << (64 - shift)) >> 32;
    let (rest, low) = (rest as u32, product << (64 - shift) << 32 != 0);
    finish(mantissa, rest | u32::from(low), exponent)
}

/// Rounds a mantissa with its implicit bit by the bits behind it.
fn finish(mantissa: u32, rest: u32, exponent: i32) -> u32 {
    if is_special(exponent.cast_unsigned()) {
        return out_of_range(mantissa, rest != 0, exponent.cast_unsigned());
    }
    let up = rest >> 31 & (mantissa | u32::from(rest << 1 != 0));
    ((exponent - 1).cast_unsigned() << 23)
        .wrapping_add(mantissa)
        .wrapping_add(up)
}

/// The mantissa with its highest bit at 23 and the exponent of a magnitude that is neither zero nor
/// infinite.
fn normalized(magnitude: u32) -> (u32, i32) {
    let exponent = (magnitude >> 23).cast_signed();
    if exponent != 0 {
        return (magnitude & FRACTION | IMPLICIT, exponent);
    }
    let (mut mantissa, mut exponent) = (magnitude, 1);
    while mantissa & IMPLICIT == 0 {
        mantissa <<= 1;
        exponent -= 1;
    }
    (mantissa, exponent)
}

/// `a + b` of bits.
#[inline(always)]
pub(super) fn add(a: u32, b: u32) -> u32 {
    // The larger magnitude first.
    let (large, small) = if a << 1 < b << 1 { (b, a) } else { (a, b) };
    let exponent = large << 1 >> 24;
    let small_exponent = small << 1 >> 24;
    if is_special(exponent) || small_exponent == 0 {
        return add_special(large, small);
    }
    let sign = large & SIGN;
    // Seven bits behind the mantissa: two to round by, the rest so that what is shifted out can be
    // told from nothing.
    let x = (large & FRACTION | IMPLICIT) << 7;
    let y = (small & FRACTION | IMPLICIT) << 7;
    let distance = exponent - small_exponent;
    if distance > 25 {
        return large;
    }
    let shifted = y >> distance;
    // Bits that were shifted out; `distance` 0 shifts by 32, which is nothing.
    let sticky = u32::from(shifted << distance != y);
    if (large ^ small) & SIGN == 0 {
        let sum = x + (shifted | sticky);
        let carry = sum >> 31;
        let sum = sum >> carry | (sum & carry);
        let exponent = exponent + carry;
        if exponent == 255 {
            return sign | INFINITY;
        }
        return sign | round(sum, exponent);
    }
    let mut difference = x - (shifted | sticky);
    let mut exponent = exponent;
    if difference >> 30 == 0 {
        if difference == 0 {
            return 0;
        }
        // Whole bytes first; a large difference has lost no bits, and most lose few.
        while difference >> 23 == 0 {
            difference <<= 8;
            exponent = exponent.wrapping_sub(8);
        }
        while difference >> 30 == 0 {
            difference <<= 1;
            exponent = exponent.wrapping_sub(1);
        }
        if is_special(exponent) {
            // Only such differences come here of which no bit was lost.
            return sign | out_of_range(difference >> 7, false, exponent);
        }
    }
    sign | round(difference, exponent)
}

/// Rounds a mantissa with seven bits behind it.
#[inline(always)]
fn round(sum: u32, exponent: u32) -> u32 {
    let mantissa = sum >> 7;
    let rest = sum << 25;
    let up = rest >> 31 & (mantissa | u32::from(rest << 1 != 0));
    ((exponent - 1) << 23) + mantissa + up
}

/// The sum where the larger magnitude is not plain or the smaller is zero or subnormal.
#[cold]
#[inline(never)]
fn add_special(large: u32, small: u32) -> u32 {
    let (magnitude, other) = (large & !SIGN, small & !SIGN);
    if magnitude > INFINITY {
        return NAN;
    }
    if magnitude == INFINITY {
        let opposite = other == INFINITY && large != small;
        return if opposite { NAN } else { large };
    }
    if other == 0 {
        // -0 only if both are.
        return if magnitude == 0 { large & small } else { large };
    }
    // The smaller one is subnormal. Its bit of 2^-149 is also that of the larger, or rounding
    // decides.
    let exponent = large << 1 >> 24;
    let same = (large ^ small) & SIGN == 0;
    if exponent == 0 {
        // Both count in units of 2^-149, and a carry out of the fraction is the exponent 1.
        let (x, y) = (magnitude, other);
        let result = if same { x + y } else { x - y };
        return if result == 0 {
            0
        } else {
            large & SIGN | result
        };
    }
    let (mantissa, smaller) = (u64::from(magnitude & FRACTION | IMPLICIT), u64::from(other));
    let distance = exponent - 1;
    if distance > 26 {
        return large;
    }
    let x = mantissa << distance;
    let sum = if same { x + smaller } else { x - smaller };
    // In units of 2^-149, which are exponent 1.
    let top = 63 - sum.leading_zeros();
    let shift = top.saturating_sub(23);
    let exponent = 1 + shift.cast_signed();
    let mantissa = (sum >> shift) as u32;
    if mantissa < IMPLICIT {
        return large & SIGN | mantissa;
    }
    let rest = if shift == 0 { 0 } else { sum << (64 - shift) };
    let rest = (rest >> 32) as u32 | u32::from(rest << 32 != 0);
    large & SIGN | finish(mantissa, rest, exponent)
}

/// `a / b` of bits.
#[inline(always)]
pub(super) fn div(a: u32, b: u32) -> u32 {
    let sign = (a ^ b) & SIGN;
    let (a, b) = (a & !SIGN, b & !SIGN);
    let (mut x, y, mut exponent);
    if is_special(a >> 23) || is_special(b >> 23) {
        if a > INFINITY || b > INFINITY || (a == b && (a == 0 || a == INFINITY)) {
            return NAN;
        }
        if a == INFINITY || b == 0 {
            return sign | INFINITY;
        }
        if a == 0 || b == INFINITY {
            return sign;
        }
        let ((xa, ea), (yb, eb)) = (normalized(a), normalized(b));
        (x, y, exponent) = (xa, yb, ea - eb + 127);
    } else {
        x = a & FRACTION | IMPLICIT;
        y = b & FRACTION | IMPLICIT;
        exponent = (a >> 23).cast_signed() - (b >> 23).cast_signed() + 127;
    }
    if x < y {
        x <<= 1;
        exponent -= 1;
    }
    let (quotient, x) = quotient(x, y);
    let rest = quotient << 31 | u32::from(x != 0);
    sign | finish(quotient >> 1, rest, exponent)
}

/// The first 25 bits of `x / y`, of which the first is 1, and what is left of `x`.
#[cfg(test)]
fn quotient(x: u32, y: u32) -> (u32, u32) {
    let mut x = x - y;
    let mut quotient = 1;
    for _ in 0..24 {
        x <<= 1;
        let fits = u32::from(x >= y);
        x -= y & fits.wrapping_neg();
        quotient = quotient << 1 | fits;
    }
    (quotient, x)
}

/// The first 25 bits of `x / y`, of which the first is 1, and what is left of `x`.
#[cfg(not(test))]
#[inline(always)]
fn quotient(x: u32, y: u32) -> (u32, u32) {
    let both = symbols::quotient(x, y);
    #[allow(clippy::cast_possible_truncation)] // The halves.
    (both as u32, (both >> 32) as u32)
}

/// The nearest number to an integer.
#[inline(always)]
pub(super) fn from_i32(x: i32) -> u32 {
    (x.cast_unsigned() & SIGN) | from_u32(x.unsigned_abs())
}

/// The nearest number to an integer.
#[inline(always)]
pub(super) fn from_u32(x: u32) -> u32 {
    if x == 0 {
        return 0;
    }
    let mut x = x;
    let mut exponent = 127 + 31;
    while x >> 24 == 0 {
        x <<= 8;
        exponent -= 8;
    }
    while x >> 31 == 0 {
        x <<= 1;
        exponent -= 1;
    }
    let mantissa = x >> 8;
    let rest = x << 24;
    let up = rest >> 31 & (mantissa | u32::from(rest << 1 != 0));
    ((exponent - 1) << 23) + mantissa + up
}

/// `(d * x) * n` of the bits of an f16, the bits of an f32 that is not negative, and an integer,
/// rounded after each product: what a block adds to a row.
#[inline(always)]
pub(super) fn scaled(d: u16, x: u32, n: i32) -> u32 {
    let general = || scaled_in_general(d, x, n);
    let d = u32::from(d);
    let (d_exponent, x_exponent) = (d >> 10 & 0x1f, x >> 23);
    let sign = (d << 16 ^ n.cast_unsigned()) & SIGN;
    let magnitude = n.unsigned_abs();
    // Else no plain numbers, or an integer that has more than 20 bits.
    if d_exponent.wrapping_sub(1) >= 30
        || is_special(x_exponent)
        || magnitude.wrapping_sub(1) >> 20 != 0
    {
        return general();
    }
    let mut exponent = (d_exponent + x_exponent).wrapping_sub(15);
    // 11 bits times 24, of which 24 or 25 are kept and 10 are what is left.
    let (d, x) = (d & 0x3ff | 0x400, x & FRACTION | IMPLICIT);
    let low = d * (x & 0xfff);
    let mut mantissa = ((d * (x >> 12)) << 2) + (low >> 10);
    let mut rest = low << 22;
    if mantissa >> 24 != 0 {
        rest = mantissa << 31 | rest >> 1;
        mantissa >>= 1;
        exponent = exponent.wrapping_add(1);
    }
    mantissa += rest >> 31 & (mantissa | u32::from(rest << 1 != 0));
    if mantissa >> 24 != 0 {
        mantissa >>= 1;
        exponent = exponent.wrapping_add(1);
    }
    if is_special(exponent) {
        return general();
    }
    // 24 bits times 20: the upper 32 of 44, and 12 that are left.
    let low = (mantissa & 0xfff) * magnitude;
    let mut high = (mantissa >> 12) * magnitude + (low >> 12);
    let mut shift = 0;
    for by in [16, 8, 4, 2, 1] {
        if high >> (32 - by) == 0 {
            high <<= by;
            shift += by;
        }
    }
    // Not more than 20, since the mantissa has 24 bits.
    let low = (low & 0xfff) << shift;
    high |= low >> 12;
    let exponent = (exponent + 20).wrapping_sub(shift);
    if is_special(exponent) {
        return general();
    }
    let mantissa = high >> 8;
    let rest = high << 24;
    let up = rest >> 31 & (mantissa | u32::from(rest << 1 != 0 || low & 0xfff != 0));
    sign | (((exponent - 1) << 23) + mantissa + up)
}

#[cold]
#[inline(never)]
fn scaled_in_general(d: u16, x: u32, n: i32) -> u32 {
    mul(mul(f16_to_f32(d).to_bits(), x), from_i32(n))
}

/// The names under which compilers call for float arithmetic on Arm. The compiler's own functions of
/// these names are then left out.
#[cfg(not(test))]
mod symbols {
    #![allow(unsafe_code)] // To give functions their names, and to write two of them out.

    use core::arch::naked_asm;

    extern "C" fn mul(a: u32, b: u32) -> u32 {
        super::mul(a, b)
    }

    extern "C" fn add(a: u32, b: u32) -> u32 {
        super::add(a, b)
    }

    /// As [`mul`](super::mul), to which it leaves what is not plain: some 50 instructions.
    // SAFETY: it does what the run-time ABI for the Arm architecture says of this name.
    #[unsafe(no_mangle)]
    #[unsafe(naked)]
    extern "C" fn __aeabi_fmul(a: u32, b: u32) -> u32 {
        naked_asm!(
            "push {{r0, r1, r4, r5, r6, lr}}",
            // The exponents, of plain numbers 1 to 254.
            "lsls r2, r0, #1",
            "lsrs r2, r2, #24",
            "subs r4, r2, #1",
            "cmp r4, #254",
            "bhs 9f",
            "lsls r3, r1, #1",
            "lsrs r3, r3, #24",
            "subs r4, r3, #1",
            "cmp r4, #254",
            "bhs 9f",
            "adds r2, r2, r3",
            "movs r6, r0",
            "eors r6, r1",
            "lsrs r6, r6, #31",
            "lsls r6, r6, #31",
            // Mantissas of 16 and 8 bits: the product is r0 * 2^16 + r4 * 2^8 + r3.
            "uxtb r4, r0",
            "uxtb r5, r1",
            "movs r3, #128",
            "lsls r3, r3, #8",
            "lsrs r0, r0, #8",
            "orrs r0, r3",
            "uxth r0, r0",
            "lsrs r1, r1, #8",
            "orrs r1, r3",
            "uxth r1, r1",
            "movs r3, r4",
            "muls r3, r5, r3",
            "muls r5, r0, r5",
            "muls r4, r1, r4",
            "muls r0, r1, r0",
            "adds r4, r4, r5",
            "lsrs r5, r3, #8",
            "adds r4, r4, r5",
            "lsrs r5, r4, #8",
            "adds r0, r0, r5",
            // To the top.
            "bmi 1f",
            "adds r0, r0, r0",
            "subs r2, r2, #1",
            "1:",
            // The implicit bit will add one to the exponent.
            "subs r2, r2, #127",
            "cmp r2, #254",
            "bhs 9f",
            "lsrs r1, r0, #8",
            "bcc 2f",
            "adds r1, r1, #1",
            "lsls r5, r0, #25",
            "bne 2f",
            // Half of the last bit, and maybe something behind it.
            "lsls r4, r4, #24",
            "lsls r3, r3, #24",
            "orrs r3, r4",
            "bne 2f",
            "lsrs r1, r1, #1",
            "lsls r1, r1, #1",
            "2:",
            "lsls r0, r2, #23",
            "adds r0, r0, r1",
            "orrs r0, r6",
            "add sp, #8",
            "pop {{r4, r5, r6, pc}}",
            "9:",
            "pop {{r0, r1, r4, r5, r6}}",
            "bl {mul}",
            "pop {{pc}}",
            mul = sym mul,
        )
    }

    /// As [`add`](super::add), to which it leaves what is not plain: some 55 instructions.
    // SAFETY: as above.
    #[unsafe(no_mangle)]
    #[unsafe(naked)]
    extern "C" fn __aeabi_fadd(a: u32, b: u32) -> u32 {
        naked_asm!(
            "push {{r0, r1, r4, r5, r6, lr}}",
            // The larger magnitude first.
            "lsls r2, r0, #1",
            "lsls r3, r1, #1",
            "cmp r2, r3",
            "bhs 1f",
            "movs r4, r0",
            "movs r0, r1",
            "movs r1, r4",
            "movs r4, r2",
            "movs r2, r3",
            "movs r3, r4",
            "1:",
            "lsrs r4, r2, #24",
            "cmp r4, #255",
            "beq 9f",
            "lsrs r5, r3, #24",
            "beq 8f",
            "subs r5, r4, r5",
            "cmp r5, #25",
            "bhi 7f",
            // Seven bits behind the mantissas.
            "movs r6, r0",
            "eors r6, r1",
            "movs r3, #1",
            "lsls r3, r3, #30",
            "lsls r2, r0, #9",
            "lsrs r2, r2, #2",
            "orrs r2, r3",
            "lsls r1, r1, #9",
            "lsrs r1, r1, #2",
            "orrs r1, r3",
            // What is shifted out leaves a trace in the last bit.
            "movs r3, r1",
            "lsrs r3, r5",
            "lsls r3, r5",
            "subs r1, r1, r3",
            "lsrs r3, r5",
            "cmp r1, #0",
            "beq 2f",
            "movs r1, #1",
            "orrs r3, r1",
            "2:",
            "lsrs r0, r0, #31",
            "lsls r0, r0, #31",
            "cmp r6, #0",
            "bmi 4f",
            "adds r2, r2, r3",
            "bpl 3f",
            "movs r3, #1",
            "ands r3, r2",
            "lsrs r2, r2, #1",
            "orrs r2, r3",
            "adds r4, r4, #1",
            "cmp r4, #255",
            "beq 9f",
            "3:",
            "lsrs r1, r2, #7",
            "bcc 5f",
            "adds r1, r1, #1",
            "lsls r2, r2, #26",
            "bne 5f",
            "lsrs r1, r1, #1",
            "lsls r1, r1, #1",
            "5:",
            "subs r4, r4, #1",
            "lsls r4, r4, #23",
            "adds r1, r1, r4",
            "orrs r0, r1",
            "7:",
            "add sp, #8",
            "pop {{r4, r5, r6, pc}}",
            // A difference, which may have to move up as far as it is long.
            "4:",
            "subs r2, r2, r3",
            "beq 6f",
            "cmp r4, #32",
            "bls 9f",
            "lsrs r1, r2, #30",
            "bne 3b",
            "40:",
            "lsrs r1, r2, #23",
            "bne 41f",
            "lsls r2, r2, #8",
            "subs r4, r4, #8",
            "b 40b",
            "41:",
            "lsrs r1, r2, #30",
            "bne 3b",
            "lsls r2, r2, #1",
            "subs r4, r4, #1",
            "b 41b",
            "6:",
            "movs r0, #0",
            "b 7b",
            // The smaller is zero: the sum is the larger, unless that is no plain number.
            "8:",
            "cmp r3, #0",
            "bne 9f",
            "cmp r4, #0",
            "bne 7b",
            "9:",
            "pop {{r0, r1, r4, r5, r6}}",
            "bl {add}",
            "pop {{pc}}",
            add = sym add,
        )
    }

    // SAFETY: as above.
    #[unsafe(no_mangle)]
    #[unsafe(naked)]
    extern "C" fn __aeabi_fsub(a: u32, b: u32) -> u32 {
        naked_asm!(
            "movs r2, #1",
            "lsls r2, r2, #31",
            "eors r1, r2",
            "push {{r4, lr}}",
            "bl {add}",
            "pop {{r4, pc}}",
            add = sym __aeabi_fadd,
        )
    }

    /// The first 25 bits of `x / y`, of which the first is 1, in the lower half; in the upper what is
    /// left of `x`.
    #[unsafe(naked)]
    pub(super) extern "C" fn quotient(x: u32, y: u32) -> u64 {
        naked_asm!(
            "movs r2, #1",
            "subs r0, r0, r1",
            ".rept 24",
            "adds r0, r0, r0",
            // The carry is whether it fits.
            "cmp r0, r1",
            "blo 1f",
            "subs r0, r0, r1",
            "1:",
            "adcs r2, r2",
            ".endr",
            "movs r1, r0",
            "movs r0, r2",
            "bx lr",
        )
    }

    // SAFETY: as above.
    #[unsafe(no_mangle)]
    extern "C" fn __aeabi_fdiv(a: u32, b: u32) -> u32 {
        super::div(a, b)
    }

    // SAFETY: as above.
    #[unsafe(no_mangle)]
    extern "C" fn __aeabi_i2f(x: i32) -> u32 {
        super::from_i32(x)
    }

    // SAFETY: as above.
    #[unsafe(no_mangle)]
    extern "C" fn __aeabi_ui2f(x: u32) -> u32 {
        super::from_u32(x)
    }
}

#[cfg(test)]
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_precision_loss
)]
mod tests {
    use super::*;

    /// Pairs for each of the cases below.
    const ROUNDS: u32 = 60_000;

    fn random() -> impl FnMut() -> u32 {
        let mut state = 0x1234_5678_9abc_def1_u64;
        move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 32) as u32
        }
    }

    /// Numbers of every kind.
    fn corners() -> std::vec::Vec<u32> {
        let magnitudes = [
            0,
            1,
            2,
            0x7f_ffff,
            0x80_0000,
            0x80_0001,
            0xff_ffff,
            0x100_0000,
            0x3f7f_ffff,
            0x3f80_0000,
            0x4b7f_ffff,
            0x7f7f_ffff,
            INFINITY,
            NAN,
            0x7f80_0001,
        ];
        magnitudes.iter().flat_map(|&x| [x, x | SIGN]).collect()
    }

    /// Pairs of numbers of every kind, and such as cancel, round and leave the range.
    fn pairs() -> impl Iterator<Item = (u32, u32)> {
        let corners = corners();
        let crossed = corners.clone().into_iter().flat_map({
            let corners = corners.clone();
            move |a| corners.clone().into_iter().map(move |b| (a, b))
        });
        let mut next = random();
        let random = (0..6 * ROUNDS).map(move |round| {
            let (a, b) = (next(), next());
            match round % 6 {
                0 => (a, b),
                1 => (a, corners[b as usize % corners.len()]),
                // The last bits.
                2 => (a, a ^ (b & 0x8000_00ff)),
                // Exponents close by, and few bits.
                3 => {
                    let near = a.wrapping_add((b >> 5 & 7) << 23) & 0xff80_0000;
                    (a, near | (b >> 9 & !((1 << (b & 15)) - 1)) ^ (b & SIGN))
                }
                4 => (a & 0x83ff_ffff, b & 0x83ff_ffff),
                _ => (a & 0x80ff_ffff, b & 0x7fff_ffff | 0x4000_0000),
            }
        });
        crossed.chain(random)
    }

    fn assert_same(found: u32, expected: f32, what: std::fmt::Arguments<'_>) {
        let found = f32::from_bits(found);
        let same = found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan();
        assert!(same, "{what}: {found:e} is not {expected:e}");
    }

    fn check(operation: fn(u32, u32) -> u32, truth: fn(f32, f32) -> f32) {
        for (a, b) in pairs().flat_map(|(a, b)| [(a, b), (b, a)]) {
            let expected = truth(f32::from_bits(a), f32::from_bits(b));
            assert_same(operation(a, b), expected, format_args!("{a:#x}, {b:#x}"));
        }
    }

    #[test]
    fn arithmetic_is_that_of_this_processor() {
        check(mul, |a, b| a * b);
        check(add, |a, b| a + b);
        check(div, |a, b| a / b);
    }

    #[test]
    fn integers_are_converted_as_by_this_processor() {
        let mut next = random();
        for round in 0..ROUNDS {
            let x = next() >> (round % 32);
            for x in [x, x.wrapping_neg(), 0, i32::MIN.cast_unsigned(), u32::MAX] {
                assert_same(from_u32(x), x as f32, format_args!("{x}"));
                let x = x.cast_signed();
                assert_same(from_i32(x), x as f32, format_args!("{x}"));
            }
        }
    }

    #[test]
    fn a_block_adds_the_rounded_products() {
        let mut next = random();
        for round in 0..10 * ROUNDS {
            let d = next() as u16;
            let x = match round % 4 {
                0 => next() & !SIGN,
                1 => next() & 0x7fff_f000,
                _ => next() & 0x7f_ffff | (100 + round % 40) << 23,
            };
            let n = next().cast_signed() >> (next() % 32);
            let expected = (f16_to_f32(d) * f32::from_bits(x)) * n as f32;
            assert_same(
                scaled(d, x, n),
                expected,
                format_args!("{d:#x}, {x:#x}, {n}"),
            );
        }
    }
}
