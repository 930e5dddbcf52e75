//! Everything that is wrong with a file, and what is odd about it.
//!
//! Faults are what makes a reader refuse the file or take it for another: whatever
//! [`Gguf::parse`] refuses; values of known keys that have the wrong type; tokenizer arrays of
//! different lengths; `smidgen.tokenizer.*` arrays that do not fit the tokens; `split.*` keys that
//! contradict each other, the file's name or its tensors. Warnings are what a careful reader takes
//! but others may not: gaps between tensors, bytes behind the data, tensors out of order, keys that
//! are not in lower snake case, text that is not UTF-8, ids of special tokens that do not exist.
//! Tensor data are not looked at.

use std::ops::ControlFlow;

use smidgen_core::gguf::{Array, Error, Gguf, ShardName, Value, keys};
use smidgen_io::{OwnedValue, vocab_index};

use crate::{
    Split, Usage,
    model_keys::{Expected, type_words},
    printable,
};

/// Something found in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Its kind, for programs: `duplicate_key`. It does not change.
    pub code: &'static str,
    /// Where: bytes from the start of the file; `None` for what has no single place.
    pub offset: Option<u64>,
    /// What it is, in words.
    pub message: String,
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.offset {
            Some(offset) => write!(f, "at byte {offset}: {}", self.message),
            None => write!(f, "{}", self.message),
        }
    }
}

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contents {
    /// A model, whole.
    Model,
    /// One of the files of a split model.
    Shard(Split),
    /// No tensors, but a vocabulary of so many tokens.
    Vocabulary(usize),
    /// No tensors and no vocabulary.
    Metadata,
}

/// The answer about a file.
#[derive(Clone, Debug)]
pub struct Verdict<'a> {
    /// The file as far as it could be read; `None` when its header could not.
    pub gguf: Option<Gguf<'a>>,
    /// What is wrong. A file without faults is valid.
    pub faults: Vec<Finding>,
    /// What is odd.
    pub warnings: Vec<Finding>,
}

impl Verdict<'_> {
    /// Whether nothing is wrong.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.faults.is_empty()
    }

    /// What the file is; `None` when its header could not be read.
    #[must_use]
    pub fn contents(&self) -> Option<Contents> {
        let gguf = self.gguf.as_ref()?;
        Some(match Split::of(gguf).filter(Split::is_shard) {
            Some(split) => Contents::Shard(split),
            None if gguf.tensor_count() > 0 => Contents::Model,
            None => match gguf.get(keys::TOKENIZER_GGML_TOKENS) {
                Some(Value::Array(tokens)) => Contents::Vocabulary(tokens.len()),
                _ => Contents::Metadata,
            },
        })
    }

    /// What the file is, in words.
    #[must_use]
    pub fn contents_words(&self) -> String {
        let Some((gguf, contents)) = self.gguf.as_ref().zip(self.contents()) else {
            return String::from("no GGUF file");
        };
        if gguf.data_offset() == u64::MAX {
            let end = gguf.infos_end();
            return format!("unreadable from byte {end} on");
        }
        let tensors = match gguf.tensor_count() {
            1 => String::from("1 tensor"),
            count => format!("{count} tensors"),
        };
        match contents {
            Contents::Model => format!("model, {tensors}"),
            Contents::Shard(split) => {
                let of = split
                    .tensors
                    .map_or(String::new(), |all| format!(" of {all}"));
                let (number, count) = (split.no.saturating_add(1), split.count);
                format!("shard {number} of {count}, {tensors}{of}")
            }
            Contents::Vocabulary(tokens) => format!("vocabulary without tensors, {tokens} tokens"),
            Contents::Metadata => String::from("metadata without tensors"),
        }
    }
}

