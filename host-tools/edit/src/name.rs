//! The file name that a model should have by the GGUF naming convention.

use std::{collections::BTreeMap, fmt};

use smidgen_core::gguf::{FileName, GgmlType, Gguf, KeyError, ShardName, keys};

use crate::Split;

/// Why a model has no name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameError {
    /// Neither `general.basename` nor `general.name` says what the model is called.
    NoName,
    /// A key that a part of the name comes from has another type.
    Key(String),
    /// The shard's number or count cannot be written in five digits.
    Shard,
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoName => write!(f, "neither general.basename nor general.name says a name"),
            Self::Key(error) => f.write_str(error),
            Self::Shard => write!(f, "the split keys make no shard's name"),
        }
    }
}

impl std::error::Error for NameError {}

impl From<KeyError<'_>> for NameError {
    fn from(error: KeyError<'_>) -> Self {
        Self::Key(error.to_string())
    }
}

/// The name of a model's file by its metadata: base name, size label, fine-tune, version, encoding,
/// type, shard.
///
/// What no key says is taken from `general.name`, where that is written like a file's name; the
/// size label is counted, the version is `v1.0`, the encoding is that of `general.file_type` or
/// else the type that most parameters have.
///
/// # Errors
/// The metadata do not say what the model is called, or a key has the wrong type.
pub fn name(gguf: &Gguf<'_>) -> Result<String, NameError> {
    let text = |key| -> Result<Option<String>, NameError> {
        let text = gguf.get_str(key)?.map(part);
        Ok(text.filter(|text| !text.is_empty()))
    };
    let whole = text(keys::GENERAL_NAME)?.map(|name| format!("{name}.gguf"));
    let named = whole.as_deref().and_then(FileName::parse);
    let of_name = |pick: fn(&FileName<'_>) -> Option<String>| named.as_ref().and_then(pick);
    let owned = |part: Option<&str>| part.map(String::from);

    let base = text(keys::GENERAL_BASENAME)?
        .or_else(|| of_name(|name| Some(name.base_name.into())))
        .filter(|base| base.chars().any(char::is_alphanumeric))
        .ok_or(NameError::NoName)?;
    // The tensors of one shard tell nothing of the whole model.
    let split = Split::of(gguf).filter(Split::is_shard);
    let parameters = Parameters::of(gguf);
    let counted = parameters.label().filter(|_| split.is_none());
    let size = text(keys::GENERAL_SIZE_LABEL)?
        .or_else(|| of_name(|name| name.size_label.map(String::from)))
        .or(counted);
    let fine_tune =
        text(keys::GENERAL_FINETUNE)?.or_else(|| of_name(|name| name.fine_tune.map(String::from)));
    let version = text(keys::GENERAL_VERSION)?
        .map(
            |version| match version.starts_with(|c: char| c.is_ascii_digit()) {
                true => format!("v{version}"),
                false => version,
            },
        )
        .or_else(|| of_name(|name| name.version.map(String::from)))
        .unwrap_or_else(|| "v1.0".into());

    let kind = text(keys::GENERAL_TYPE)?;
    let sidecar = match kind.as_deref() {
        Some("mmproj") => Some("mmproj"),
        _ => None,
    };
    let vocabulary = gguf.tensor_count() == 0
        && split.is_none()
        && gguf.get(keys::TOKENIZER_GGML_TOKENS).is_some();
    let kind = match kind.as_deref() {
        Some("adapter") => Some("LoRA"),
        _ if vocabulary => Some("vocab"),
        _ => None,
    };
    let encoding = gguf
        .get_u32(keys::GENERAL_FILE_TYPE)?
        .and_then(encoding_of)
        .map(String::from)
        .or_else(|| parameters.encoding().filter(|_| split.is_none()))
        .filter(|_| gguf.tensor_count() > 0 || split.is_some());

    let parts = [
        owned(sidecar),
        Some(base),
        size,
        fine_tune,
        Some(version),
        encoding,
        owned(kind),
    ];
    let parts: Vec<_> = parts.into_iter().flatten().collect();
    let stem = parts.join("-");
    let Some(split) = split else {
        return Ok(format!("{stem}.gguf"));
    };
    let number = u32::try_from(split.no.saturating_add(1));
    let count = u32::try_from(split.count);
    let (Ok(number), Ok(count)) = (number, count) else {
        return Err(NameError::Shard);
    };
    let shard = ShardName {
        prefix: &stem,
        number,
        count,
    };
    let shard = shard.to_string();
    match ShardName::parse(&shard) {
        Some(_) => Ok(shard),
        None => Err(NameError::Shard),
    }
}

/// A value as a part of a file's name: spaces and what no file's name holds become dashes.
fn part(text: &str) -> String {
    let dash = |c: char| c.is_whitespace() || c.is_control() || "/\\:*?\"<>|".contains(c);
    let text: String = text
        .trim()
        .chars()
        .map(|c| if dash(c) { '-' } else { c })
        .collect();
    text.trim_start_matches('.').to_owned()
}

/// What is known of a model's parameters.
struct Parameters {
    types: BTreeMap<GgmlType, u64>,
    shared: u64,
    experts: u64,
    expert_count: u64,
}

impl Parameters {
    fn of(gguf: &Gguf<'_>) -> Self {
        let architecture = gguf.get_str(keys::GENERAL_ARCHITECTURE).ok().flatten();
        let expert_count = architecture.and_then(|architecture| {
            let key = format!("{architecture}.expert_count");
            gguf.get_u64(&key).ok().flatten()
        });
        let mut parameters = Self {
            types: BTreeMap::new(),
            shared: 0,
            experts: 0,
            expert_count: expert_count.unwrap_or(0),
        };
        for info in gguf.tensors() {
            let elements = info.elements().unwrap_or(0);
            let of_type = parameters.types.entry(info.ty()).or_default();
            *of_type = of_type.saturating_add(elements);
            let sum = match info.name().contains("_exps.") {
                true => &mut parameters.experts,
                false => &mut parameters.shared,
            };
            *sum = sum.saturating_add(elements);
        }
        parameters
    }

    /// `7.2B`, `8x7B`, as llama.cpp's converters round it; `None` without tensors.
    fn label(&self) -> Option<String> {
        let all = self.shared.saturating_add(self.experts);
        if all == 0 {
            return None;
        }
        if self.expert_count == 0 {
            return Some(rounded(all));
        }
        let one = self.shared.saturating_add(self.experts / self.expert_count);
        Some(format!("{}x{}", self.expert_count, rounded(one)))
    }

    /// The type that most parameters have.
    fn encoding(&self) -> Option<String> {
        let most = self.types.iter().max_by_key(|(_, elements)| **elements);
        most.and_then(|(ty, _)| ty.name()).map(String::from)
    }
}

/// Two digits at least, and a letter.
fn rounded(parameters: u64) -> String {
    let (scale, letter) = match parameters {
        0..1_000_000 => (1e3, 'K'),
        1_000_000..1_000_000_000 => (1e6, 'M'),
        1_000_000_000..1_000_000_000_000 => (1e9, 'B'),
        _ => (1e12, 'T'),
    };
    let scaled = parameters as f64 / scale;
    let digits = usize::from(scaled.round() < 10.0);
    format!("{scaled:.digits$}{letter}")
}

/// The name of a mixture by llama.cpp's number of it, without `MOSTLY_`.
fn encoding_of(file_type: u32) -> Option<&'static str> {
    Some(match file_type {
        0 => "F32",
        1 => "F16",
        2 => "Q4_0",
        3 => "Q4_1",
        7 => "Q8_0",
        8 => "Q5_0",
        9 => "Q5_1",
        10 => "Q2_K",
        11 => "Q3_K_S",
        12 => "Q3_K_M",
        13 => "Q3_K_L",
        14 => "Q4_K_S",
        15 => "Q4_K_M",
        16 => "Q5_K_S",
        17 => "Q5_K_M",
        18 => "Q6_K",
        19 => "IQ2_XXS",
        20 => "IQ2_XS",
        21 => "Q2_K_S",
        22 => "IQ3_XS",
        23 => "IQ3_XXS",
        24 => "IQ1_S",
        25 => "IQ4_NL",
        26 => "IQ3_S",
        27 => "IQ3_M",
        28 => "IQ2_S",
        29 => "IQ2_M",
        30 => "IQ4_XS",
        31 => "IQ1_M",
        32 => "BF16",
        36 => "TQ1_0",
        37 => "TQ2_0",
        38 => "MXFP4_MOE",
        39 => "NVFP4",
        40 => "Q1_0",
        41 => "Q2_0",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use smidgen_io::GgufBuilder;

    use super::*;

    fn named(
        entries: &[(&str, &str)],
        file_type: Option<u32>,
        elements: u64,
    ) -> Result<String, NameError> {
        let mut builder = GgufBuilder::new();
        for (key, value) in entries {
            builder.set(key, *value);
        }
        if let Some(file_type) = file_type {
            builder.set(keys::GENERAL_FILE_TYPE, file_type);
        }
        if elements > 0 {
            let bytes = vec![0; elements as usize];
            builder
                .tensor("t", &[elements], GgmlType::I8, bytes)
                .unwrap();
        }
        let mut bytes = Vec::new();
        builder.write_to(&mut bytes).unwrap();
        name(&Gguf::parse_small(&bytes).unwrap())
    }

    #[test]
    fn parts_come_from_their_keys() {
        let all = [
            (keys::GENERAL_BASENAME, "Tiny Llama"),
            (keys::GENERAL_SIZE_LABEL, "1.1B"),
            (keys::GENERAL_FINETUNE, "chat of/one"),
            (keys::GENERAL_VERSION, "0.3"),
        ];
        let expected = "Tiny-Llama-1.1B-chat-of-one-v0.3-Q4_K_M.gguf";
        assert_eq!(named(&all, Some(15), 1000).unwrap(), expected);
        assert!(FileName::parse(expected).unwrap().conforms());
        // A size that is counted, a version that is assumed, the type that most have.
        let base = [(keys::GENERAL_BASENAME, "x")];
        assert_eq!(
            named(&base, None, 15_191_712).unwrap(),
            "x-15M-v1.0-I8.gguf"
        );
        assert_eq!(named(&base, None, 7_240).unwrap(), "x-7.2K-v1.0-I8.gguf");
        assert_eq!(
            named(&base, Some(999), 260_032).unwrap(),
            "x-260K-v1.0-I8.gguf"
        );
        let lora = [
            (keys::GENERAL_BASENAME, "x"),
            (keys::GENERAL_TYPE, "adapter"),
        ];
        assert_eq!(
            named(&lora, Some(1), 50_000).unwrap(),
            "x-50K-v1.0-F16-LoRA.gguf"
        );
    }

    #[test]
    fn a_name_is_taken_apart_where_it_can_be() {
        let name = [(keys::GENERAL_NAME, "Llama 2 7B Chat v1.1")];
        assert_eq!(
            named(&name, Some(2), 10).unwrap(),
            "Llama-2-7B-Chat-v1.1-Q4_0.gguf"
        );
        let name = [(keys::GENERAL_NAME, "stories260K")];
        assert_eq!(
            named(&name, Some(0), 260_032).unwrap(),
            "stories260K-260K-v1.0-F32.gguf"
        );
    }

    #[test]
    fn nonsense_is_refused() {
        assert_eq!(named(&[], None, 10), Err(NameError::NoName));
        for name in ["", " ", "../..", "-"] {
            let found = named(&[(keys::GENERAL_NAME, name)], None, 10);
            assert_eq!(found, Err(NameError::NoName), "{name}");
        }
        let hostile = named(&[(keys::GENERAL_BASENAME, "../../etc/passwd\n")], None, 10).unwrap();
        assert_eq!(hostile, "-..-etc-passwd-0.0K-v1.0-I8.gguf");
    }
}
