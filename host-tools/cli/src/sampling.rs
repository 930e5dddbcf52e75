//! How tokens are chosen, on the command line.

use smidgen_core::sampler::SamplerSettings;

/// The settings of the sampler. Their names and values are llama.cpp's.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Sampling")]
pub(crate) struct SamplingArgs {
    /// Temperature; 0 always takes the likeliest token [default: 0.8].
    #[arg(long, visible_alias = "temperature", value_name = "T")]
    #[arg(allow_negative_numbers = true)]
    pub(crate) temp: Option<f32>,

    /// Leave only the K likeliest tokens; 0 is off [default: 40].
    #[arg(long, value_name = "K", allow_negative_numbers = true)]
    pub(crate) top_k: Option<u32>,

    /// Leave the likeliest tokens that together have more than this probability; 1 is off
    /// [default: 0.95].
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    pub(crate) top_p: Option<f32>,

    /// Leave tokens that are at least P times as likely as the likeliest; 0 is off
    /// [default: 0.05].
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    pub(crate) min_p: Option<f32>,

    /// Make tokens less likely that have been there lately; 1 is off [default: 1].
    #[arg(long, value_name = "R", allow_negative_numbers = true)]
    pub(crate) repeat_penalty: Option<f32>,
}

impl SamplingArgs {
    /// The settings: what the arguments say, else what `base` says.
    pub(crate) fn settings(&self, base: &SamplerSettings) -> SamplerSettings {
        SamplerSettings {
            temperature: self.temp.unwrap_or(base.temperature),
            top_k: self.top_k.unwrap_or(base.top_k),
            top_p: self.top_p.unwrap_or(base.top_p),
            min_p: self.min_p.unwrap_or(base.min_p),
            repeat_penalty: self.repeat_penalty.unwrap_or(base.repeat_penalty),
        }
    }
}
