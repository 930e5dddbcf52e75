//! The chain from logits to one token for who has no room for all logits: they are gone through
//! again and again.
//!
//! The token is the one that [`SamplerSettings::choose`] takes from the same logits, with every sum
//! in the same order: the first pass finds the highest logit, the second the sum of the weights,
//! the third the tokens that top-k and top-p leave. Greedily, the first is enough. More are needed
//! only where the scratch does not hold those tokens.

use super::choose::{Likeliest, SampleError};
use super::penalty::repeat_penalty_from;
use super::settings::SamplerSettings;
use super::softmax::Weights;

/// Takes the logits of some tokens, with the id of the first; may overwrite them.
pub type Each<'e> = dyn FnMut(u32, &mut [f32]) + 'e;

/// Tokens in the scratch for those who lend none. The answer does not depend on it.
const OWN_SCRATCH: usize = 16;

impl SamplerSettings {
    /// As [`choose`](Self::choose), but from logits that come in pieces, several times.
    ///
    /// - `pass`: calls what it is given for all logits, piece by piece in the order of ids; they
    ///   must be the same every time.
    /// - `recent`: ids that the repetition penalty applies to.
    /// - `scratch`: of any length; the answer is always the same. Two words hold one of the tokens
    ///   that come into question; where they do not suffice, there are more passes.
    /// - `coin`: a draw from `[0, 1)`, called only if chance has a say.
    ///
    /// # Errors
    /// As for [`choose`](Self::choose), or what a pass reports.
    pub fn choose_in_passes<E: From<SampleError>>(
        &self,
        pass: &mut dyn FnMut(&mut Each<'_>) -> Result<(), E>,
        recent: &[u32],
        scratch: &mut [u32],
        coin: impl FnOnce() -> f32,
    ) -> Result<u32, E> {
        self.validate().map_err(SampleError::Settings)?;
        let penalty = self.repeat_penalty;
        let mut pass = |each: &mut Each<'_>| {
            pass(&mut |first, logits| {
                if penalty != 1.0 {
                    repeat_penalty_from(first, logits, recent, penalty);
                }
                each(first, logits);
            })
        };
        let mut likeliest = Likeliest::default();
        let mut count = 0;
        pass(&mut |first, logits| {
            likeliest.look_at(first, logits);
            count += logits.len();
        })?;
        let (id, highest) = likeliest.found()?;
        if self.temperature == 0.0 || highest == f32::INFINITY {
            return Ok(id);
        }
        let logits = Logits {
            pass: &mut pass,
            count,
        };
        let coin = coin();
        let chosen = match scratch.as_chunks_mut().0 {
            [] => self.pass_with_own_scratch(logits, highest, coin),
            scratch => self.pass(logits, highest, scratch, coin),
        };
        // The likeliest token passes every filter.
        Ok(chosen?.unwrap_or(id))
    }

    #[inline(never)] // So that only who lends no scratch has it on the stack.
    fn pass_with_own_scratch<E>(
        &self,
        logits: Logits<'_, E>,
        highest: f32,
        coin: f32,
    ) -> Result<Option<u32>, E> {
        self.pass(logits, highest, &mut [[0; 2]; OWN_SCRATCH], coin)
    }

    #[inline(never)] // As above.
    fn pass<E>(
        &self,
        logits: Logits<'_, E>,
        highest: f32,
        scratch: &mut [[u32; 2]],
        coin: f32,
    ) -> Result<Option<u32>, E> {
        if self.is_llama2c() {
            self.pass_as_llama2c(logits, highest, scratch, coin)
        } else {
            self.pass_as_llama_cpp(logits, highest, scratch, coin)
        }
    }

    /// Temperature, softmax, top-p.
    fn pass_as_llama2c<E>(
        &self,
        mut logits: Logits<'_, E>,
        highest: f32,
        scratch: &mut [[u32; 2]],
        coin: f32,
    ) -> Result<Option<u32>, E> {
        let weights = Weights::new(highest, self.temperature);
        let mut sum = 0.0;
        logits.each(&mut |_, logit| sum += weights.of(logit))?;
        let probability = |logit| weights.of(logit) / sum;
        let Some(top_p) = self.top_p() else {
            return logits.draw(coin, &|logit| Some(probability(logit)));
        };
        // As in `choose`: nothing below this can be among the tokens that are left.
        let cutoff = (1.0 - top_p) / (logits.count - 1) as f32;
        let mut candidates = Candidates::new(&probability, cutoff, scratch);
        let mut cumulative = 0.0;
        let mut kept = 0;
        while let Some((_, probability)) = candidates.next(&mut logits)? {
            cumulative += probability;
            kept += 1;
            if cumulative > top_p {
                break;
            }
        }
        candidates.draw(&mut logits, kept, coin * cumulative, |probability| {
            probability
        })
    }

