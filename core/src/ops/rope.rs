//! Rotary position embedding: angles as a pure function of the position.

use super::wide_float::WideFloat;
use crate::kernels::math::sin_cos;
use crate::model::Hyperparameters;

/// Fills `steps` with the angle by which each pair of a head turns from one position to the next,
/// in units of 2^-64 turns: `base^(-2i / rope_dim) / rope_scale` radians for pair `i`.
///
/// A step is as exact as with float64; an angle is a step times a position, which wraps around
/// without loss.
pub fn phase_steps(hp: &Hyperparameters, steps: &mut [u64]) {
    let pairs = u32::try_from(hp.rope_dim / 2).unwrap_or(1).max(1);
    let ratio = WideFloat::new(hp.rope_freq_base).inverse_root(pairs);
    let scale = WideFloat::new(hp.rope_scale).inverse_root(1);
    let mut step = WideFloat::TURNS_IN_A_RADIAN.times(scale);
    for to in steps {
        // Whole turns in one step change nothing.
        *to = step.fraction();
        step = step.times(ratio);
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