/// Looks for everything that is wrong or odd. `file_name` is the last part of the path, where there
/// is one: a shard's name must fit what it says of itself.
#[must_use]
pub fn verify<'a>(bytes: &'a [u8], file_name: Option<&str>) -> Verdict<'a> {
    let mut scratch = vec![0; Gguf::scratch_len(bytes)];
    let mut errors = Vec::new();
    let gguf = Gguf::check(bytes, &mut scratch, &mut |error| {
        errors.push(error);
        ControlFlow::Continue(())
    });
    let mut verdict = Verdict {
        gguf,
        faults: container_faults(gguf.as_ref(), &errors),
        warnings: Vec::new(),
    };
    // Where the walk ended early, what is missing cannot be told from what is wrong.
    if let Some(gguf) = gguf.filter(|gguf| gguf.data_offset() != u64::MAX) {
        let mut check = Check {
            gguf: &gguf,
            split: Split::of(&gguf),
            verdict: &mut verdict,
        };
        check.keys();
        check.tokenizer();
        check.split_keys(file_name);
        check.missing_keys();
        check.order();
        // Where tensors are wrong, so is what lies between them.
        if errors.is_empty() {
            check.gaps();
        }
    }
    verdict
}

/// The faults of the container, each with the key or the tensor that it is in.
fn container_faults(gguf: Option<&Gguf<'_>>, errors: &[Error]) -> Vec<Finding> {
    let mut places = Vec::new();
    let mut end = 0;
    if let Some(gguf) = gguf.filter(|_| !errors.is_empty()) {
        let named = |what: &str, name: &[u8]| format!("{what} `{}`: ", printable(name));
        for entry in gguf.metadata() {
            places.push((entry.offset, named("key", entry.key_bytes())));
        }
        for info in gguf.tensors() {
            places.push((info.info_offset(), named("tensor", info.name_bytes())));
        }
        end = gguf.infos_end();
    }
    let place = |offset: u64| {
        let behind = places.partition_point(|place| place.0 <= offset);
        let inside = offset < end && behind > 0;
        inside.then(|| &places[behind - 1].1[..])
    };
    let finding = |error: &Error| Finding {
        code: error.kind.name(),
        offset: Some(error.offset),
        message: format!("{}{}", place(error.offset).unwrap_or_default(), error.kind),
    };
    errors.iter().map(finding).collect()
}

struct Check<'c, 'a> {
    gguf: &'c Gguf<'a>,
    split: Option<Split>,
    verdict: &'c mut Verdict<'a>,
}

