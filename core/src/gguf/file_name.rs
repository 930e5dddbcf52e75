//! Names of model files by the GGUF naming convention:
//! `[Sidecar-]BaseName-SizeLabel[-FineTune]-Version[-Encoding][-Type][-Shard].gguf`.

use super::ShardName;

/// The parts of a file's name. Names in the field often leave parts out or put other things in:
/// what can be told apart is, and [`problems`](Self::problems) says what does not conform.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct FileName<'a> {
    /// What the file comes beside: `mmproj` or `mtp`.
    pub sidecar: Option<&'a str>,
    /// The model's name or architecture.
    pub base_name: &'a str,
    /// How large the model is: `8x7B`, `3.8B-ContextLength4k`.
    pub size_label: Option<&'a str>,
    /// What it was tuned for.
    pub fine_tune: Option<&'a str>,
    /// The model's version, with its `v`.
    pub version: Option<&'a str>,
    /// How the weights are stored: `Q4_0`, `F16`.
    pub encoding: Option<&'a str>,
    /// What the file holds if no whole model: `LoRA` or `vocab`.
    pub kind: Option<&'a str>,
    /// Number of the shard, from 1, and how many there are.
    pub shard: Option<(u32, u32)>,
    /// What stands between version and shard and is no encoding.
    extra: Option<&'a str>,
}

/// What does not conform in a file's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum FileNameProblem<'a> {
    /// Nothing stands where the base name should.
    NoBaseName,
    /// The base name holds a part other than words of letters and digits, or numbers.
    BaseName {
        /// The part.
        part: &'a str,
    },
    /// There is no size label such as `7B`.
    NoSizeLabel,
    /// The fine-tune holds other characters than letters, digits, spaces and `-`.
    FineTune {
        /// The fine-tune.
        part: &'a str,
    },
    /// There is no version such as `v1.0`.
    NoVersion,
    /// Something stands between version and shard that is no encoding.
    Extra {
        /// What stands there.
        part: &'a str,
    },
}

impl core::fmt::Display for FileNameProblem<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::NoBaseName => write!(f, "no base name"),
            Self::BaseName { part } => write!(
                f,
                "`{part}` in the base name: only words of letters and digits, or numbers, are"
            ),
            Self::NoSizeLabel => write!(f, "no size label such as 7B"),
            Self::FineTune { part } => write!(
                f,
                "fine-tune `{part}`: only letters, digits, spaces and - are allowed"
            ),
            Self::NoVersion => write!(f, "no version such as v1.0"),
            Self::Extra { part } => write!(f, "`{part}` is no encoding such as Q4_0"),
        }
    }
}

impl<'a> FileName<'a> {
    /// Takes a file name apart (the last part of a path); `None` unless it ends in `.gguf`.
    ///
    /// ```
    /// use smidgen_core::gguf::FileName;
    /// let name = FileName::parse("Grok-100B-v1.0-Q4_0-00003-of-00009.gguf").unwrap();
    /// assert_eq!((name.base_name, name.size_label), ("Grok", Some("100B")));
    /// assert_eq!((name.version, name.encoding), (Some("v1.0"), Some("Q4_0")));
    /// assert_eq!(name.shard, Some((3, 9)));
    /// assert!(name.conforms());
    /// ```
    #[must_use]
    pub fn parse(file_name: &'a str) -> Option<Self> {
        let mut rest = file_name.strip_suffix(".gguf")?;
        let mut shard = None;
        if let Some(name) = ShardName::parse(file_name) {
            rest = name.prefix;
            shard = Some((name.number, name.count));
        }
        let kind = take_last(&mut rest, |part| matches!(part, "LoRA" | "vocab"));

        // What follows the last version is the encoding. Without a version, an encoding can only
        // be told from a fine-tune by its look.
        let (version, mut encoding, mut extra) = match last_version(rest) {
            Some((before, version, after)) => {
                rest = before;
                match after {
                    Some(after) if is_word(after) => (Some(version), Some(after), None),
                    after => (Some(version), None, after),
                }
            }
            None => (None, None, None),
        };
        if version.is_none() {
            encoding = take_last(&mut rest, looks_like_encoding);
        } else if let Some((part, last)) = extra.and_then(|extra| extra.rsplit_once('-'))
            && is_word(last)
        {
            (encoding, extra) = (Some(last), Some(part));
        }

        let sidecar = ["mmproj", "mtp"].into_iter().find_map(|sidecar| {
            let behind = rest.strip_prefix(sidecar)?.strip_prefix('-')?;
            rest.get(..sidecar.len()).map(|sidecar| (sidecar, behind))
        });
        let sidecar = sidecar.map(|(sidecar, behind)| {
            rest = behind;
            sidecar
        });
        let (base_name, size_label, fine_tune) = split_at_size(rest);
        Some(Self {
            sidecar,
            base_name,
            size_label,
            fine_tune,
            version,
            encoding,
            kind,
            shard,
            extra,
        })
    }

