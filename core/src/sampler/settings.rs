//! What the sampler is told, and what of it makes no sense.

use crate::gguf::{Gguf, KeyError, keys};
use crate::message::{Message, display_message};

/// How the next token is chosen. The names and the switched-off values are llama.cpp's.
///
/// The penalty comes first, and temperature 0 then takes the likeliest token. Else the order
/// depends on what is on:
///
/// - With top-k, min-p or the penalty on, it is llama.cpp's: top-k, top-p, min-p, and the
///   temperature last, so that it does not change which tokens are left.
/// - With all three off, the settings are those that llama2.c knows, and its order holds: the
///   temperature first, then top-p. The same seed then gives the same text as llama2.c.
///
/// At temperature 1 the two agree.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct SamplerSettings {
    /// Divides the logits; 0 always takes the likeliest token, and of equals the lowest id.
    pub temperature: f32,
    /// Only this many of the likeliest tokens are left; 0 is off.
    pub top_k: u32,
    /// Only the likeliest tokens are left whose probabilities first sum to more than this;
    /// 0 and 1 are off, as in llama2.c.
    pub top_p: f32,
    /// Only tokens are left that are at least this times as likely as the likeliest; 0 is off.
    pub min_p: f32,
    /// The logit of each recent token is divided by this if positive, else multiplied; 1 is off.
    pub repeat_penalty: f32,
}

impl SamplerSettings {
    /// Always the likeliest token.
    pub const GREEDY: Self = Self {
        temperature: 0.0,
        ..Self::LLAMA2C
    };

    /// llama2.c's defaults.
    pub const LLAMA2C: Self = Self {
        temperature: 1.0,
        top_k: 0,
        top_p: 0.9,
        min_p: 0.0,
        repeat_penalty: 1.0,
    };

    /// The defaults, changed by what a model's metadata asks for under `smidgen.run.*`.
    ///
    /// # Errors
    /// A key is of the wrong type.
    pub fn from_metadata(gguf: &Gguf<'_>) -> Result<Self, KeyError<'static>> {
        let default = Self::default();
        let number = |key, default| Ok(gguf.get_f32(key)?.unwrap_or(default));
        let top_k = gguf.get_u32(keys::SMIDGEN_RUN_TOP_K)?;
        Ok(Self {
            temperature: number(keys::SMIDGEN_RUN_TEMP, default.temperature)?,
            top_k: top_k.unwrap_or(default.top_k),
            top_p: number(keys::SMIDGEN_RUN_TOP_P, default.top_p)?,
            min_p: number(keys::SMIDGEN_RUN_MIN_P, default.min_p)?,
            repeat_penalty: number(keys::SMIDGEN_RUN_REPEAT_PENALTY, default.repeat_penalty)?,
        })
    }

    /// Checks every setting.
    ///
    /// # Errors
    /// Names the first setting that is out of its range, with the value.
    pub fn validate(&self) -> Result<(), SettingsError> {
        let in_0_1 = |x: f32| (0.0..=1.0).contains(&x);
        if !(self.temperature.is_finite() && self.temperature >= 0.0) {
            return Err(SettingsError::Temperature(self.temperature));
        }
        if !in_0_1(self.top_p) {
            return Err(SettingsError::TopP(self.top_p));
        }
        if !in_0_1(self.min_p) {
            return Err(SettingsError::MinP(self.min_p));
        }
        if !(self.repeat_penalty.is_finite() && self.repeat_penalty > 0.0) {
            return Err(SettingsError::RepeatPenalty(self.repeat_penalty));
        }
        Ok(())
    }

    /// Whether only settings are on that llama2.c has.
    pub(super) fn is_llama2c(&self) -> bool {
        self.top_k == 0 && self.min_p == 0.0 && self.repeat_penalty == 1.0
    }

    /// The share of top-p, if it is on.
    pub(super) fn top_p(&self) -> Option<f32> {
        (self.top_p > 0.0 && self.top_p < 1.0).then_some(self.top_p)
    }
}

impl Default for SamplerSettings {
    fn default() -> Self {
        Self {
            temperature: 0.8,
            top_k: 40,
            top_p: 0.95,
            min_p: 0.05,
            repeat_penalty: 1.0,
        }
    }
}

/// A setting that makes no sense, with its value.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum SettingsError {
    /// Negative or not finite.
    Temperature(f32),
    /// Outside 0 to 1.
    TopP(f32),
    /// Outside 0 to 1.
    MinP(f32),
    /// Not above 0, or not finite.
    RepeatPenalty(f32),
    /// The seed is 0, from which the generator never leaves.
    SeedZero,
}

impl SettingsError {
    pub(crate) fn describe(&self, message: &mut Message<'_>) {
        let (name, range, value) = match *self {
            Self::Temperature(x) => ("temperature", "a number from 0 up", x),
            Self::TopP(x) => ("top-p", "between 0 and 1", x),
            Self::MinP(x) => ("min-p", "between 0 and 1", x),
            Self::RepeatPenalty(x) => ("repeat penalty", "a number above 0", x),
            Self::SeedZero => {
                message.say("seed 0 makes every draw 0: take any other");
                return;
            }
        };
        message
            .say("$ # is not $")
            .words([name, range])
            .decimal(value);
    }
}

display_message!(SettingsError);