impl<'a> Check<'_, 'a> {
    fn fault(&mut self, code: &'static str, offset: Option<u64>, message: String) {
        self.verdict.faults.push(Finding {
            code,
            offset,
            message,
        });
    }

    fn warn(&mut self, code: &'static str, offset: Option<u64>, message: String) {
        self.verdict.warnings.push(Finding {
            code,
            offset,
            message,
        });
    }

    /// Where the entry of `key` begins.
    fn offset_of(&self, key: &str) -> Option<u64> {
        let mut entries = self.gguf.metadata();
        entries
            .find(|entry| entry.key_bytes() == key.as_bytes())
            .map(|entry| entry.offset)
    }

    /// The array under `key`, if it is one.
    fn array(&self, key: &str) -> Option<Array<'a>> {
        match self.gguf.get(key) {
            Some(Value::Array(array)) => Some(array),
            _ => None,
        }
    }

    /// Each key by itself: its characters, the type of its value, UTF-8.
    fn keys(&mut self) {
        let architecture = self.gguf.get(keys::GENERAL_ARCHITECTURE);
        let architecture = architecture.as_ref().and_then(Value::as_str);
        let layers = architecture.and_then(|architecture| {
            let key = format!("{architecture}.block_count");
            self.gguf.get_u64(&key).ok().flatten()
        });
        for entry in self.gguf.metadata() {
            let offset = Some(entry.offset);
            let key = entry.key();
            let shown = printable(entry.key_bytes());
            if !is_snake_case(key.as_bytes()) {
                let message = format!("key `{shown}` is not in lower snake case");
                self.warn("key_case", offset, message);
            }
            if let Some(expected) = Expected::of(key, architecture) {
                let found = type_words(&entry.value);
                if !expected.fits(&entry.value) {
                    let words = expected.words();
                    let message = format!("key type: `{shown}` must be {words}, it is {found}");
                    self.fault("key_type", offset, message);
                } else if let (Expected::IntegerPerLayer, Value::Array(array)) =
                    (expected, entry.value)
                    && layers != Some(array.len() as u64)
                {
                    let layers = layers.map_or("an unknown number of".into(), |n| n.to_string());
                    let message = format!(
                        "key type: `{shown}` has {} values for {layers} layers",
                        array.len()
                    );
                    self.fault("key_type", offset, message);
                }
            }
            let bad = not_utf8(&entry.value);
            if bad > 0 {
                let message = format!("`{shown}` holds text that is not UTF-8, {bad} times");
                self.warn("value_utf8", offset, message);
            }
        }
    }

    /// The arrays that must have one entry a token, the ids that must be tokens, the index.
    fn tokenizer(&mut self) {
        let tokens = self.array(keys::TOKENIZER_GGML_TOKENS);
        for key in [keys::TOKENIZER_GGML_SCORES, keys::TOKENIZER_GGML_TOKEN_TYPE] {
            let found = self.array(key).map(|array| array.len());
            let expected = tokens.map_or(0, |tokens| tokens.len());
            if let Some(found) = found.filter(|&found| found != expected) {
                let message = format!("`{key}` has {found} entries for {expected} tokens");
                self.fault("token_arrays", self.offset_of(key), message);
            }
        }
        let Some(tokens) = tokens else { return };
        for entry in self.gguf.metadata() {
            let key = entry.key();
            if !key.starts_with("tokenizer.ggml.") || !key.ends_with("_token_id") {
                continue;
            }
            // Converters write -1 for "none", also into a u32.
            let none = i128::from(u32::MAX);
            let id = entry.value.as_integer();
            if let Some(id) = id.filter(|&id| id >= tokens.len() as i128 && id != none) {
                let message = format!("`{key}` is {id}, there are {} tokens", tokens.len());
                self.warn("token_id", Some(entry.offset), message);
            }
        }
        self.index(&tokens);
    }

    fn index(&mut self, tokens: &Array<'_>) {
        let pair = [
            keys::SMIDGEN_TOKENIZER_OFFSETS,
            keys::SMIDGEN_TOKENIZER_SORTED,
        ];
        let [offsets, sorted] = pair.map(|key| self.array(key));
        if offsets.is_none() && sorted.is_none() {
            return;
        }
        let Some((good_offsets, good_sorted)) = vocab_index(tokens) else {
            return;
        };
        for (key, found, good) in [
            (pair[0], offsets, good_offsets),
            (pair[1], sorted, good_sorted),
        ] {
            let Some(found) = found else {
                let message = format!("`{key}` is missing beside its other half");
                self.fault("token_index", None, message);
                continue;
            };
            if let Some(at) = first_difference(&found, &good) {
                let message = format!("entry {at} of `{key}` does not fit the tokens");
                self.fault("token_index", self.offset_of(key), message);
            }
        }
    }

    /// The keys of a split model against each other, the name, and the tensors that are here.
    fn split_keys(&mut self, file_name: Option<&str>) {
        let at = |check: &Self, key| check.offset_of(key);
        let named = file_name.and_then(ShardName::parse);
        let Some(split) = self.split else {
            if let Some(offset) = at(self, keys::SPLIT_COUNT).or(at(self, keys::SPLIT_NO)) {
                let message = format!(
                    "shard keys: `{}` and `{}` must both be there, as integers",
                    keys::SPLIT_NO,
                    keys::SPLIT_COUNT
                );
                self.fault("split_no", Some(offset), message);
            } else if named.is_some() {
                let message = String::from("named like a shard, but has no split keys");
                self.warn("split_name", None, message);
            }
            return;
        };
        let count_at = at(self, keys::SPLIT_COUNT);
        if !split.is_shard() {
            if split.no > 0 {
                let message = format!("shard number {} in a file that is whole", split.no);
                self.fault("split_no", at(self, keys::SPLIT_NO), message);
            } else if split.count == 0 {
                let message = String::from("split keys left behind by a merge");
                self.warn("split_left", count_at, message);
            }
        } else if split.no >= split.count {
            let Split { no, count, .. } = split;
            let message = format!("shard number {no} (from 0) of a set of {count}");
            self.fault("split_no", at(self, keys::SPLIT_NO), message);
        }
        let here = self.gguf.tensor_count() as u64;
        if split.tensors.is_some_and(|all| {
            let whole = split.count == 1 && all != here;
            split.count > 0 && (all < here || whole)
        }) {
            let all = split.tensors.unwrap_or_default();
            let message = format!("shard total: {here} tensors are here, {all} in the whole set");
            self.fault(
                "split_tensors",
                at(self, keys::SPLIT_TENSORS_COUNT),
                message,
            );
        }
        match named {
            Some(name) if split.count > 0 => {
                let (number, count) = (u64::from(name.number), u64::from(name.count));
                if (number, count) != (split.no.saturating_add(1), split.count) {
                    let message = format!(
                        "shard name: the name says {number} of {count}, the keys say {} of {}",
                        split.no.saturating_add(1),
                        split.count
                    );
                    self.fault("split_name", count_at, message);
                }
            }
            None if split.is_shard() && file_name.is_some() => {
                let message = String::from(
                    "shard name: a shard must be called NAME-00001-of-00002.gguf, else the others \
                     are not found",
                );
                self.warn("split_name", None, message);
            }
            _ => {}
        }
    }

    /// What the specification asks for in every model.
    fn missing_keys(&mut self) {
        let other_shard = self.split.is_some_and(|split| split.no > 0);
        if self.gguf.tensor_count() == 0 || other_shard {
            return;
        }
        if self.gguf.get(keys::GENERAL_ARCHITECTURE).is_none() {
            let message = format!("`{}` is missing", keys::GENERAL_ARCHITECTURE);
            self.warn("key_missing", None, message);
        }
        let quantized = |info: smidgen_core::gguf::TensorInfo<'_>| {
            let geometry = info.ty().geometry();
            geometry.is_some_and(|geometry| geometry.block_len > 1)
        };
        let version = self.gguf.get(keys::GENERAL_QUANTIZATION_VERSION);
        if version.is_none() && self.gguf.tensors().any(quantized) {
            let message = format!(
                "`{}` is missing, tensors are quantized",
                keys::GENERAL_QUANTIZATION_VERSION
            );
            self.warn("key_missing", None, message);
        }
    }

    /// Version, alignment, order of the tensors.
    fn order(&mut self) {
        let alignment = self.gguf.alignment();
        if !alignment.is_multiple_of(8) {
            let at = self.offset_of(keys::GENERAL_ALIGNMENT);
            let message = format!("alignment {alignment} is no multiple of 8");
            self.warn("alignment_8", at, message);
        }
        if self.gguf.version() == 1 {
            let message = String::from("version 1, which llama.cpp does not read any more");
            self.warn("version_1", Some(4), message);
        }
        let mut before = 0;
        for info in self.gguf.tensors() {
            if info.offset() < before {
                let name = printable(info.name_bytes());
                let message = format!(
                    "tensor `{name}` lies before the one listed ahead of it: llama.cpp refuses that"
                );
                self.warn("tensor_order", Some(info.info_offset()), message);
            }
            before = info.offset();
        }
    }

    /// Bytes between tensors and behind them.
    fn gaps(&mut self) {
        let usage = Usage::of(self.gguf);
        for (offset, len) in usage.gaps {
            let message = format!("gap of {len} bytes between tensors: llama.cpp refuses that");
            self.warn("gap", Some(offset), message);
        }
        if let Some((offset, len)) = usage.trailing {
            let message = format!("{len} bytes behind the end of the data");
            self.warn("trailing", Some(offset), message);
        }
    }
}

