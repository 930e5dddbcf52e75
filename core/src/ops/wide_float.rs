//! Positive numbers with 64 bits of mantissa, out of integers: on a chip without double precision
//! the power function of f64 takes 8 KiB of flash.

/// `mantissa * 2^(exponent - 64)`; the highest bit of the mantissa is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WideFloat {
    mantissa: u64,
    exponent: i32,
}

impl WideFloat {
    const ONE: Self = Self {
        mantissa: 1 << 63,
        exponent: 1,
    };

    /// 1 / (2 π): the digits of 2 / π, two places lower.
    pub(super) const TURNS_IN_A_RADIAN: Self = Self {
        mantissa: 0xa2f9_836e_4e44_152a,
        exponent: -2,
    };

    /// The number, which must be above 0 and finite.
    pub(super) fn new(x: f32) -> Self {
        let field = (x.to_bits() >> 23) & 0xff;
        let implicit = u32::from(field != 0) << 23;
        let mantissa = u64::from((x.to_bits() & 0x007f_ffff) | implicit);
        let shift = mantissa.leading_zeros();
        Self {
            mantissa: mantissa << (shift % 64),
            exponent: field.max(1).cast_signed() - 150 + 64 - shift.cast_signed(),
        }
    }

    /// A product, rounded down.
    pub(super) fn times(self, other: Self) -> Self {
        let product = u128::from(self.mantissa) * u128::from(other.mantissa);
        let exponent = self.exponent + other.exponent;
        #[allow(clippy::cast_possible_truncation)] // What is above has been looked at.
        if product >> 127 != 0 {
            let mantissa = (product >> 64) as u64;
            Self { mantissa, exponent }
        } else {
            let mantissa = (product >> 63) as u64;
            let exponent = exponent - 1;
            Self { mantissa, exponent }
        }
    }

    /// `self^n`.
    pub(super) fn power(self, mut n: u32) -> Self {
        let (mut power, mut square) = (Self::ONE, self);
        loop {
            if n & 1 != 0 {
                power = power.times(square);
            }
            n >>= 1;
            if n == 0 {
                return power;
            }
            square = square.times(square);
        }
    }

    /// The largest `r` with `r^n * self <= 1`, bit by bit; `n` is at least 1 and at most 2^23.
    pub(super) fn inverse_root(self, n: u32) -> Self {
        let fits = |r: Self| {
            let product = r.power(n).times(self);
            product.exponent < 1 || product == Self::ONE
        };
        let mut root = Self {
            exponent: 128,
            ..Self::ONE
        };
        while !fits(root) {
            root.exponent -= 1;
        }
        for bit in (0..63).rev() {
            let mantissa = root.mantissa | 1 << bit;
            let larger = Self { mantissa, ..root };
            if fits(larger) {
                root = larger;
            }
        }
        root
    }

    /// In units of 2^-64, without what is 1 and above.
    pub(super) fn fraction(self) -> u64 {
        let shift = self.exponent.unsigned_abs();
        let shifted = if self.exponent < 0 {
            self.mantissa.checked_shr(shift)
        } else {
            self.mantissa.checked_shl(shift)
        };
        shifted.unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[allow(clippy::cast_precision_loss)]
    fn to_f64(x: WideFloat) -> f64 {
        libm::scalbn(x.mantissa as f64, x.exponent - 64)
    }

    #[test]
    fn numbers_come_in_whole() {
        for x in [
            1.0,
            1.5,
            0.1,
            10_000.0,
            f32::MAX,
            f32::MIN_POSITIVE,
            1e-45,
            3e-40,
        ] {
            let wide = WideFloat::new(x);
            assert_eq!(to_f64(wide), f64::from(x), "{x}");
            assert!(wide.mantissa >> 63 == 1);
        }
        let turn = to_f64(WideFloat::TURNS_IN_A_RADIAN);
        assert_eq!(turn, 1.0 / core::f64::consts::TAU);
    }

    #[test]
    fn roots_and_powers_are_those_of_float64() {
        for x in [1.0_f32, 10_000.0, 500_000.0, 1e6, 2.0, 0.25, 0.1, 7.5, 3e38] {
            for n in [1, 2, 3, 4, 24, 32, 64, 1000, 1 << 23] {
                let root = WideFloat::new(x).inverse_root(n);
                let expected = libm::pow(f64::from(x), -1.0 / f64::from(n));
                let off = (to_f64(root) / expected - 1.0).abs();
                // The exponent of the expected power is itself rounded.
                let rounding = f64::EPSILON * libm::fabs(libm::log(f64::from(x))) / f64::from(n);
                assert!(off < 1e-15 + rounding, "{x}^(-1/{n}): {off}");
                // Each rounding is below 2^-63, and squaring doubles what was lost before.
                let power = to_f64(root.power(n)) * f64::from(x);
                assert!(
                    (power - 1.0).abs() < 1e-15 + 4e-19 * f64::from(n),
                    "{x}^(-1/{n})^{n}: {power}"
                );
            }
        }
    }

    #[test]
    fn exact_roots_are_exact() {
        assert_eq!(WideFloat::new(1.0).inverse_root(5), WideFloat::ONE);
        assert_eq!(WideFloat::new(16.0).inverse_root(4), WideFloat::new(0.5));
        assert_eq!(WideFloat::new(0.125).inverse_root(3), WideFloat::new(2.0));
    }

    #[test]
    fn whole_turns_fall_off() {
        assert_eq!(WideFloat::new(3.25).fraction(), 1 << 62);
        assert_eq!(WideFloat::new(0.75).fraction(), 3 << 62);
        assert_eq!(WideFloat::new(1e-10).fraction(), 1_844_674_432);
        assert_eq!(WideFloat::new(1e30).fraction(), 0);
        assert_eq!(WideFloat::new(1e-30).fraction(), 0);
    }
}
