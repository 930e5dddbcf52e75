//! Rotary position embedding: angles as a pure function of the position.

use crate::kernels::math::sin_cos;
use crate::model::Hyperparameters;

/// Fills `steps` with the angle by which each pair of a head turns from one position to the next,
/// in units of 2^-64 turns: `base^(-2i / rope_dim) / rope_scale` radians for pair `i`.
///
/// One step is rounded once, to 2^-53 of itself or better; an angle is a step times a position,
/// which wraps around without loss.
pub fn phase_steps(hp: &Hyperparameters, steps: &mut [u64]) {
    const UNITS_IN_A_TURN: f64 = 18_446_744_073_709_551_616.0;
    let base = f64::from(hp.rope_freq_base);
    let scale = f64::from(hp.rope_scale);
    for (pair, step) in (0_u32..).zip(steps.iter_mut()) {
        #[allow(clippy::cast_precision_loss)] // At most 2^24.
        let exponent = f64::from(2 * pair) / hp.rope_dim as f64;
        let radians = libm::pow(base, -exponent) / scale;
        let turns = radians / core::f64::consts::TAU;
        // Whole turns in one step change nothing.
        let turns = turns - libm::floor(turns);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Saturates; in range.
        {
            *step = (turns * UNITS_IN_A_TURN) as u64;
        }
    }
}

/// Fills `rotation` with (cosine, sine) of every pair's angle at `position`.
pub fn rotation(steps: &[u64], position: u64, rotation: &mut [f32]) {
    let (pairs, _) = rotation.as_chunks_mut::<2>();
    for (pair, step) in pairs.iter_mut().zip(steps) {
        let (sin, cos) = sin_cos(step.wrapping_mul(position));
        *pair = [cos, sin];
    }
}

#[cfg(test)]
#[allow(clippy::cast_precision_loss)]
mod tests {
    use super::*;

    fn hyperparameters(rope_dim: usize, base: f32, scale: f32) -> Hyperparameters {
        Hyperparameters {
            n_layers: 1,
            n_embd: 64,
            n_ff: 64,
            n_heads: 1,
            n_kv_heads: 1,
            head_dim: rope_dim,
            n_vocab: 2,
            n_ctx: 8,
            rope_dim,
            rope_freq_base: base,
            rope_scale: scale,
            rms_eps: 1e-5,
        }
    }

    #[test]
    fn angles_are_those_of_float64_far_out_too() {
        for (rope_dim, base, scale) in [(8, 10_000.0, 1.0), (128, 500_000.0, 4.0), (6, 1.0, 0.1)] {
            let hp = hyperparameters(rope_dim, base, scale);
            let mut steps = std::vec![0; rope_dim / 2];
            phase_steps(&hp, &mut steps);
            for position in [0_u64, 1, 2, 511, 4095, 131_071] {
                let mut found = std::vec![0.0; rope_dim];
                rotation(&steps, position, &mut found);
                for (pair, found) in found.chunks(2).enumerate() {
                    let exponent = 2.0 * pair as f64 / rope_dim as f64;
                    let step = libm::pow(f64::from(base), -exponent) / f64::from(scale);
                    let angle = position as f64 * step;
                    let expected = [libm::cos(angle), libm::sin(angle)];
                    for (found, expected) in found.iter().zip(expected) {
                        let off = (f64::from(*found) - expected).abs();
                        assert!(off < 2e-7, "pair {pair} at {position}: {off}");
                    }
                }
            }
        }
    }
}
