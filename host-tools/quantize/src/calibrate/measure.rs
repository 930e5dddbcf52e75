//! How far two models are apart.

use rayon::prelude::*;
use smidgen_core::{model::Model, session::Session};

use super::runs::{CalibrateError, memory};

/// What two models say of the same tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Comparison {
    /// How many predictions were compared.
    pub predictions: u64,
    /// Sum of the negative logarithms of the first model's probabilities of what came.
    pub nll_a: f64,
    /// The same of the second model.
    pub nll_b: f64,
    /// Sum of the Kullback-Leibler divergences of the second from the first, in nats.
    pub divergence: f64,
    /// How often both find the same token the likeliest.
    pub same_top: u64,
}

impl Comparison {
    /// Perplexity of the first model.
    #[must_use]
    pub fn perplexity_a(&self) -> f64 {
        (self.nll_a / self.predictions as f64).exp()
    }

    /// Perplexity of the second model.
    #[must_use]
    pub fn perplexity_b(&self) -> f64 {
        (self.nll_b / self.predictions as f64).exp()
    }

    /// Mean divergence of a prediction, in nats.
    #[must_use]
    pub fn mean_divergence(&self) -> f64 {
        self.divergence / self.predictions as f64
    }

    /// The share of predictions with the same likeliest token.
    #[must_use]
    pub fn agreement(&self) -> f64 {
        self.same_top as f64 / self.predictions as f64
    }

    fn add(mut self, other: Self) -> Self {
        self.predictions += other.predictions;
        self.nll_a += other.nll_a;
        self.nll_b += other.nll_b;
        self.divergence += other.divergence;
        self.same_top += other.same_top;
        self
    }

    fn take(&mut self, a: &[f32], b: &[f32], next: u32) {
        let (log_a, log_b) = (log_softmax(a), log_softmax(b));
        let at = |logs: &[f64]| logs.get(next as usize).copied().unwrap_or(f64::NAN);
        self.predictions += 1;
        self.nll_a -= at(&log_a);
        self.nll_b -= at(&log_b);
        self.divergence += log_a
            .iter()
            .zip(&log_b)
            .map(|(a, b)| a.exp() * (a - b))
            .sum::<f64>();
        self.same_top += u64::from(top(a) == top(b));
    }
}

/// What a model says of token sequences.
#[derive(Clone, Debug)]
pub struct Baseline {
    n_vocab: usize,
    /// Each sequence with the logits behind each of its tokens but the last.
    said: Vec<(Vec<u32>, Vec<f32>)>,
}

impl Baseline {
    /// Runs a model over sequences of two tokens or more.
    ///
    /// # Errors
    /// It runs into numbers that are not finite, or into unknown tokens.
    pub fn new(model: &Model<'_>, sequences: &[&[u32]]) -> Result<Self, CalibrateError> {
        let said: Result<Vec<_>, CalibrateError> = sequences
            .par_iter()
            .map(|&sequence| Ok((sequence.to_vec(), logits(model, sequence)?)))
            .collect();
        Ok(Self {
            n_vocab: model.hyperparameters.n_vocab,
            said: said?,
        })
    }

    /// What another model says of them.
    ///
    /// # Errors
    /// It runs into numbers that are not finite, or its vocabulary has another size.
    pub fn compare(&self, other: &Model<'_>) -> Result<Comparison, CalibrateError> {
        let n_vocab = other.hyperparameters.n_vocab;
        if n_vocab != self.n_vocab {
            let cause = format!("it has {n_vocab} tokens, the other has {}", self.n_vocab);
            return Err(CalibrateError::new(&cause));
        }
        let compared: Result<Vec<_>, CalibrateError> = self
            .said
            .par_iter()
            .map(|(sequence, said)| {
                let mut comparison = Comparison::default();
                let others = logits(other, sequence)?;
                let rows = said.chunks(n_vocab).zip(others.chunks(n_vocab));
                for ((a, b), &next) in rows.zip(&sequence[1..]) {
                    comparison.take(a, b, next);
                }
                Ok(comparison)
            })
            .collect();
        // In the order of sequences, so that threads change no digit.
        let none = Comparison::default();
        Ok(compared?.into_iter().fold(none, Comparison::add))
    }
}

/// Runs two models over sequences of tokens, and compares what they say of those from the
/// `from`th on; of the first token of all nothing can be said.
///
/// # Errors
/// A model runs into numbers that are not finite or unknown tokens, or their vocabularies differ.
pub fn compare(
    a: &Model<'_>,
    b: &Model<'_>,
    sequences: &[Vec<u32>],
    from: usize,
) -> Result<Comparison, CalibrateError> {
    let n_vocab = a.hyperparameters.n_vocab;
    if b.hyperparameters.n_vocab != n_vocab {
        return Err(CalibrateError::new(
            &"the vocabularies have different sizes",
        ));
    }
    let compared: Result<Vec<_>, CalibrateError> = sequences
        .par_iter()
        .map(|sequence| {
            let mut comparison = Comparison::default();
            let (a, b) = (logits(a, sequence)?, logits(b, sequence)?);
            let rows = a.chunks(n_vocab).zip(b.chunks(n_vocab));
            let next = sequence.iter().skip(1);
            for ((a, b), &next) in rows.zip(next).skip(from.saturating_sub(1)) {
                comparison.take(a, b, next);
            }
            Ok(comparison)
        })
        .collect();
    let none = Comparison::default();
    Ok(compared?.into_iter().fold(none, Comparison::add))
}

/// The logits behind all tokens but the last.
fn logits(model: &Model<'_>, ids: &[u32]) -> Result<Vec<f32>, CalibrateError> {
    let (_, ids) = ids.split_last().unwrap_or((&0, &[]));
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let (options, mut memory) = memory(model, ids.len());
    let session = Session::new(model, options, memory.buffers());
    let mut session = session.map_err(|error| CalibrateError::new(&error))?;
    let mut all = Vec::with_capacity(ids.len() * model.hyperparameters.n_vocab);
    session
        .prompt_each(ids, |_, logits| all.extend_from_slice(logits))
        .map_err(|error| CalibrateError::new(&error))?;
    Ok(all)
}

fn log_softmax(logits: &[f32]) -> Vec<f64> {
    let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let shifted = logits.iter().map(|&x| f64::from(x - max));
    let sum: f64 = shifted.clone().map(f64::exp).sum();
    let log_sum = sum.ln();
    shifted.map(|x| x - log_sum).collect()
}

fn top(logits: &[f32]) -> Option<usize> {
    let numbered = logits.iter().enumerate();
    numbered.max_by(|a, b| a.1.total_cmp(b.1)).map(|(at, _)| at)
}