/// `lower_snake_case` segments with dots between; digits and `-` occur in real keys too.
fn is_snake_case(key: &[u8]) -> bool {
    key.iter().all(|&byte| {
        byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'_' | b'.' | b'-')
    })
}

/// How many strings of a value are not UTF-8.
fn not_utf8(value: &Value<'_>) -> usize {
    let bad = |bytes: &&[u8]| std::str::from_utf8(bytes).is_err();
    match value {
        Value::String(bytes) => usize::from(bad(&&bytes[..])),
        Value::Array(array) => array.strings().filter(bad).count(),
        _ => 0,
    }
}

/// The first entry in which two arrays of integers of any width differ.
fn first_difference(found: &Array<'_>, good: &OwnedValue) -> Option<usize> {
    let Value::Array(good) = good.as_value() else {
        return None;
    };
    let shared = found.len().min(good.len());
    let differs = |&at: &usize| found.u32_at(at) != good.u32_at(at);
    (0..shared)
        .find(differs)
        .or((found.len() != good.len()).then_some(shared))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use smidgen_core::gguf::GgmlType;
    use smidgen_io::GgufBuilder;

    use super::*;
    use crate::{PartKind, name};

    /// A file that has something of everything that is checked.
    fn file() -> Vec<u8> {
        let mut builder = GgufBuilder::new();
        let tokens = OwnedValue::strings(["<unk>", "b", "a"]);
        let Value::Array(array) = tokens.as_value() else {
            unreachable!()
        };
        let (offsets, sorted) = vocab_index(&array).unwrap();
        builder.set(keys::GENERAL_ARCHITECTURE, "llama");
        builder.set(keys::GENERAL_NAME, "a 7B v1");
        builder.set(keys::GENERAL_ALIGNMENT, 16_u32);
        builder.set(keys::TOKENIZER_GGML_TOKENS, tokens.clone());
        builder.set(keys::TOKENIZER_GGML_SCORES, &[0.0_f32, 1.0, 2.0][..]);
        builder.set(keys::TOKENIZER_GGML_BOS_TOKEN_ID, 1_u32);
        builder.set(keys::SMIDGEN_TOKENIZER_OFFSETS, offsets);
        builder.set(keys::SMIDGEN_TOKENIZER_SORTED, sorted);
        builder
            .set(keys::SPLIT_NO, 0_u16)
            .set(keys::SPLIT_COUNT, 2_u16);
        builder.set(keys::SPLIT_TENSORS_COUNT, 3_i32);
        builder.set(keys::LLAMA_BLOCK_COUNT, 2_u32);
        builder.set(keys::LLAMA_ATTENTION_HEAD_COUNT, &[1_u32, 2][..]);
        for name in ["a", "b"] {
            let bytes = vec![0; 36];
            builder
                .tensor(name, &[32, 2], GgmlType::Q4_0, bytes)
                .unwrap();
        }
        let mut bytes = Vec::new();
        builder.write_to(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn a_file_with_everything_has_no_fault() {
        let bytes = file();
        let verdict = verify(&bytes, Some("m-00001-of-00002.gguf"));
        assert_eq!(verdict.faults, []);
        assert_eq!(verdict.contents_words(), "shard 1 of 2, 2 tensors of 3");
        let codes: Vec<_> = verdict.warnings.iter().map(|found| found.code).collect();
        assert_eq!(codes, ["key_missing"]);
    }

    proptest! {
        /// Whatever is changed and wherever it is cut, there is an answer, and every byte is in
        /// one part.
        #[test]
        fn any_bytes_get_an_answer(
            changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
            cut in any::<prop::sample::Index>(),
            whole in any::<bool>(),
        ) {
            let mut bytes = file();
            for (at, byte) in changes {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            if !whole {
                bytes.truncate(cut.index(bytes.len()));
            }
            let verdict = verify(&bytes, Some("m-00001-of-00002.gguf"));
            let _ = verdict.contents_words();
            if let Some(gguf) = verdict.gguf {
                let usage = Usage::of(&gguf);
                let all: u64 = usage.parts.iter().map(|part| part.bytes).sum();
                prop_assert_eq!(all, bytes.len() as u64);
                prop_assert!(usage.bytes_of(PartKind::Metadata) >= 16);
                let _ = name(&gguf);
            }
            let container = verdict.faults.iter().any(|fault| {
                !["key_type", "token_arrays", "token_index", "split_no", "split_name",
                  "split_tensors"].contains(&fault.code)
            });
            prop_assert_eq!(container, Gguf::parse_small(&bytes).is_err());
        }
    }
}
