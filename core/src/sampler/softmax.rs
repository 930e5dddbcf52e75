//! From logits to weights.

use crate::kernels::math::exp;

/// Gives exp((logit − highest) / temperature), which is 1 for the highest logit.
#[derive(Clone, Copy)]
pub(super) struct Weights {
    highest: f32,
    temperature: f32,
    highest_scaled: f32,
}

impl Weights {
    /// `highest` is finite and no logit is above it.
    pub(super) fn new(highest: f32, temperature: f32) -> Self {
        Self {
            highest,
            temperature,
            highest_scaled: highest / temperature,
        }
    }

    /// The weight of a logit: 0 to 1, never NaN.
    pub(super) fn of(self, logit: f32) -> f32 {
        // llama2.c divides first; the other way round holds where that overflows.
        exp(if self.highest_scaled.is_finite() {
            logit / self.temperature - self.highest_scaled
        } else {
            (logit - self.highest) / self.temperature
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tiniest_temperatures_leave_only_the_highest() {
        let lower = f32::NEG_INFINITY;
        for (highest, lower) in [
            (-3.0, -3.1),
            (0.0, -1.0),
            (f32::MAX, 5.0),
            (f32::MIN, lower),
        ] {
            let weights = Weights::new(highest, 1e-45);
            assert_eq!(weights.of(highest), 1.0);
            assert_eq!(weights.of(lower), 0.0);
        }
    }
}