    /// Whether the name has what the convention asks for, base name, size label and version, and
    /// nothing that it does not know.
    #[must_use]
    pub fn conforms(&self) -> bool {
        self.problems().next().is_none()
    }

    /// What does not conform.
    pub fn problems(&self) -> impl Iterator<Item = FileNameProblem<'a>> + use<'a> {
        let allowed = |part: &str| {
            let mut chars = part.chars();
            chars.all(|c| c.is_ascii_alphanumeric() || matches!(c, ' ' | '-'))
        };
        // Which parts a base name has: the first may be anything, those behind must not look like
        // a size.
        let mut parts = self.base_name.split('-').enumerate();
        let wrong = parts.find(|&(at, part)| {
            let digits = part.bytes().all(|b| b.is_ascii_digit() || b == b' ');
            let led = part.bytes().next().is_some_and(|b| b.is_ascii_digit());
            !allowed(part) || (at > 0 && led && !digits)
        });
        let fine_tune = self.fine_tune.filter(|part| !allowed(part));
        [
            self.base_name
                .is_empty()
                .then_some(FileNameProblem::NoBaseName),
            wrong.map(|(_, part)| FileNameProblem::BaseName { part }),
            self.size_label
                .is_none()
                .then_some(FileNameProblem::NoSizeLabel),
            fine_tune.map(|part| FileNameProblem::FineTune { part }),
            self.version.is_none().then_some(FileNameProblem::NoVersion),
            self.extra.map(|part| FileNameProblem::Extra { part }),
        ]
        .into_iter()
        .flatten()
    }
}

impl core::fmt::Display for FileName<'_> {
    /// The file name that these parts make.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        if let Some(sidecar) = self.sidecar {
            write!(f, "{sidecar}-")?;
        }
        write!(f, "{}", self.base_name)?;
        let parts = [self.size_label, self.fine_tune, self.version, self.extra];
        for part in parts
            .into_iter()
            .chain([self.encoding, self.kind])
            .flatten()
        {
            write!(f, "-{part}")?;
        }
        if let Some((number, count)) = self.shard {
            write!(f, "-{number:05}-of-{count:05}")?;
        }
        write!(f, ".gguf")
    }
}

/// Takes the last part off when it is as wanted; a name is never taken whole.
fn take_last<'a>(rest: &mut &'a str, wanted: fn(&str) -> bool) -> Option<&'a str> {
    let (before, last) = rest.rsplit_once('-')?;
    wanted(last).then(|| {
        *rest = before;
        last
    })
}

/// What stands before the last version, the version, and what follows it.
fn last_version(rest: &str) -> Option<(&str, &str, Option<&str>)> {
    let mut end = rest.len();
    loop {
        let head = rest.get(..end)?;
        let (before, part) = head.rsplit_once('-')?;
        if is_version(part) {
            let after = rest.get(end..).and_then(|after| after.strip_prefix('-'));
            return Some((before, part, after));
        }
        end = before.len();
    }
}