    /// Top-k, top-p, min-p, temperature.
    fn pass_as_llama_cpp<E>(
        &self,
        mut logits: Logits<'_, E>,
        highest: f32,
        scratch: &mut [[u32; 2]],
        coin: f32,
    ) -> Result<Option<u32>, E> {
        let plain = Weights::new(highest, 1.0);
        let tempered = Weights::new(highest, self.temperature);
        let top_k = usize::try_from(self.top_k)
            .ok()
            .filter(|k| (1..logits.count).contains(k));
        if top_k.is_none() && self.top_p().is_none() {
            let kept = |logit| (plain.of(logit) >= self.min_p).then(|| tempered.of(logit));
            let mut total = 0.0;
            logits.each(&mut |_, logit| total += kept(logit).unwrap_or(0.0))?;
            return logits.draw(coin * total, &kept);
        }

        // The floor leaves out forbidden tokens.
        let same = |logit| logit;
        let mut candidates = Candidates::new(&same, f32::MIN, scratch);
        let limit = top_k.unwrap_or(logits.count);
        let mut enough = None;
        if let Some(top_p) = self.top_p() {
            let mut sum = 0.0;
            if let Some(k) = top_k {
                for _ in 0..k {
                    let Some((_, logit)) = candidates.next(&mut logits)? else {
                        break;
                    };
                    sum += plain.of(logit);
                }
                candidates.restart();
            } else {
                logits.each(&mut |_, logit| sum += plain.of(logit))?;
            }
            enough = Some(top_p * sum);
        }
        let mut kept = 0;
        let mut cumulative = 0.0;
        let mut total = 0.0;
        while kept < limit {
            let Some((_, logit)) = candidates.next(&mut logits)? else {
                break;
            };
            let weight = plain.of(logit);
            if weight < self.min_p {
                break;
            }
            kept += 1;
            cumulative += weight;
            total += tempered.of(logit);
            if enough.is_some_and(|enough| cumulative > enough) {
                break;
            }
        }
        candidates.draw(&mut logits, kept, coin * total, |logit| tempered.of(logit))
    }
}

/// All logits, which can be gone through as often as need be.
struct Logits<'p, E> {
    pass: &'p mut dyn FnMut(&mut Each<'_>) -> Result<(), E>,
    count: usize,
}

impl<E> Logits<'_, E> {
    /// Goes through them once.
    fn each(&mut self, each: &mut dyn FnMut(u32, f32)) -> Result<(), E> {
        (self.pass)(&mut |first, logits| {
            for (id, &mut logit) in (first..).zip(logits) {
                each(id, logit);
            }
        })
    }

    /// Draws among the tokens for which there is a weight.
    fn draw(&mut self, target: f32, weight: &dyn Fn(f32) -> Option<f32>) -> Result<Option<u32>, E> {
        let mut draw = Draw::new(target);
        self.each(&mut |id, logit| {
            if let Some(weight) = weight(logit) {
                draw.look_at(id, weight);
            }
        })?;
        Ok(draw.found())
    }
}

/// The first token at which the sum of the weights passes a target; where rounding has the sum end
/// below it, the last token of any weight.
struct Draw {
    target: f32,
    sum: f32,
    found: Option<u32>,
    last: Option<u32>,
}

impl Draw {
    fn new(target: f32) -> Self {
        Self {
            target,
            sum: 0.0,
            found: None,
            last: None,
        }
    }

    fn look_at(&mut self, id: u32, weight: f32) {
        self.sum += weight;
        if self.found.is_none() && self.target < self.sum {
            self.found = Some(id);
        }
        if weight > 0.0 {
            self.last = Some(id);
        }
    }

    fn found(self) -> Option<u32> {
        self.found.or(self.last)
    }
}

