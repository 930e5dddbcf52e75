//! The chain from logits to one token.

use super::descending::Descending;
use super::penalty::repeat_penalty;
use super::settings::{SamplerSettings, SettingsError};
use super::softmax::Weights;
use crate::message::{Message, display_message};

/// Scratch for those who lend none. The answer does not depend on its length.
const OWN_SCRATCH: usize = 32;

impl SamplerSettings {
    /// The token that these settings choose.
    ///
    /// - `logits`: one a token; `-inf` forbids a token. Overwritten.
    /// - `recent`: ids that the repetition penalty applies to.
    /// - `scratch`: of any length, also empty; the answer is always the same. Only top-k and top-p
    ///   use it, for the tokens that come into question: if it does not hold them all, the logits
    ///   are looked through again for the next ones. `top_k` entries hold all if top-k is on,
    ///   else `logits.len()` entries do, and most often a few dozen.
    /// - `coin`: a draw from `[0, 1)`, called only if chance has a say.
    ///
    /// # Errors
    /// Settings out of their range; logits that no choice can be made from: none at all, NaN,
    /// more than one `+inf`, or all `-inf`.
    pub fn choose(
        &self,
        logits: &mut [f32],
        recent: &[u32],
        scratch: &mut [u32],
        coin: impl FnOnce() -> f32,
    ) -> Result<u32, SampleError> {
        self.validate().map_err(SampleError::Settings)?;
        if self.repeat_penalty != 1.0 {
            repeat_penalty(logits, recent, self.repeat_penalty);
        }
        let (id, highest) = likeliest(logits)?;
        if self.temperature == 0.0 || highest == f32::INFINITY {
            return Ok(id);
        }
        let mut own = [0; OWN_SCRATCH];
        let scratch = if scratch.is_empty() {
            &mut own[..]
        } else {
            scratch
        };
        let chosen = if self.is_llama2c() {
            self.choose_as_llama2c(logits, highest, scratch, coin())
        } else {
            self.choose_as_llama_cpp(logits, highest, scratch, coin())
        };
        // The likeliest token passes every filter.
        Ok(chosen.unwrap_or(id))
    }

    /// Temperature, softmax, top-p.
    fn choose_as_llama2c(
        &self,
        logits: &mut [f32],
        highest: f32,
        scratch: &mut [u32],
        coin: f32,
    ) -> Option<u32> {
        let weights = Weights::new(highest, self.temperature);
        let mut sum = 0.0;
        for x in &mut *logits {
            *x = weights.of(*x);
            sum += *x;
        }
        for x in &mut *logits {
            *x /= sum;
        }
        let probabilities = &*logits;
        let mut all = (0u32..).zip(probabilities.iter().copied());
        let Some(top_p) = self.top_p() else {
            return draw(&mut all, coin);
        };
        // Nothing below this can be among the tokens that sum to more than top-p: if one were,
        // those after it were no likelier and could not make up the rest. Where nothing reaches
        // it, a single token or one of a tiny top-p, the likeliest alone is more than top-p.
        let cutoff = (1.0 - top_p) / (probabilities.len() - 1) as f32;
        let mut candidates = Descending::new(probabilities, cutoff, scratch);
        let mut cumulative = 0.0;
        let mut kept = 0;
        for id in &mut candidates {
            cumulative += probabilities[id as usize];
            kept += 1;
            if cumulative > top_p {
                break;
            }
        }
        candidates.restart();
        let probability = |id| (id, probabilities[id as usize]);
        draw(
            &mut candidates.take(kept).map(probability),
            coin * cumulative,
        )
    }

