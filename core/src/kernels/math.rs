//! exp, sin and cos: one implementation for every target, out of additions and multiplications; and
//! the square root, which is exact everywhere.

/// Below this, [`exp`] is `+0.0`, and so nothing that is computed from it is subnormal.
pub const EXP_CUT: f32 = -40.0;

/// 1.5 · 2^23: adding it rounds a small number to an integer (to nearest even) in the low bits.
pub(super) const ROUNDER: f32 = 12_582_912.0;

/// The bits of 1.
pub(super) const ONE: u32 = 127 << 23;

/// Coefficients of f to f^5 in 2^f: with 1 in front the polynomial with the smallest relative error
/// for |f| ≤ 1/2, 1.1e-7, that is 1 at 0.
pub(super) const EXP2_POLYNOMIAL: [f32; 5] = [
    f32::from_bits(0x3f31_7215),
    f32::from_bits(0x3e75_fcde),
    f32::from_bits(0x3d63_5ba9),
    f32::from_bits(0x3c1e_7545),
    f32::from_bits(0x3aad_dd09),
];

/// e^x for x up to 88; `+0.0` below -40; NaN stays NaN. The relative error is below
/// 2e-7 + 1e-7 |x|: what is small beside e^0, in a softmax or a sigmoid, is small enough with its
/// error too.
///
/// x / ln 2 is the nearest integer n and a rest f, |f| ≤ 1/2, without loss; 2^n is made from bits,
/// 2^f is a polynomial.
#[inline(always)]
#[must_use]
pub fn exp(x: f32) -> f32 {
    let t = x * core::f32::consts::LOG2_E;
    let shifted = t + ROUNDER;
    let f = t - (shifted - ROUNDER);
    let [c1, c2, c3, c4, c5] = EXP2_POLYNOMIAL;
    let p = 1.0 + f * (c1 + f * (c2 + f * (c3 + f * (c4 + f * c5))));
    // The low bits of `shifted` are n. A product, not a sum of exponents: NaN must stay NaN.
    let power = f32::from_bits((shifted.to_bits() << 23).wrapping_add(ONE));
    if x < EXP_CUT { 0.0 } else { p * power }
}

/// The square root, rounded to nearest even.
#[inline(always)]
#[must_use]
pub fn sqrt(x: f32) -> f32 {
    #[cfg(all(target_arch = "arm", any(feature = "dsp", feature = "mve")))]
    #[allow(unsafe_code)] // Stable Rust has no other way to the instruction without `std`.
    {
        let root: u32;
        // SAFETY: whoever turned the feature on says that there is an FPU; only registers change.
        unsafe {
            core::arch::asm!(
                "vmov s0, {x}",
                "vsqrt.f32 s0, s0",
                "vmov {x}, s0",
                x = inout(reg) x.to_bits() => root,
                out("s0") _,
                options(pure, nomem, nostack, preserves_flags)
            );
        }
        f32::from_bits(root)
    }
    #[cfg(not(all(target_arch = "arm", any(feature = "dsp", feature = "mve"))))]
    libm::sqrtf(x)
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
        let mut x = -40.0_f32;
        while x < 80.0 {
            let truth = libm::exp(f64::from(x));
            let off = (f64::from(exp(x)) - truth).abs() / truth;
            assert!(off < 2e-7 + 1e-7 * f64::from(x.abs()), "{x}: {off}");
            x += 0.000_37;
        }
        assert_eq!(exp(0.0).to_bits(), 1.0_f32.to_bits());
        assert_eq!(exp(-0.0).to_bits(), 1.0_f32.to_bits());
    }

    #[test]
    fn exp_ends_at_the_cut_and_keeps_nan() {
        for x in [-40.000_004, -50.0, -1e30, f32::MIN, f32::NEG_INFINITY] {
            assert_eq!(exp(x).to_bits(), 0, "{x}");
        }
        assert!(exp(EXP_CUT) > 0.0);
        for payload in 1..512 {
            assert!(exp(f32::from_bits(0x7fc0_0000 | payload)).is_nan());
            assert!(exp(f32::from_bits(0xff80_0000 | payload)).is_nan());
        }
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