/// Tokens by descending value, of equals the lower id first: what
/// [`Descending`](super::descending::Descending) is for a slice.
///
/// A pass over the logits collects the next tokens in the scratch, each with the bits of its value.
struct Candidates<'a> {
    value: &'a dyn Fn(f32) -> f32,
    floor: f32,
    scratch: &'a mut [[u32; 2]],
    /// `scratch[..filled]` is in order, `scratch[..at]` was handed out.
    filled: usize,
    at: usize,
    /// The token that was handed out last.
    last: Option<(u32, f32)>,
    /// Whether tokens come after those of the scratch.
    more: bool,
    /// Whether all that was handed out still lies in the scratch.
    whole: bool,
}

impl<'a> Candidates<'a> {
    /// Leaves out tokens whose value is below `floor`. `scratch` must not be empty, and no value
    /// NaN.
    fn new(value: &'a dyn Fn(f32) -> f32, floor: f32, scratch: &'a mut [[u32; 2]]) -> Self {
        Self {
            value,
            floor,
            scratch,
            filled: 0,
            at: 0,
            last: None,
            more: true,
            whole: true,
        }
    }

    /// The next tokens will again be those from the first on.
    fn restart(&mut self) {
        self.at = 0;
        if !self.whole {
            self.last = None;
            self.filled = 0;
            self.more = true;
            self.whole = true;
        }
    }

    fn next<E>(&mut self, logits: &mut Logits<'_, E>) -> Result<Option<(u32, f32)>, E> {
        if self.at == self.filled && self.more {
            self.whole = self.filled == 0;
            self.fill(logits)?;
        }
        if self.at == self.filled {
            return Ok(None);
        }
        let next = self.scratch.get(self.at).map(token);
        self.last = next;
        self.at += 1;
        Ok(next)
    }

    /// Collects the best tokens that come after the last one handed out.
    fn fill<E>(&mut self, logits: &mut Logits<'_, E>) -> Result<(), E> {
        self.at = 0;
        self.filled = 0;
        self.more = false;
        logits.each(&mut |id, logit| {
            let value = (self.value)(logit);
            let new = (id, value);
            if value < self.floor || self.last.is_some_and(|last| !before(last, new)) {
                return;
            }
            if self.filled < self.scratch.len() {
                self.filled += 1;
            } else {
                self.more = true;
                if self
                    .scratch
                    .last()
                    .is_none_or(|worst| before(token(worst), new))
                {
                    return;
                }
            }
            // The ones behind it move on; the worst of a full scratch falls out.
            let mut at = self.filled - 1;
            while at > 0 && before(new, token(&self.scratch[at - 1])) {
                self.scratch[at] = self.scratch[at - 1];
                at -= 1;
            }
            self.scratch[at] = [id, value.to_bits()];
        })
    }

    /// Draws among the first `kept` tokens.
    fn draw<E>(
        mut self,
        logits: &mut Logits<'_, E>,
        kept: usize,
        target: f32,
        weight: impl Fn(f32) -> f32,
    ) -> Result<Option<u32>, E> {
        self.restart();
        let mut draw = Draw::new(target);
        for _ in 0..kept {
            let Some((id, value)) = self.next(logits)? else {
                break;
            };
            draw.look_at(id, weight(value));
            if draw.found.is_some() {
                break;
            }
        }
        Ok(draw.found())
    }
}

/// A token of the scratch.
fn token(&[id, bits]: &[u32; 2]) -> (u32, f32) {
    (id, f32::from_bits(bits))
}

