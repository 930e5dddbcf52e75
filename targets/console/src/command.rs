//! Lines that begin with `/`.

use core::fmt;

use smidgen_core::sampler::SamplerSettings;

use crate::Number;

/// A line that is no story.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// List the commands.
    Help,
    /// Show the settings.
    Settings,
    /// Set the temperature.
    Temp(Number),
    /// Set the share of the likeliest tokens.
    TopP(Number),
    /// Set the seed of the next story.
    Seed(u64),
    /// Set the length of a story.
    N(u32),
    /// Turn the lines behind a story on or off.
    Report(bool),
}

/// A command that is not understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandError<'l> {
    /// There is no such command.
    Unknown {
        /// Its name.
        name: &'l str,
    },
    /// The command does not take this.
    Value {
        /// The command.
        name: &'l str,
        /// What came behind it.
        value: &'l str,
        /// What it takes.
        takes: &'static str,
    },
}

/// What `/help` says.
pub(crate) const HELP: &str = "\
What you type is continued as a story; Ctrl-C ends it. Commands:
/temp X      temperature; 0 always takes the likeliest token
/top_p X     leave the likeliest tokens that together have more than this probability
/seed N      seed of the next story; each story adds 1
/n N         tokens of a story
/report on   tell behind a story how it came about; off: do not
/settings    show the settings
";

impl fmt::Display for CommandError<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Unknown { name } => texts(f, &["no command /", name, ": /help lists them"]),
            Self::Value { name, value, takes } => {
                texts(f, &["/", name, " takes ", takes, ", not `", value, "`"])
            }
        }
    }
}

impl core::error::Error for CommandError<'_> {}

/// One after the other. What the standard library has for this knows of widths, and takes flash.
fn texts(f: &mut fmt::Formatter<'_>, texts: &[&str]) -> fmt::Result {
    texts.iter().try_for_each(|text| f.write_str(text))
}

impl Command {
    /// The command in a line; `None` if the line is a story.
    ///
    /// # Errors
    /// A command that there is not, or with a value that it does not take.
    pub fn parse(line: &str) -> Option<Result<Self, CommandError<'_>>> {
        let line = line.strip_prefix('/')?;
        let (name, value) = line.split_once(' ').unwrap_or((line, ""));
        let value = value.trim_ascii();
        let (takes, command) = match name {
            "help" => ("nothing", value.is_empty().then_some(Self::Help)),
            "settings" => ("nothing", value.is_empty().then_some(Self::Settings)),
            "temp" => ("a number from 0 up", Number::parse(value).map(Self::Temp)),
            "top_p" => {
                let number = Number::parse(value).filter(|p| p.value() <= 1.0);
                ("a number from 0 to 1", number.map(Self::TopP))
            }
            "seed" => {
                let seed = whole(value).filter(|&seed| seed > 0);
                ("a whole number from 1 up", seed.map(Self::Seed))
            }
            "n" => {
                let n = whole(value).and_then(|n| u32::try_from(n).ok());
                let n = n.filter(|&n| n > 0);
                ("a whole number from 1 up", n.map(Self::N))
            }
            "report" => {
                let on = match value {
                    "on" => Some(true),
                    "off" => Some(false),
                    _ => None,
                };
                ("on or off", on.map(Self::Report))
            }
            _ => return Some(Err(CommandError::Unknown { name })),
        };
        Some(command.ok_or(CommandError::Value { name, value, takes }))
    }
}

/// Digits only: no sign.
fn whole(text: &str) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.bytes().try_fold(0_u64, |number, digit| {
        let digit = digit.is_ascii_digit().then(|| digit - b'0')?;
        number.checked_mul(10)?.checked_add(digit.into())
    })
}

/// How stories are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Temperature.
    pub temp: Number,
    /// Share of the likeliest tokens.
    pub top_p: Number,
    /// Of the next story.
    pub seed: u64,
    /// Tokens that a story adds at most.
    pub n: u32,
    /// Whether a story is followed by how it came about.
    pub report: bool,
}

impl Settings {
    /// llama2.c's, with 256 tokens.
    pub const DEFAULT: Self = Self {
        temp: Number::ONE,
        top_p: Number::NINE_TENTHS,
        seed: 1,
        n: 256,
        report: false,
    };

