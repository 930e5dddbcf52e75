//! Decimal numbers as they are typed.

use core::fmt;

/// A number such as `0.8`, of at most seven digits, that is shown as it was typed. What the standard
/// library has for this takes some kilobytes of flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Number {
    digits: u32,
    /// How many of them come behind the point, and ten to that power.
    decimals: u8,
    power: u32,
}

impl Number {
    /// 1.
    pub const ONE: Self = Self {
        digits: 1,
        decimals: 0,
        power: 1,
    };

    /// 0.9.
    pub const NINE_TENTHS: Self = Self {
        digits: 9,
        decimals: 1,
        power: 10,
    };

    /// Digits, at most one point, nothing else; `None` if it is not that, or too long to be exact.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        if !(1..=7).contains(&(whole.len() + fraction.len())) {
            return None;
        }
        let mut digits = 0_u32;
        for digit in whole.bytes().chain(fraction.bytes()) {
            if !digit.is_ascii_digit() {
                return None;
            }
            digits = digits * 10 + u32::from(digit - b'0');
        }
        let decimals = u8::try_from(fraction.len()).ok()?;
        let power = 10_u32.pow(u32::from(decimals));
        // Both are below 2^24, so that they are exact as f32.
        (digits < 1 << 24).then_some(Self {
            digits,
            decimals,
            power,
        })
    }

    /// The nearest f32, which is what the standard library makes of the text.
    #[must_use]
    #[allow(clippy::cast_precision_loss)] // Exact: below 2^24.
    pub fn value(self) -> f32 {
        self.digits as f32 / self.power as f32
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        smidgen_core::Number((self.digits / self.power).into()).fmt(f)?;
        let mut digits = [b'.'; 8];
        let mut rest = self.digits % self.power;
        let width = usize::from(self.decimals);
        for digit in digits.iter_mut().skip(1).take(width).rev() {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        match width {
            0 => Ok(()),
            _ => f.write_str(core::str::from_utf8(&digits[..=width]).unwrap_or_default()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::string::ToString as _;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_no_number_is_refused() {
        for text in [
            "", ".", "-1", "1e3", "0.1.2", "12345678", "nan", "inf", " 1", "\u{661}",
        ] {
            assert_eq!(Number::parse(text), None, "{text}");
        }
        // Eight digits of which seven fit 24 bits, and seven that do not.
        assert!(Number::parse("9999999").is_some());
        assert_eq!(Number::parse("0.80").unwrap().to_string(), "0.80");
        assert_eq!(Number::parse("1"), Some(Number::ONE));
        assert_eq!(Number::parse("0.9"), Some(Number::NINE_TENTHS));
    }

    proptest! {
        #[test]
        fn is_read_and_shown_as_the_standard_library_does(whole in 0..1000_u32, rest in 0..10_000_u32) {
            let text = std::format!("{whole}.{rest:04}");
            let number = Number::parse(&text);
            prop_assert_eq!(number.map(Number::value), text.parse().ok());
            prop_assert_eq!(number.map(|n| n.to_string()), Some(text));
        }
    }
}
