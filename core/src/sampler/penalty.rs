//! Changes of logits before the choice.

/// Makes every token of `recent` less likely, once however often it occurs there, by llama.cpp's
/// rule: a positive logit is divided by `penalty`, any other multiplied. Ids past the end are
/// passed over.
pub fn repeat_penalty(logits: &mut [f32], recent: &[u32], penalty: f32) {
    repeat_penalty_from(0, logits, recent, penalty);
}

/// As [`repeat_penalty`], for the logits of the tokens from `first` on.
pub(super) fn repeat_penalty_from(first: u32, logits: &mut [f32], recent: &[u32], penalty: f32) {
    for (i, id) in recent.iter().enumerate() {
        if recent.iter().take(i).any(|earlier| earlier == id) {
            continue;
        }
        let at = id
            .checked_sub(first)
            .and_then(|at| usize::try_from(at).ok());
        if let Some(logit) = at.and_then(|at| logits.get_mut(at)) {
            if *logit <= 0.0 {
                *logit *= penalty;
            } else {
                *logit /= penalty;
            }
        }
    }
}

/// Adds to the logits of single tokens; `-inf` forbids one. Ids past the end are passed over.
pub fn logit_bias(logits: &mut [f32], biases: &[(u32, f32)]) {
    logit_bias_from(0, logits, biases);
}

/// As [`logit_bias`], for the logits of the tokens from `first` on.
pub(crate) fn logit_bias_from(first: u32, logits: &mut [f32], biases: &[(u32, f32)]) {
    for (id, bias) in biases {
        let at = id
            .checked_sub(first)
            .and_then(|at| usize::try_from(at).ok());
        if let Some(logit) = at.and_then(|at| logits.get_mut(at)) {
            *logit += bias;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_recent_token_is_penalized_once() {
        let mut logits = [2.0, -2.0, 0.0, 4.0, f32::NEG_INFINITY];
        repeat_penalty(&mut logits, &[0, 1, 0, 2, 4, 99, 0], 2.0);
        assert_eq!(logits, [1.0, -4.0, 0.0, 4.0, f32::NEG_INFINITY]);
    }

    #[test]
    fn a_bias_is_added() {
        let mut logits = [1.0, 2.0];
        logit_bias(&mut logits, &[(1, f32::NEG_INFINITY), (0, 0.5), (2, 1.0)]);
        assert_eq!(logits, [1.5, f32::NEG_INFINITY]);
    }
}