    /// Changes what a command changes; it may as well be only to be answered.
    pub fn apply(&mut self, command: Command) {
        match command {
            Command::Help | Command::Settings => {}
            Command::Temp(temp) => self.temp = temp,
            Command::TopP(top_p) => self.top_p = top_p,
            Command::Seed(seed) => self.seed = seed,
            Command::N(n) => self.n = n,
            Command::Report(report) => self.report = report,
        }
    }

    /// As the sampler takes them: all that is not set here is off.
    #[must_use]
    pub fn sampler(&self) -> SamplerSettings {
        SamplerSettings {
            temperature: self.temp.value(),
            top_p: self.top_p.value(),
            ..SamplerSettings::LLAMA2C
        }
    }
}

impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            temp,
            top_p,
            seed,
            n,
            report,
        } = self;
        let (seed, n) = (
            smidgen_core::Number(*seed),
            smidgen_core::Number((*n).into()),
        );
        write!(f, "temp {temp}, top_p {top_p}, seed {seed}, n {n}, report ")?;
        f.write_str(if *report { "on" } else { "off" })
    }
}

#[cfg(test)]
mod tests {
    use std::string::ToString as _;

    use proptest::prelude::*;

    use super::*;

    fn error(line: &str) -> std::string::String {
        Command::parse(line).unwrap().unwrap_err().to_string()
    }

    #[test]
    fn commands_are_understood() {
        let parsed = |line| Command::parse(line).unwrap().unwrap();
        assert_eq!(parsed("/help"), Command::Help);
        assert_eq!(parsed("/settings "), Command::Settings);
        let Command::Temp(temp) = parsed("/temp 0.8") else {
            panic!("no temperature")
        };
        assert_eq!(temp.value(), 0.8);
        assert_eq!(
            parsed("/seed 18446744073709551615"),
            Command::Seed(u64::MAX)
        );
        assert_eq!(parsed("/n  16"), Command::N(16));
        assert_eq!(parsed("/report on"), Command::Report(true));
        assert_eq!(Command::parse("Once"), None);
        assert_eq!(Command::parse(" /help"), None);
        assert_eq!(Command::parse(""), None);
    }

    #[test]
    fn what_is_not_understood_is_named() {
        assert_eq!(error("/"), "no command /: /help lists them");
        assert_eq!(error("/tmp 1"), "no command /tmp: /help lists them");
        assert_eq!(error("/temp"), "/temp takes a number from 0 up, not ``");
        assert_eq!(
            error("/temp -1"),
            "/temp takes a number from 0 up, not `-1`"
        );
        assert_eq!(
            error("/top_p 1.1"),
            "/top_p takes a number from 0 to 1, not `1.1`"
        );
        for line in [
            "/seed 0",
            "/seed 18446744073709551616",
            "/n 4294967296",
            "/n +1",
            "/n 1 2",
        ] {
            assert!(
                error(line).contains("takes a whole number from 1 up"),
                "{line}"
            );
        }
        assert_eq!(error("/help me"), "/help takes nothing, not `me`");
        assert_eq!(error("/report"), "/report takes on or off, not ``");
    }

    #[test]
    fn settings_are_shown_and_valid() {
        let mut settings = Settings::DEFAULT;
        assert_eq!(settings.sampler(), SamplerSettings::LLAMA2C);
        for line in [
            "/temp 0.50",
            "/top_p 0",
            "/seed 7",
            "/n 9",
            "/report on",
            "/help",
        ] {
            settings.apply(Command::parse(line).unwrap().unwrap());
        }
        assert_eq!(
            settings.to_string(),
            "temp 0.50, top_p 0, seed 7, n 9, report on"
        );
    }

    proptest! {
        #[test]
        fn any_line_is_an_answer(line in "/?[a-z_]{0,7} ?\\PC*") {
            if let Some(Ok(command)) = Command::parse(&line) {
                let mut settings = Settings::DEFAULT;
                settings.apply(command);
                prop_assert!(settings.sampler().validate().is_ok());
                prop_assert!(settings.seed > 0 && settings.n > 0);
            }
        }
    }
}