    /// Top-k, top-p, min-p, temperature.
    fn choose_as_llama_cpp(
        &self,
        logits: &[f32],
        highest: f32,
        scratch: &mut [u32],
        coin: f32,
    ) -> Option<u32> {
        let plain = Weights::new(highest, 1.0);
        let tempered = Weights::new(highest, self.temperature);
        let weights = |id: u32| (id, tempered.of(logits[id as usize]));
        let top_k = usize::try_from(self.top_k)
            .ok()
            .filter(|k| (1..logits.len()).contains(k));
        if top_k.is_none() && self.top_p().is_none() {
            let mut kept = (0u32..)
                .zip(logits)
                .filter(|(_, x)| plain.of(**x) >= self.min_p)
                .map(|(id, _)| weights(id));
            let total: f32 = kept.clone().map(|(_, weight)| weight).sum();
            return draw(&mut kept, coin * total);
        }

        // The floor leaves out forbidden tokens.
        let mut candidates = Descending::new(logits, f32::MIN, scratch);
        let limit = top_k.unwrap_or(logits.len());
        let enough = self.top_p().map(|top_p| {
            let sum: f32 = match top_k {
                Some(k) => {
                    let sum = candidates
                        .by_ref()
                        .take(k)
                        .map(|id| plain.of(logits[id as usize]))
                        .sum();
                    candidates.restart();
                    sum
                }
                None => logits.iter().map(|x| plain.of(*x)).sum(),
            };
            top_p * sum
        });
        let mut kept = 0;
        let mut cumulative = 0.0;
        let mut total = 0.0;
        for id in candidates.by_ref().take(limit) {
            let weight = plain.of(logits[id as usize]);
            if weight < self.min_p {
                break;
            }
            kept += 1;
            cumulative += weight;
            total += weights(id).1;
            if enough.is_some_and(|enough| cumulative > enough) {
                break;
            }
        }
        candidates.restart();
        draw(&mut candidates.take(kept).map(weights), coin * total)
    }
}

/// The first token at which the sum of the weights passes `target`. Where rounding has the sum
/// end below it, the last token of any weight.
fn draw(weights: &mut dyn Iterator<Item = (u32, f32)>, target: f32) -> Option<u32> {
    let mut sum = 0.0;
    let mut last = None;
    for (id, weight) in weights {
        sum += weight;
        if target < sum {
            return Some(id);
        }
        if weight > 0.0 {
            last = Some(id);
        }
    }
    last
}

/// The token with the highest logit, of equals the lowest id, and that logit.
fn likeliest(logits: &[f32]) -> Result<(u32, f32), SampleError> {
    let mut likeliest = Likeliest::default();
    likeliest.look_at(0, logits);
    likeliest.found()
}

/// The search for the highest logit, over logits that may come in pieces.
#[derive(Clone, Copy, Default)]
pub(super) struct Likeliest {
    best: Option<(u32, f32)>,
    nan: Option<u32>,
    /// The second `+inf`.
    second: Option<u32>,
}

impl Likeliest {
    /// Looks at the logits of the tokens from `first` on.
    pub(super) fn look_at(&mut self, first: u32, logits: &[f32]) {
        for (id, logit) in (first..).zip(logits.iter().copied()) {
            let higher = match self.best {
                None => !logit.is_nan(),
                // False for NaN.
                Some((_, best)) => logit > best,
            };
            if higher {
                self.best = Some((id, logit));
            } else if logit.is_nan() {
                self.nan = self.nan.or(Some(id));
            } else if logit == f32::INFINITY {
                self.second = self.second.or(Some(id));
            }
        }
    }

    /// What was found.
    pub(super) fn found(self) -> Result<(u32, f32), SampleError> {
        if let Some(id) = self.nan {
            return Err(SampleError::Nan { id });
        }
        let (first, highest) = self.best.ok_or(SampleError::Empty)?;
        match (highest, self.second) {
            (f32::NEG_INFINITY, _) => Err(SampleError::AllForbidden),
            (_, Some(second)) => Err(SampleError::Infinite { first, second }),
            _ => Ok((first, highest)),
        }
    }
}

/// Why no token can be chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum SampleError {
    /// A setting makes no sense.
    Settings(SettingsError),
    /// There are no logits.
    Empty,
    /// A logit is NaN: the weights or the computation are broken.
    Nan {
        /// The first such token.
        id: u32,
    },
    /// More than one logit is `+inf`, so that none is the highest.
    Infinite {
        /// The first such token.
        first: u32,
        /// The second.
        second: u32,
    },
    /// All logits are `-inf`.
    AllForbidden,
}

impl SampleError {
    pub(crate) fn describe(&self, message: &mut Message<'_>) {
        match *self {
            Self::Settings(error) => {
                error.describe(message);
                message
            }
            Self::Empty => message.say("there are no logits"),
            Self::Nan { id } => message
                .say("the logit of token # is NaN")
                .numbers([id.into()]),
            Self::Infinite { first, second } => message
                .say("the logits of tokens # and # are both inf")
                .numbers([first.into(), second.into()]),
            Self::AllForbidden => message.say("all logits are -inf"),
        };
    }
}

display_message!(SampleError);