/// Whether `a` comes before `b`.
fn before(a: (u32, f32), b: (u32, f32)) -> bool {
    a.1 > b.1 || (a.1 == b.1 && a.0 < b.0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The choice in passes over pieces of a length, and how many there were.
    fn in_passes(
        settings: &SamplerSettings,
        logits: &[f32],
        piece: usize,
        recent: &[u32],
        scratch: usize,
        coin: f32,
    ) -> (Result<u32, SampleError>, usize) {
        let mut passes = 0;
        let mut pass = |each: &mut Each<'_>| {
            passes += 1;
            let mut first = 0;
            // Each time from fresh logits: the pieces may be overwritten.
            for piece in logits.to_vec().chunks_mut(piece) {
                each(first, piece);
                piece.fill(f32::NAN);
                first += u32::try_from(piece.len()).unwrap();
            }
            Ok(())
        };
        let mut scratch = std::vec![0; scratch];
        let id = settings.choose_in_passes(&mut pass, recent, &mut scratch, || coin);
        (id, passes)
    }

    /// Numbers with many ties, and with many that become ties only as probabilities.
    fn logit() -> impl Strategy<Value = f32> {
        prop_oneof![
            8 => (-6_i8..6).prop_map(f32::from),
            8 => (0_u32..4).prop_map(|ulps| f32::from_bits(2.5_f32.to_bits() + ulps)),
            8 => -8.0_f32..8.0,
            1 => Just(f32::NEG_INFINITY),
            1 => Just(-3.0e38_f32),
        ]
    }

    fn settings() -> impl Strategy<Value = SamplerSettings> {
        let temperature = prop_oneof![Just(0.0_f32), Just(1.0), 1e-3_f32..4.0];
        let top_p = prop_oneof![Just(0.0_f32), Just(1.0), 1e-6_f32..1.0];
        let top_k = prop_oneof![2 => Just(0_u32), 1 => 1_u32..20];
        let min_p = prop_oneof![2 => Just(0.0_f32), 1 => 0.0_f32..=1.0];
        let penalty = prop_oneof![2 => Just(1.0_f32), 1 => 0.5_f32..2.0];
        (temperature, top_p, top_k, min_p, penalty).prop_map(
            |(temperature, top_p, top_k, min_p, repeat_penalty)| SamplerSettings {
                temperature,
                top_k,
                top_p,
                min_p,
                repeat_penalty,
            },
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1024))]

        #[test]
        fn the_token_is_that_of_a_buffer_with_all_logits(
            settings in settings(),
            logits in prop::collection::vec(logit(), 1..120),
            recent in prop::collection::vec(0_u32..130, 0..6),
            (piece, scratch) in (1_usize..130, 0_usize..90),
            coin in prop_oneof![Just(0.0_f32), Just(1.0 - f32::EPSILON / 2.0), 0.0_f32..1.0],
        ) {
            let expected = settings.choose(&mut logits.clone(), &recent, &mut [], || coin);
            let (found, _) = in_passes(&settings, &logits, piece, &recent, scratch, coin);
            prop_assert_eq!(found, expected);
        }

        #[test]
        fn what_cannot_be_chosen_from_is_refused_alike(
            mut logits in prop::collection::vec(logit(), 0..20),
            bad in prop::collection::vec((0_usize..20, 0_usize..3), 1..4),
            piece in 1_usize..8,
        ) {
            for (at, kind) in bad {
                let bad = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY][kind];
                if let Some(logit) = logits.get_mut(at) {
                    *logit = bad;
                }
            }
            let settings = SamplerSettings::LLAMA2C;
            let expected = settings.choose(&mut logits.clone(), &[], &mut [], || 0.5);
            prop_assert_eq!(in_passes(&settings, &logits, piece, &[], 8, 0.5).0, expected);
        }
    }

    #[test]
    fn three_passes_do_with_enough_scratch() {
        let logits: std::vec::Vec<f32> = (0..100_u8).map(|i| f32::from(i % 10) * 3.0).collect();
        let passes = |settings: &SamplerSettings, scratch| {
            in_passes(settings, &logits, 7, &[], scratch, 0.5).1
        };
        assert_eq!(passes(&SamplerSettings::GREEDY, 0), 1);
        assert_eq!(passes(&SamplerSettings::LLAMA2C, 20), 3);
        // The ten likeliest are needed, two are held at a time, and they are gone through twice
        // to the fifth.
        assert_eq!(passes(&SamplerSettings::LLAMA2C, 4), 2 + 5 + 3);
    }

    #[test]
    fn a_pass_that_fails_ends_it() {
        let settings = SamplerSettings::LLAMA2C;
        let mut left = 2;
        let mut pass = |each: &mut Each<'_>| {
            each(0, &mut [1.0, 2.0]);
            left -= 1;
            if left == 0 {
                Err(SampleError::Empty)
            } else {
                Ok(())
            }
        };
        let result = settings.choose_in_passes(&mut pass, &[], &mut [], || 0.5);
        assert_eq!(result, Err(SampleError::Empty));
    }
}