/// Base name, size label with its attribute, fine-tune.
fn split_at_size(rest: &str) -> (&str, Option<&str>, Option<&str>) {
    let mut base_end = None;
    let mut at = 0_usize;
    for part in rest.split('-') {
        let end = at.saturating_add(part.len());
        if at > 0 && is_size(part) {
            base_end = Some((at.saturating_sub(1), at, end));
            break;
        }
        at = end.saturating_add(1);
    }
    let Some((base_end, size_at, mut size_end)) = base_end else {
        return (rest, None, None);
    };
    let tail = |end: usize| rest.get(end..).and_then(|tail| tail.strip_prefix('-'));
    if let Some(tail) = tail(size_end) {
        let attribute = tail.split('-').next().unwrap_or_default();
        if is_size_attribute(attribute) {
            size_end = size_end.saturating_add(1).saturating_add(attribute.len());
        }
    }
    let base = rest.get(..base_end).unwrap_or_default();
    (base, rest.get(size_at..size_end), tail(size_end))
}

/// `v1`, `v0.1`.
fn is_version(part: &str) -> bool {
    part.strip_prefix('v')
        .is_some_and(|numbers| numbers.split('.').all(is_number))
}

/// `7B`, `3.8B`, `8x7B`.
fn is_size(part: &str) -> bool {
    let part = match part.split_once('x') {
        Some((experts, size)) if is_number(experts) => size,
        _ => part,
    };
    let Some(count) = part.strip_suffix(|c: char| c.is_ascii_alphabetic()) else {
        return false;
    };
    is_decimal(count)
}

/// `ContextLength4k`.
fn is_size_attribute(part: &str) -> bool {
    let named = part.trim_start_matches(|c: char| c.is_ascii_alphabetic());
    let count = named.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    named.len() < part.len() && count.len() < named.len() && is_decimal(count)
}

