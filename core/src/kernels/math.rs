//! exp, sin and cos: one implementation for every target, out of additions and multiplications.

/// Below this, [`exp`] is `+0.0`, and so nothing that is computed from it is subnormal.
pub const EXP_CUT: f32 = -40.0;

/// 1.5 · 2^23: adding it rounds a small number to an integer (to nearest even) in the low bits.
pub(super) const ROUNDER: f32 = 12_582_912.0;

/// ln 2 in two parts; the first has 9 digits, so that its product with n is exact.
pub(super) const LN_2_HIGH: f32 = 355.0 / 512.0;
pub(super) const LN_2_LOW: f32 = f32::from_bits(0xb95e_8083);

/// Coefficients of r to r^5.
pub(super) const EXP_POLYNOMIAL: [f32; 5] = [
    f32::from_bits(0x3f7f_fffb),
    f32::from_bits(0x3eff_fee3),
    f32::from_bits(0x3e2a_ad36),
    f32::from_bits(0x3d2b_9d36),
    f32::from_bits(0x3c07_d411),
];

/// e^x for x up to 88, with a relative error below 2e-7; `+0.0` below -40; NaN stays NaN.
///
/// The exponent is taken out by 2^n with n the integer nearest to x / ln 2, the rest, |r| ≤ ln 2 / 2,
/// goes through the polynomial of degree 5 with the smallest relative error (9.5e-8) among those
/// that are 1 at 0.
#[inline(always)]
#[must_use]
pub fn exp(x: f32) -> f32 {
    let shifted = x * core::f32::consts::LOG2_E + ROUNDER;
    let n = shifted - ROUNDER;
    let r = (x - n * LN_2_HIGH) - n * LN_2_LOW;
    let [c1, c2, c3, c4, c5] = EXP_POLYNOMIAL;
    let p = 1.0 + r * (c1 + r * (c2 + r * (c3 + r * (c4 + r * c5))));
    // The low bits of `shifted` are n; adding them to the exponent multiplies by 2^n.
    let scaled = f32::from_bits(p.to_bits().wrapping_add(shifted.to_bits() << 23));
    if x < EXP_CUT { 0.0 } else { scaled }
}

/// Sine and cosine of an angle given as a fraction of a full turn, in units of 2^-64; each is at
/// most 1.5e-7 off.
///
/// An angle that is a multiple of a position is so computed without loss by a multiplication that
/// wraps around: whole turns fall off at the top.
#[must_use]
pub fn sin_cos(turn: u64) -> (f32, f32) {
    /// One unit of 2^-32 turns in radians.
    const UNIT: f32 = core::f32::consts::TAU / 4_294_967_296.0;
    // The high half, rounded: the truncation of a 32-bit right shift leaves less than 32 bits.
    #[allow(clippy::cast_possible_truncation)]
    let turn = (turn >> 32) as u32;
    // Quarters of a turn, and what is left around the nearest, -1/8 to 1/8 of a turn.
    let quarter = turn.wrapping_add(1 << 29) >> 30;
    let rest = turn.wrapping_sub(quarter << 30).cast_signed();
    #[allow(clippy::cast_precision_loss)] // Rounds to nearest even on every target.
    let x = rest as f32 * UNIT;
    let z = x * x;
    // The polynomials of the Cephes library for single precision.
    let sin = x + x * (z * (-1.666_665_5e-1 + z * (8.332_161e-3 + z * -1.951_529_6e-4)));
    let cos =
        (1.0 - 0.5 * z) + (z * z) * (4.166_664_6e-2 + z * (-1.388_731_6e-3 + z * 2.443_315_7e-5));
    match quarter {
        0 => (sin, cos),
        1 => (cos, -sin),
        2 => (-sin, -cos),
        _ => (-cos, sin),
    }
}

#[cfg(test)]
#[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss)]
mod tests {
    use super::*;

    #[test]
    fn exp_is_that_of_float64() {
        let mut worst = 0.0_f64;
        let mut x = -40.0_f32;
        while x < 80.0 {
            let truth = libm::exp(f64::from(x));
            let off = (f64::from(exp(x)) - truth).abs() / truth;
            worst = worst.max(off);
            x += 0.000_37;
        }
        assert!(worst < 2e-7, "{worst}");
        assert_eq!(exp(0.0).to_bits(), 1.0_f32.to_bits());
        assert_eq!(exp(-0.0).to_bits(), 1.0_f32.to_bits());
    }

    #[test]
    fn exp_ends_at_the_cut_and_keeps_nan() {
        for x in [-40.000_004, -50.0, -1e30, f32::MIN, f32::NEG_INFINITY] {
            assert_eq!(exp(x).to_bits(), 0, "{x}");
        }
        assert!(exp(EXP_CUT) > 0.0);
        assert!(exp(f32::NAN).is_nan());
    }

    #[test]
    fn sin_cos_are_those_of_float64() {
        let step = 0x0000_3f5a_91c3_7a31_u64;
        let mut worst = 0.0_f64;
        for turn in (0..200_000_u64).map(|n| n.wrapping_mul(step).wrapping_mul(977)) {
            let angle = turn as f64 / 18_446_744_073_709_551_616.0 * core::f64::consts::TAU;
            let (sin, cos) = sin_cos(turn);
            worst = worst.max((f64::from(sin) - libm::sin(angle)).abs());
            worst = worst.max((f64::from(cos) - libm::cos(angle)).abs());
        }
        assert!(worst < 1.5e-7, "{worst}");
    }

    #[test]
    fn quarters_of_a_turn_are_exact() {
        let quarter = |n: u64| sin_cos(n << 62);
        let exact = [(0.0, 1.0), (1.0, 0.0), (0.0, -1.0), (-1.0, 0.0)];
        for (n, expected) in (0..).zip(exact) {
            assert_eq!(quarter(n), expected);
        }
    }
}
