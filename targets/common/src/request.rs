//! What a program is asked to do, in words: the flags of `smidgen run`.

use core::fmt;

use smidgen_console::Number;
use smidgen_core::kernels::Backend;
use smidgen_core::sampler::SamplerSettings;

/// What a program is asked to do.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// What the story begins with (`-p`, which takes the rest of the line).
    pub prompt: &'a str,
    /// Tokens of the story (`-n`).
    pub tokens: usize,
    /// How they are chosen (`--temp`, `--top-p`).
    pub settings: SamplerSettings,
    /// Determines the draws (`--seed`).
    pub seed: u64,
    /// The instructions to use (`--backend`).
    pub backend: Backend,
    /// Whether to print the hash of the logits (`--logits-hash`).
    pub logits_hash: bool,
}

/// A word that is not understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "rtt", derive(defmt::Format))]
pub struct RequestError<'a> {
    /// The flag.
    pub flag: &'a str,
    /// What came after it.
    pub value: &'a str,
}

impl fmt::Display for RequestError<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in ["cannot do `", self.flag, " ", self.value, "`"] {
            f.write_str(part)?;
        }
        Ok(())
    }
}

impl Default for Request<'_> {
    fn default() -> Self {
        Self {
            prompt: "Once upon a time",
            tokens: 256,
            settings: SamplerSettings::GREEDY,
            seed: 1,
            backend: Backend::best(),
            logits_hash: false,
        }
    }
}

impl<'a> Request<'a> {
    /// Reads flags and their values, apart by single spaces, behind the program's name.
    ///
    /// # Errors
    /// The first flag that is unknown, or has a value that it cannot take.
    pub fn parse(&mut self, line: &'a str) -> Result<(), RequestError<'a>> {
        let mut rest = after_space(line).1;
        while !rest.is_empty() {
            let (flag, behind) = after_space(rest);
            if flag == "-p" {
                self.prompt = behind;
                break;
            }
            if flag == "--logits-hash" {
                self.logits_hash = true;
                rest = behind;
                continue;
            }
            let (value, behind) = after_space(behind);
            self.set(flag, value).ok_or(RequestError { flag, value })?;
            rest = behind;
        }
        Ok(())
    }

    fn set(&mut self, flag: &str, value: &str) -> Option<()> {
        match flag {
            "-n" => self.tokens = value.parse::<u64>().ok()?.try_into().ok()?,
            "--seed" => self.seed = value.parse().ok()?,
            "--temp" => self.settings.temperature = Number::parse(value)?.value(),
            "--top-p" => self.settings.top_p = Number::parse(value)?.value(),
            "--backend" => self.backend = Backend::from_name(value)?,
            _ => return None,
        }
        Some(())
    }
}

/// The first word, and what comes after the space behind it.
fn after_space(text: &str) -> (&str, &str) {
    text.split_once(' ').unwrap_or((text, ""))
}
