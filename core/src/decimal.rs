//! Numbers in messages.

use core::fmt;

/// An f32 with up to six decimals, for messages: what `core` has for it takes 16 KiB of flash.
pub(crate) struct Decimal(pub(crate) f32);

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MILLION: u64 = 1_000_000;
        let x = self.0;
        if x.is_nan() {
            return f.write_str("NaN");
        }
        if x.is_sign_negative() {
            f.write_str("-")?;
        }
        let x = f64::from(x.abs());
        if x >= 1e12 {
            return f.write_str(if x.is_finite() { "1e12 or more" } else { "inf" });
        }
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Below 10^18.
        let millionths = (x * 1e6 + 0.5) as u64;
        write!(f, "{}", millionths / MILLION)?;
        let mut rest = millionths % MILLION;
        if rest == 0 {
            return Ok(());
        }
        let mut width = 6;
        while rest.is_multiple_of(10) {
            rest /= 10;
            width -= 1;
        }
        write!(f, ".{rest:0width$}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString as _;

    #[test]
    fn is_as_core_writes_it() {
        for x in [
            0.0,
            1.0,
            -1.5,
            0.8,
            0.05,
            1e-6,
            123_456.5,
            f32::INFINITY,
            -0.25,
            f32::NAN,
        ] {
            assert_eq!(Decimal(x).to_string(), x.to_string());
        }
        assert_eq!(Decimal(1e20).to_string(), "1e12 or more");
    }
}
