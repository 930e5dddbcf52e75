//! What a model is calibrated on.

use rayon::prelude::*;
use smidgen_core::{
    model::Model,
    sampler::{Sampler, SamplerSettings},
    session::Session,
};

use super::runs::{CalibrateError, memory};

/// How many samples a model makes of itself, and how many tokens each has at most.
pub const OWN_SAMPLES: (usize, usize) = (96, 256);

/// Samples of the model itself: what it says when nothing is asked, [`OWN_SAMPLES`] of them.
///
/// # Errors
/// It runs into numbers that are not finite.
pub fn own(
    model: &Model<'_>,
    bos: Option<u32>,
    seed: u64,
) -> Result<Vec<Vec<u32>>, CalibrateError> {
    let (count, len) = OWN_SAMPLES;
    let len = len.min(model.hyperparameters.n_ctx);
    let settings = SamplerSettings {
        temperature: 1.0,
        top_k: 0,
        top_p: 1.0,
        min_p: 0.0,
        repeat_penalty: 1.0,
    };
    let sample = |number: u64| -> Result<Vec<u32>, CalibrateError> {
        let seed = (seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).max(1);
        let sampler = Sampler::new(settings, seed);
        let mut sampler = sampler.map_err(|error| CalibrateError::new(&error))?;
        let (options, mut memory) = memory(model, len);
        let session = Session::new(model, options, memory.buffers());
        let mut session = session.map_err(|error| CalibrateError::new(&error))?;
        let mut scratch = vec![0; model.hyperparameters.n_vocab];
        let mut ids = vec![bos.unwrap_or(0)];
        let mut last = bos.unwrap_or(0);
        while ids.len() < len {
            session
                .step(last)
                .map_err(|error| CalibrateError::new(&error))?;
            let logits = session.logits_mut();
            let logits = logits.map_err(|error| CalibrateError::new(&error))?;
            last = sampler
                .sample(logits, &[], &mut scratch)
                .map_err(|error| CalibrateError::new(&error))?;
            ids.push(last);
        }
        Ok(ids)
    };
    (1..=count as u64).into_par_iter().map(sample).collect()
}

/// A text's tokens in sequences of the samples' length, each with BOS first.
#[must_use]
pub fn cut_text(ids: &[u32], bos: Option<u32>) -> Vec<Vec<u32>> {
    let (_, len) = OWN_SAMPLES;
    let room = if bos.is_some() { len - 1 } else { len };
    let with_bos = |part: &[u32]| bos.into_iter().chain(part.iter().copied()).collect();
    ids.chunks(room).map(with_bos).collect()
}