fn is_decimal(text: &str) -> bool {
    match text.split_once('.') {
        Some((whole, part)) => is_number(whole) && is_number(part),
        None => is_number(text),
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_word(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    !text.is_empty() && text.bytes().all(allowed)
}

/// `Q4_0`, `IQ2_XXS`, `TQ1_0`, `KQ2`, `F16`, `BF16`, `MXFP4`, in either case.
fn looks_like_encoding(part: &str) -> bool {
    const STEMS: [&str; 9] = ["IQ", "TQ", "KQ", "Q", "BF", "F", "MXFP", "NVFP", "FP"];
    is_word(part)
        && STEMS.iter().any(|stem| {
            let head = part.get(..stem.len());
            let next = part.as_bytes().get(stem.len());
            head.is_some_and(|head| head.eq_ignore_ascii_case(stem))
                && next.is_some_and(u8::is_ascii_digit)
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{string::ToString, vec::Vec};

    /// Sidecar, base name, size label, fine-tune, version, encoding, type, shard.
    type Parts = (
        Option<&'static str>,
        &'static str,
        Option<&'static str>,
        Option<&'static str>,
        Option<&'static str>,
        Option<&'static str>,
        Option<&'static str>,
        Option<(u32, u32)>,
    );

    fn parts(name: &'static str) -> Parts {
        let name = FileName::parse(name).unwrap();
        (
            name.sidecar,
            name.base_name,
            name.size_label,
            name.fine_tune,
            name.version,
            name.encoding,
            name.kind,
            name.shard,
        )
    }

    #[test]
    fn the_examples_of_the_specification() {
        let (none, v1) = (None, Some("v1.0"));
        #[rustfmt::skip]
        let examples: [(&str, Parts); 6] = [
            ("Mixtral-8x7B-v0.1-KQ2.gguf",
             (none, "Mixtral", Some("8x7B"), none, Some("v0.1"), Some("KQ2"), none, None)),
            ("Grok-100B-v1.0-Q4_0-00003-of-00009.gguf",
             (none, "Grok", Some("100B"), none, v1, Some("Q4_0"), none, Some((3, 9)))),
            ("Hermes-2-Pro-Llama-3-8B-v1.0-F16.gguf",
             (none, "Hermes-2-Pro-Llama-3", Some("8B"), none, v1, Some("F16"), none, None)),
            ("Phi-3-mini-3.8B-ContextLength4k-instruct-v1.0.gguf",
             (none, "Phi-3-mini", Some("3.8B-ContextLength4k"), Some("instruct"), v1, none, none, None)),
            ("mtp-Qwen3-27B-v1.0-Q4_K_M.gguf",
             (Some("mtp"), "Qwen3", Some("27B"), none, v1, Some("Q4_K_M"), none, None)),
            ("mmproj-Qwen2-VL-7B-v1.0-F16.gguf",
             (Some("mmproj"), "Qwen2-VL", Some("7B"), none, v1, Some("F16"), none, None)),
        ];
        for (name, expected) in examples {
            assert_eq!(parts(name), expected, "{name}");
            let parsed = FileName::parse(name).unwrap();
            assert!(parsed.conforms(), "{name}");
            assert_eq!(parsed.to_string(), name);
        }
        let unknown = FileName::parse("not-a-known-arrangement.gguf").unwrap();
        assert!(!unknown.conforms());
    }

    #[test]
    fn what_does_not_conform_is_said() {
        use FileNameProblem::{BaseName, Extra, FineTune, NoBaseName, NoSizeLabel, NoVersion};
        let problems = |name| -> Vec<_> { FileName::parse(name).unwrap().problems().collect() };
        // The specification's own example without a version, which it asks for.
        assert_eq!(problems("Hermes-2-Pro-Llama-3-8B-F16.gguf"), [NoVersion]);
        assert_eq!(
            parts("Hermes-2-Pro-Llama-3-8B-F16.gguf").5,
            Some("F16"),
            "told by its look"
        );
        assert_eq!(problems("stories260K-Q4_0.gguf"), [NoSizeLabel, NoVersion]);
        assert_eq!(
            problems("Qwen-1.5-7B-v1.0.gguf"),
            [BaseName { part: "1.5" }]
        );
        assert_eq!(
            problems("a-7B-v1.0-Q4_0-extra.gguf"),
            [Extra { part: "Q4_0" }]
        );
        assert_eq!(problems("a-7B-x.y-v1.gguf"), [FineTune { part: "x.y" }]);
        assert_eq!(problems("-7B-v1.gguf"), [NoBaseName]);
        assert_eq!(problems("m.gguf"), [NoSizeLabel, NoVersion]);
        assert_eq!(problems(".gguf"), [NoBaseName, NoSizeLabel, NoVersion]);
        assert_eq!(FileName::parse("model.bin"), None);
        assert_eq!(FileName::parse("model.gguf.part1of3"), None);
    }

    #[test]
    fn types_and_neighbours_of_the_rules() {
        let (none, v1) = (None, Some("v1"));
        assert_eq!(
            parts("Llama-7B-chat-2-v1-vocab.gguf"),
            (
                none,
                "Llama",
                Some("7B"),
                Some("chat-2"),
                v1,
                none,
                Some("vocab"),
                None
            )
        );
        assert_eq!(
            parts("Llama-7B-v1-F16-LoRA-00001-of-00002.gguf"),
            (
                none,
                "Llama",
                Some("7B"),
                none,
                v1,
                Some("F16"),
                Some("LoRA"),
                Some((1, 2))
            )
        );
        // A version within the fine-tune: the last one counts.
        assert_eq!(
            parts("Llama-7B-tune-v0.2-v1.gguf"),
            (
                none,
                "Llama",
                Some("7B"),
                Some("tune-v0.2"),
                v1,
                none,
                none,
                None
            )
        );
        for (part, size) in [("7B", true), ("8x7B", true), ("3.8B", true), ("7", false)] {
            assert_eq!(is_size(part), size, "{part}");
        }
        for part in ["x7B", "7BB", "B", ".8B", "3.B", "8x", "3.8.1B"] {
            assert!(!is_size(part), "{part}");
        }
        for part in ["v", "v1.", "1.0", "v1.x", "V1"] {
            assert!(!is_version(part), "{part}");
        }
        // The name is never taken whole, and a shard's number must be one.
        assert_eq!(parts("vocab.gguf").1, "vocab");
        assert_eq!(parts("a-00003-of-00002.gguf").7, None);
    }
}
