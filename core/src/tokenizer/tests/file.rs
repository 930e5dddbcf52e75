//! Files that hold a vocabulary only.

use std::vec;
use std::vec::Vec;

use crate::gguf::{Array, Value, ValueType, Writer, keys};

/// A token: text, score, type number.
pub(super) type Token = (Vec<u8>, f32, i32);

/// Keys with arrays of u32.
pub(super) type Entries = Vec<(&'static str, Vec<u32>)>;

pub(super) const NORMAL: i32 = 1;
pub(super) const UNKNOWN: i32 = 2;
pub(super) const CONTROL: i32 = 3;
pub(super) const USER_DEFINED: i32 = 4;
pub(super) const BYTE: i32 = 6;

/// What else a file says.
#[derive(Clone, Debug, Default)]
pub(super) struct Extra {
    pub(super) entries: Entries,
    pub(super) add_space_prefix: Option<bool>,
    pub(super) without_types: bool,
}

/// A file of a vocabulary only.
pub(super) fn file(tokens: &[Token], extra: &Extra) -> Vec<u8> {
    let mut texts = Vec::new();
    let mut scores = Vec::new();
    let mut types = Vec::new();
    for (text, score, ty) in tokens {
        texts.extend((text.len() as u64).to_le_bytes());
        texts.extend(text);
        scores.extend(score.to_le_bytes());
        types.extend(ty.to_le_bytes());
    }
    let words: Vec<Vec<u8>> = extra
        .entries
        .iter()
        .map(|(_, entries)| entries.iter().flat_map(|x| x.to_le_bytes()).collect())
        .collect();
    let array = |ty, len, bytes| Value::Array(Array::new(ty, len, bytes).unwrap());
    let n = tokens.len();
    let mut entries = vec![
        (keys::TOKENIZER_GGML_MODEL, Value::String(b"llama")),
        (
            keys::TOKENIZER_GGML_TOKENS,
            array(ValueType::String, n, &texts),
        ),
        (
            keys::TOKENIZER_GGML_SCORES,
            array(ValueType::F32, n, &scores),
        ),
    ];
    if !extra.without_types {
        let types = array(ValueType::I32, n, &types);
        entries.push((keys::TOKENIZER_GGML_TOKEN_TYPE, types));
    }
    if let Some(value) = extra.add_space_prefix {
        entries.push((keys::TOKENIZER_GGML_ADD_SPACE_PREFIX, Value::Bool(value)));
    }
    for ((key, list), bytes) in extra.entries.iter().zip(&words) {
        entries.push((key, array(ValueType::U32, list.len(), bytes)));
    }
    let mut bytes = Vec::new();
    let sink = |part: &[u8]| -> Result<(), ()> {
        bytes.extend(part);
        Ok(())
    };
    let mut writer = Writer::new(sink, entries.len() as u64, 0).unwrap();
    for (key, value) in &entries {
        writer.metadata(key, value).unwrap();
    }
    writer.finish(32).unwrap();
    bytes
}

/// The two index arrays of a vocabulary.
pub(super) fn index_arrays(tokens: &[Token]) -> Entries {
    let mut offsets = vec![8];
    for (text, ..) in tokens {
        offsets.push(offsets[offsets.len() - 1] + text.len() as u32 + 8);
    }
    let mut sorted: Vec<u32> = (0..tokens.len() as u32).collect();
    sorted.sort_by_key(|id| (&tokens[*id as usize].0, *id));
    vec![
        (keys::SMIDGEN_TOKENIZER_OFFSETS, offsets),
        (keys::SMIDGEN_TOKENIZER_SORTED, sorted),
    ]
}

/// The first three tokens of the first Llama.
pub(super) fn specials() -> Vec<Token> {
    vec![
        (b"<unk>".to_vec(), 0.0, UNKNOWN),
        (b"<s>".to_vec(), 0.0, CONTROL),
        (b"</s>".to_vec(), 0.0, CONTROL),
    ]
}

pub(super) fn byte_tokens() -> impl Iterator<Item = Token> {
    (0..=255).map(|b| (std::format!("<0x{b:02X}>").into_bytes(), 0.0, BYTE))
}
