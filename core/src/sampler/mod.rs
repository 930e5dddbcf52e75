//! From logits to the next token: penalty, top-k, top-p, min-p, temperature, and llama2.c's random
//! numbers.
//!
//! [`SamplerSettings::choose`] is the chain without chance: it is given the coin. [`Sampler`] adds
//! the generator.
//!
//! ```
//! use smidgen_core::sampler::{Sampler, SamplerSettings};
//!
//! let mut sampler = Sampler::new(SamplerSettings::default(), 42)?;
//! let mut logits = [0.1, 2.5, -1.0, f32::NEG_INFINITY]; // as a model gives them
//! let recent = [1, 0];
//! let id = sampler.sample(&mut logits, &recent, &mut [0; 40]).unwrap();
//! assert!(id < 3);
//! # Ok::<(), smidgen_core::sampler::SettingsError>(())
//! ```

mod choose;
mod descending;
mod passes;
mod penalty;
mod recent;
mod rng;
mod settings;
mod softmax;

pub use choose::SampleError;
pub use passes::Each;
pub(crate) use penalty::logit_bias_from;
pub use penalty::{logit_bias, repeat_penalty};
pub use recent::Recent;
pub use rng::Rng;
pub use settings::{SamplerSettings, SettingsError};

/// Settings and the generator.
#[derive(Clone, Debug)]
pub struct Sampler {
    settings: SamplerSettings,
    rng: Rng,
}

impl Sampler {
    /// A sampler whose draws are determined by `seed`.
    ///
    /// # Errors
    /// A setting out of its range, or seed 0.
    pub fn new(settings: SamplerSettings, seed: u64) -> Result<Self, SettingsError> {
        settings.validate()?;
        let rng = Rng::new(seed).ok_or(SettingsError::SeedZero)?;
        Ok(Self { settings, rng })
    }

    /// What was given at the start.
    #[must_use]
    pub const fn settings(&self) -> &SamplerSettings {
        &self.settings
    }

    /// The generator as it is now; its [`state`](Rng::state) is the seed to go on with later.
    #[must_use]
    pub const fn rng(&self) -> &Rng {
        &self.rng
    }

    /// The next token. One number is drawn, at temperature 0 none. For the arguments and the errors
    /// see [`SamplerSettings::choose`].
    ///
    /// # Errors
    /// Logits that no choice can be made from.
    pub fn sample(
        &mut self,
        logits: &mut [f32],
        recent: &[u32],
        scratch: &mut [u32],
    ) -> Result<u32, SampleError> {
        self.settings
            .choose(logits, recent, scratch, || self.rng.random_f32())
    }

    /// The next token, from logits that come in passes. For the arguments and the errors see
    /// [`SamplerSettings::choose_in_passes`].
    ///
    /// # Errors
    /// Logits that no choice can be made from, or a pass that fails.
    pub fn sample_in_passes<E: From<SampleError>>(
        &mut self,
        pass: &mut dyn FnMut(&mut Each<'_>) -> Result<(), E>,
        recent: &[u32],
        scratch: &mut [u32],
    ) -> Result<u32, E> {
        let draw = || self.rng.random_f32();
        self.settings.choose_in_passes(pass, recent, scratch, draw)
    }

    /// The next token after `mask` has changed the logits as it likes: added to them (see
    /// [`logit_bias`]) or forbidden tokens with `-inf`.
    ///
    /// # Errors
    /// As [`Sampler::sample`].
    pub fn sample_masked(
        &mut self,
        logits: &mut [f32],
        recent: &[u32],
        scratch: &mut [u32],
        mask: &mut dyn FnMut(&mut [f32]),
    ) -> Result<u32, SampleError> {
        mask(logits);
        self.sample(logits, recent, scratch)
    }
}
