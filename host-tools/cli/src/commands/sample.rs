//! `smidgen sample`: the sampler alone.

use std::{fmt::Write as _, path::PathBuf, process::ExitCode};

use anyhow::{Context, anyhow, bail};
use serde_json::{Map, Value as Json, json};
use smidgen_core::sampler::{Rng, Sampler, SamplerSettings, SettingsError};
use smidgen_io::FileBytes;

use crate::{output, sampling::SamplingArgs};

/// What a file may hold.
const FORM: &str = "\
The file is a JSON object:

  logits          numbers, or strings such as \"-1.5\", \"inf\", \"nan\"; one a token
  logits_bits     the same as bit patterns: strings of 8 hexadecimal digits; counts before logits
  temperature, top_k, top_p, min_p, repeat_penalty
                  settings; what is not there, and not on the command line, is off
  recent          ids that the repeat penalty applies to
  coin            the number from 0 to 1 that decides
  seed            of llama2.c's generator, whose first draw decides: a number or a string

Where the settings leave no choice, neither coin nor seed is needed. A file with a seed and no
logits gives the generator's first five draws, each as an integer of 32 bits and as the number from
0 to 1 that is made of it.

With --json: {\"id\": 3}, or {\"u32\": [five numbers], \"f32\": [five numbers]}.";

/// How many draws a seed gives.
const DRAWS: usize = 5;

/// Choose a token from given logits.
///
/// This is the sampler of `smidgen run` by itself: for those who build their own loop, and for
/// tests. The chosen id is printed.
#[derive(Debug, clap::Args)]
#[command(after_long_help = FORM)]
pub(crate) struct Args {
    /// The logits, settings and coin or seed; `-` is standard input.
    #[arg(value_name = "FILE.json")]
    file: PathBuf,

    #[command(flatten)]
    sampling: SamplingArgs,

    /// Seed of the random numbers.
    #[arg(short, long, value_name = "SEED", help_heading = "Sampling")]
    seed: Option<u64>,

    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let place = || args.file.display().to_string();
    let bytes = FileBytes::read(&args.file)?;
    let file: Json = serde_json::from_slice(&bytes).with_context(place)?;
    let Json::Object(fields) = file else {
        bail!("{}: this is no JSON object", place());
    };
    let input = Input { fields };
    let done = input.run(args).with_context(place)?;
    match done {
        Done::Id(id) if args.json => output::print_json(&json!({ "id": id }))?,
        Done::Id(id) => output::print(&format!("{id}\n"))?,
        Done::Draws(u32s, f32s) if args.json => {
            output::print_json(&json!({ "u32": u32s, "f32": f32s }))?;
        }
        Done::Draws(u32s, f32s) => {
            let mut text = String::new();
            for (int, float) in u32s.iter().zip(f32s) {
                // Writing to a string cannot fail.
                let _ = writeln!(text, "{int} {}", f64::from(float));
            }
            output::print(&text)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

enum Done {
    Id(u32),
    Draws([u32; DRAWS], [f32; DRAWS]),
}

/// The fields of the file.
struct Input {
    fields: Map<String, Json>,
}

impl Input {
    fn run(&self, args: &Args) -> anyhow::Result<Done> {
        let seed = match args.seed {
            Some(seed) => Some(seed),
            None => self.get("seed", "a number from 1 on", seed)?,
        };
        let Some(mut logits) = self.logits()? else {
            let Some(seed) = seed else {
                bail!("there are neither logits nor a seed");
            };
            let mut rng = Rng::new(seed).ok_or(SettingsError::SeedZero)?;
            let mut floats = rng.clone();
            let ints = std::array::from_fn(|_| rng.random_u32());
            return Ok(Done::Draws(
                ints,
                std::array::from_fn(|_| floats.random_f32()),
            ));
        };
        let settings = args.sampling.settings(&self.settings()?);
        let ids = |value: &Json| value.as_array()?.iter().map(id).collect::<Option<Vec<_>>>();
        let recent = self
            .get("recent", "an array of ids", ids)?
            .unwrap_or_default();
        let coin = |value: &Json| number(value).filter(|coin| (0.0..=1.0).contains(coin));
        let coin = self.get("coin", "a number from 0 to 1", coin)?;
        let mut scratch = vec![0; logits.len()];
        let id = match (coin, seed) {
            (Some(coin), _) => settings.choose(&mut logits, &recent, &mut scratch, || coin)?,
            (None, Some(seed)) => {
                Sampler::new(settings, seed)?.sample(&mut logits, &recent, &mut scratch)?
            }
            (None, None) => {
                let mut asked = false;
                let coin = || {
                    asked = true;
                    0.0
                };
                let id = settings.choose(&mut logits, &recent, &mut scratch, coin)?;
                if asked {
                    bail!("chance has a say, but there is neither coin nor seed");
                }
                id
            }
        };
        Ok(Done::Id(id))
    }

    /// What the file says; all else is off.
    fn settings(&self) -> anyhow::Result<SamplerSettings> {
        let off = SamplerSettings {
            top_p: 1.0,
            ..SamplerSettings::LLAMA2C
        };
        let float = |key, off| -> anyhow::Result<f32> {
            Ok(self.get(key, "a number", number)?.unwrap_or(off))
        };
        let top_k = self.get("top_k", "a number from 0 on", id)?;
        Ok(SamplerSettings {
            temperature: float("temperature", off.temperature)?,
            top_k: top_k.unwrap_or(off.top_k),
            top_p: float("top_p", off.top_p)?,
            min_p: float("min_p", off.min_p)?,
            repeat_penalty: float("repeat_penalty", off.repeat_penalty)?,
        })
    }

    fn logits(&self) -> anyhow::Result<Option<Vec<f32>>> {
        let list = |one: fn(&Json) -> Option<f32>| {
            move |value: &Json| {
                value
                    .as_array()?
                    .iter()
                    .map(one)
                    .collect::<Option<Vec<_>>>()
            }
        };
        let bits = self.get(
            "logits_bits",
            "an array of strings of 8 hexadecimal digits",
            list(bits),
        )?;
        match bits {
            Some(bits) => Ok(Some(bits)),
            None => self.get("logits", "an array of numbers", list(number)),
        }
    }

    /// A field, if it is there and not null.
    fn get<T>(
        &self,
        key: &str,
        expected: &str,
        read: impl FnOnce(&Json) -> Option<T>,
    ) -> anyhow::Result<Option<T>> {
        let value = self.fields.get(key).filter(|value| !value.is_null());
        let read = value.map(|value| read(value).ok_or(anyhow!("{key} must be {expected}")));
        read.transpose()
    }
}

/// A number, or a string that reads as one, also "inf" and "nan".
fn number(value: &Json) -> Option<f32> {
    match value {
        // By way of its text, so that it is rounded once.
        Json::Number(number) => number.to_string().parse().ok(),
        Json::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}

fn bits(value: &Json) -> Option<f32> {
    let text = value.as_str()?;
    let text = text.strip_prefix("0x").unwrap_or(text);
    let digits = text.len() == 8 && text.bytes().all(|digit| digit.is_ascii_hexdigit());
    let bits = digits.then(|| u32::from_str_radix(text, 16).ok())?;
    bits.map(f32::from_bits)
}

fn id(value: &Json) -> Option<u32> {
    value.as_u64()?.try_into().ok()
}

fn seed(value: &Json) -> Option<u64> {
    match value {
        Json::String(text) => text.trim().parse().ok(),
        _ => value.as_u64(),
    }
}
