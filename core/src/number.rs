//! Numbers as text, for boards: what `core` has for it takes kilobytes of flash, as it knows widths,
//! signs and alignment, and divides 64 bits at a time.

use core::fmt;

/// An integer that is printed in decimal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Number(pub u64);

/// An integer of which the lowest `DIGITS` hexadecimal digits are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hex<const DIGITS: usize>(pub u64);

/// An f32 that is printed with up to six decimals.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Decimal(pub f32);

/// The most digits of a [`Number`].
const LEN: usize = 20;

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut digits = [0; LEN];
        let first = digits_of(self.0, &mut digits);
        write_ascii(f, digits.get(first..))
    }
}

impl<const DIGITS: usize> fmt::Display for Hex<DIGITS> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0;
        let mut digits = [0; DIGITS];
        for digit in digits.iter_mut().rev() {
            *digit = match (rest & 15) as u8 {
                low @ 0..10 => b'0' + low,
                high => b'a' - 10 + high,
            };
            rest >>= 4;
        }
        write_ascii(f, Some(&digits))
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let x = self.0;
        if x.is_nan() {
            return f.write_str("NaN");
        }
        if x.is_sign_negative() {
            f.write_str("-")?;
        }
        let x = x.abs();
        if x >= 1e12 {
            return f.write_str(if x.is_finite() { "1e12 or more" } else { "inf" });
        }
        // Seven digits and more, of which the last six are the decimals.
        let mut digits = [b'0'; LEN];
        let first = digits_of(millionths(x), &mut digits).min(LEN - 7);
        let (whole, decimals) = digits.split_at(LEN - 6);
        write_ascii(f, whole.get(first..))?;
        match decimals.iter().rposition(|&digit| digit != b'0') {
            None => Ok(()),
            Some(last) => {
                f.write_str(".")?;
                write_ascii(f, decimals.get(..=last))
            }
        }
    }
}

/// The nearest whole number of millionths; `x` is from 0 to 10^12.
fn millionths(x: f32) -> u64 {
    let exponent = x.to_bits() >> 23;
    let mantissa = x.to_bits() & 0x7f_ffff;
    // A subnormal is nothing, whatever its exponent.
    let product = u64::from(mantissa | 0x80_0000) * 1_000_000;
    // The mantissa counts in units of 2^-150 of the exponent.
    match exponent.checked_sub(150) {
        Some(left) => product << left,
        None => {
            let right = 150 - exponent;
            // Below 2^44.
            if right > 44 {
                0
            } else {
                (product + (1 << (right - 1))) >> right
            }
        }
    }
}

/// Writes the digits at the end of `digits` and gives the place of the first.
fn digits_of(number: u64, digits: &mut [u8; LEN]) -> usize {
    // Sixteen bits at a time, from the lowest on.
    let mut parts = [0, 16, 32, 48].map(|shift| (number >> shift) as u32 & 0xffff);
    let mut first = LEN;
    for digit in digits.iter_mut().rev() {
        let mut rest = 0;
        for part in parts.iter_mut().rev() {
            let dividend = rest << 16 | *part;
            *part = dividend / 10;
            rest = dividend % 10;
        }
        *digit = b'0' + rest as u8;
        first -= 1;
        if parts == [0; 4] {
            break;
        }
    }
    first
}

fn write_ascii(f: &mut fmt::Formatter<'_>, digits: Option<&[u8]>) -> fmt::Result {
    let digits = core::str::from_utf8(digits.unwrap_or_default());
    f.write_str(digits.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::format;
    use std::string::ToString as _;

    #[test]
    fn decimals_are_as_core_writes_them() {
        for x in [
            0.0,
            1.0,
            -1.5,
            0.8,
            0.05,
            1e-6,
            123_456.5,
            16_777_216.0,
            f32::INFINITY,
            -0.25,
            f32::NAN,
        ] {
            assert_eq!(Decimal(x).to_string(), x.to_string());
        }
        assert_eq!(Decimal(1e20).to_string(), "1e12 or more");
        assert_eq!(Decimal(1e-40).to_string(), "0");
        assert_eq!(Decimal(4e-7).to_string(), "0");
        assert_eq!(Decimal(6e-7).to_string(), "0.000001");
    }

    proptest! {
        #[test]
        fn integers_are_as_core_writes_them(number: u64, shift in 0_u32..64) {
            for number in [number, number >> shift, u64::MAX, 0] {
                prop_assert_eq!(Number(number).to_string(), number.to_string());
                prop_assert_eq!(Hex::<16>(number).to_string(), format!("{number:016x}"));
                let low = number & 0xffff;
                prop_assert_eq!(Hex::<4>(number).to_string(), format!("{low:04x}"));
            }
        }

        #[test]
        fn decimals_are_the_nearest_millionths(x in 0.0_f32..1e12) {
            let expected = (f64::from(x) * 1e6).round();
            prop_assert!((millionths(x) as f64 - expected).abs() <= expected * 1e-15 + 1.0);
        }
    }
}
