//! A vocabulary as GGUF stores it, from either source.

use smidgen_core::gguf::{Array, Gguf, KeyError, Value, ValueType, keys};
use smidgen_io::{GgufBuilder, OwnedValue, vocab_index};

use crate::{Format, TokenizerBin, VocabularyError, Warning, foreign};

/// Token types, numbered as in `tokenizer.ggml.token_type`.
mod token_type {
    pub(super) const NORMAL: i32 = 1;
    pub(super) const UNKNOWN: i32 = 2;
    pub(super) const CONTROL: i32 = 3;
    pub(super) const BYTE: i32 = 6;
    /// All that llama.cpp knows: undefined (0), the four above, user-defined (4), unused (5).
    pub(super) const ALL: std::ops::RangeInclusive<i32> = 0..=6;
}

/// The space as SentencePiece writes it, U+2581.
const SPACE: &[u8] = "\u{2581}".as_bytes();

/// Stands for "no such token" where a key is there nevertheless.
const NONE: u32 = u32::MAX;

/// The format that a vocabulary was read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VocabularySource {
    /// llama2.c's `tokenizer.bin`.
    TokenizerBin,
    /// The metadata of a GGUF.
    Gguf,
}

/// Tokens with their scores and types, and what else a GGUF says of its tokenizer.
#[derive(Clone, Debug)]
pub struct Vocabulary {
    source: VocabularySource,
    texts: OwnedValue,
    scores: Vec<f32>,
    types: Vec<i32>,
    /// `smidgen.tokenizer.offsets` and `smidgen.tokenizer.sorted`.
    index: (OwnedValue, OwnedValue),
    /// Further entries, in their order.
    entries: Vec<(String, OwnedValue)>,
    warnings: Vec<Warning>,
}

impl Vocabulary {
    /// Reads a vocabulary of `vocab_size` tokens from a `tokenizer.bin` or a GGUF, which its
    /// content tells apart.
    ///
    /// Of a `tokenizer.bin`, tokens 0, 1 and 2 become `<unk>`, `<s>` and `</s>`; `<0xNN>` with two
    /// digits 0-9, A-F stands for a byte, as SentencePiece writes it; every space becomes U+2581.
    /// All other bytes are kept as they are, be they UTF-8 or not: a token is what the model was
    /// trained with, and the engine puts out bytes.
    ///
    /// Of a GGUF, tokens, scores and types are taken as they are, and with them all further
    /// entries under `tokenizer.`; what stands for "none" (4294967295) is left out.
    ///
    /// # Errors
    /// It is something else, is damaged, or does not have `vocab_size` tokens.
    pub fn read(bytes: &[u8], vocab_size: u32) -> Result<Self, VocabularyError> {
        if bytes.starts_with(b"GGUF") {
            return Self::from_gguf(bytes, vocab_size);
        }
        let tokenizer = match TokenizerBin::parse(bytes) {
            Ok(tokenizer) => tokenizer,
            Err(_) if foreign::is_checkpoint(bytes) => {
                let format = Format::Checkpoint;
                return Err(VocabularyError::Foreign { format });
            }
            Err(error) => return Err(error),
        };
        check_size(tokenizer.len(), vocab_size)?;
        Self::from_tokenizer_bin(&tokenizer)
    }

    fn from_tokenizer_bin(tokenizer: &TokenizerBin<'_>) -> Result<Self, VocabularyError> {
        const SPECIAL: [(&str, i32); 3] = [
            ("<unk>", token_type::UNKNOWN),
            ("<s>", token_type::CONTROL),
            ("</s>", token_type::CONTROL),
        ];
        let len = tokenizer.len();
        let mut texts = Vec::with_capacity(len);
        let mut scores = Vec::with_capacity(len);
        let mut types = Vec::with_capacity(len);
        let mut warnings = Vec::new();
        for (id, (score, text)) in tokenizer.iter().enumerate() {
            let (text, ty) = match SPECIAL.get(id) {
                Some(&(special, ty)) => {
                    // llama2.c's tokenizer.py stores BOS and EOS as "\n<s>\n" and "\n</s>\n".
                    if text.trim_ascii() != special.as_bytes() {
                        warnings.push(Warning::Replaced {
                            id,
                            text: text.to_vec(),
                            by: special,
                        });
                    }
                    (special.into(), ty)
                }
                None if is_byte(text) => (text.to_vec(), token_type::BYTE),
                None => (escape(text), token_type::NORMAL),
            };
            texts.push(text);
            scores.push(score);
            types.push(ty);
        }
        if len < SPECIAL.len() {
            return Err(VocabularyError::TooFew { found: len });
        }
        let entries = defaults().into();
        let source = VocabularySource::TokenizerBin;
        Self::build(source, &texts, scores, types, entries, warnings)
    }

    fn from_gguf(bytes: &[u8], vocab_size: u32) -> Result<Self, VocabularyError> {
        let mut scratch = vec![0; Gguf::scratch_len(bytes)];
        let gguf = Gguf::parse(bytes, &mut scratch)?;
        match gguf.get_bytes(keys::TOKENIZER_GGML_MODEL).map_err(key)? {
            Some(b"llama") => {}
            Some(found) => {
                let found = String::from_utf8_lossy(found).into_owned();
                return Err(VocabularyError::Model { found });
            }
            None => return Err(missing(keys::TOKENIZER_GGML_MODEL)),
        }
        let array = |name, ty| {
            let array = gguf.get_array(name, ty).map_err(key)?;
            array.ok_or_else(|| missing(name))
        };
        let texts = array(keys::TOKENIZER_GGML_TOKENS, ValueType::String)?;
        let scores = array(keys::TOKENIZER_GGML_SCORES, ValueType::F32)?;
        let types = array(keys::TOKENIZER_GGML_TOKEN_TYPE, ValueType::I32)?;
        check_size(texts.len(), vocab_size)?;
        for (name, array) in [
            (keys::TOKENIZER_GGML_SCORES, &scores),
            (keys::TOKENIZER_GGML_TOKEN_TYPE, &types),
        ] {
            if array.len() != texts.len() {
                return Err(VocabularyError::ArrayLength {
                    key: name,
                    found: array.len(),
                    expected: texts.len(),
                });
            }
        }
        let texts: Vec<_> = texts.strings().collect();
        let mut checked_scores = Vec::with_capacity(texts.len());
        for (id, score) in scores.iter().enumerate() {
            match score {
                Value::F32(score) if !score.is_nan() => checked_scores.push(score),
                _ => return Err(VocabularyError::Score { id }),
            }
        }
        let mut checked_types = Vec::with_capacity(texts.len());
        for (id, ty) in types.iter().enumerate() {
            match ty {
                Value::I32(ty) if token_type::ALL.contains(&ty) => checked_types.push(ty),
                Value::I32(found) => return Err(VocabularyError::TokenType { id, found }),
                _ => {}
            }
        }
        let entries = further_entries(&gguf, vocab_size)?;
        let source = VocabularySource::Gguf;
        Self::build(
            source,
            &texts,
            checked_scores,
            checked_types,
            entries,
            Vec::new(),
        )
    }

    fn build<T: AsRef<[u8]>>(
        source: VocabularySource,
        texts: &[T],
        scores: Vec<f32>,
        types: Vec<i32>,
        entries: Vec<(String, OwnedValue)>,
        mut warnings: Vec<Warning>,
    ) -> Result<Self, VocabularyError> {
        let not_utf8 = |text: &&T| std::str::from_utf8(text.as_ref()).is_err();
        let count = texts.iter().filter(not_utf8).count();
        if count > 0 {
            warnings.push(Warning::NotUtf8 { count });
        }
        let texts = OwnedValue::strings(texts);
        let index = array(&texts).and_then(|texts| vocab_index(&texts));
        let index = index.ok_or(VocabularyError::TooLarge)?;
        if let Some((texts, sorted)) = array(&texts).zip(array(&index.1)) {
            warnings.extend(repeats(&texts, &sorted));
        }
        Ok(Self {
            source,
            texts,
            scores,
            types,
            index,
            entries,
            warnings,
        })
    }

    /// Where it was read from.
    #[must_use]
    pub fn source(&self) -> VocabularySource {
        self.source
    }

    /// How many tokens there are.
    #[must_use]
    #[allow(clippy::len_without_is_empty)] // It never is.
    pub fn len(&self) -> usize {
        self.scores.len()
    }

    /// What is odd about it, though it can be used.
    #[must_use]
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// Sets the entries of the tokenizer, and the index arrays that belong to them.
    pub fn write_to(&self, builder: &mut GgufBuilder<'_>) {
        builder
            .set(keys::TOKENIZER_GGML_MODEL, "llama")
            .set(keys::TOKENIZER_GGML_TOKENS, self.texts.clone())
            .set(keys::TOKENIZER_GGML_SCORES, &self.scores[..])
            .set(keys::TOKENIZER_GGML_TOKEN_TYPE, &self.types[..]);
        for (key, value) in &self.entries {
            builder.set(key, value.clone());
        }
        let (offsets, sorted) = self.index.clone();
        builder
            .set(keys::SMIDGEN_TOKENIZER_OFFSETS, offsets)
            .set(keys::SMIDGEN_TOKENIZER_SORTED, sorted);
    }
}

/// What llama.cpp takes where a file says nothing, and what llama2.c knows no other of.
fn defaults() -> [(String, OwnedValue); 4] {
    [
        (keys::TOKENIZER_GGML_BOS_TOKEN_ID, 1_u32.into()),
        (keys::TOKENIZER_GGML_EOS_TOKEN_ID, 2_u32.into()),
        (keys::TOKENIZER_GGML_UNKNOWN_TOKEN_ID, 0_u32.into()),
        (keys::TOKENIZER_GGML_ADD_BOS_TOKEN, true.into()),
    ]
    .map(|(key, value)| (key.to_owned(), value))
}

/// What a GGUF says of its tokenizer besides model, tokens, scores and types: ids of special tokens
/// where there are such tokens, and all else as it is.
fn further_entries(
    gguf: &Gguf<'_>,
    vocab_size: u32,
) -> Result<Vec<(String, OwnedValue)>, VocabularyError> {
    const OURS: [&str; 4] = [
        keys::TOKENIZER_GGML_MODEL,
        keys::TOKENIZER_GGML_TOKENS,
        keys::TOKENIZER_GGML_SCORES,
        keys::TOKENIZER_GGML_TOKEN_TYPE,
    ];
    let mut entries = Vec::new();
    for entry in gguf.metadata() {
        let name = entry.key();
        if !name.starts_with("tokenizer.") || OURS.contains(&name) {
            continue;
        }
        if name.starts_with("tokenizer.ggml.") && name.ends_with("_token_id") {
            match gguf.get_u32(name).map_err(key)? {
                None | Some(NONE) => continue,
                Some(id) if id < vocab_size => {}
                Some(found) => {
                    return Err(VocabularyError::TokenId {
                        key: name.to_owned(),
                        found,
                        vocab_size,
                    });
                }
            }
        }
        entries.push((name.to_owned(), OwnedValue::from(entry.value)));
    }
    for (name, value) in defaults() {
        let id = value.as_value().as_integer();
        let is_token = id.is_none_or(|id| id < vocab_size.into());
        if gguf.get(&name).is_none() && is_token {
            entries.push((name, value));
        }
    }
    Ok(entries)
}

fn array(value: &OwnedValue) -> Option<Array<'_>> {
    match value.as_value() {
        Value::Array(array) => Some(array),
        _ => None,
    }
}

/// Tokens that have the same text as another.
fn repeats(texts: &Array<'_>, sorted: &Array<'_>) -> Option<Warning> {
    let texts: Vec<_> = texts.strings().collect();
    let ids: Vec<_> = (0..sorted.len())
        .filter_map(|at| sorted.u32_at(at))
        .collect();
    let is_repeat = |&(a, b): &(u32, u32)| texts.get(a as usize) == texts.get(b as usize);
    let pairs = ids.iter().copied().zip(ids.iter().copied().skip(1));
    let mut repeats = pairs.filter(is_repeat);
    let (first, second) = repeats.next()?;
    let count = 1 + repeats.count();
    Some(Warning::Repeated {
        count,
        first,
        second,
    })
}

fn check_size(found: usize, expected: u32) -> Result<(), VocabularyError> {
    if u64::from(expected) == found as u64 {
        Ok(())
    } else {
        Err(VocabularyError::Size { found, expected })
    }
}

/// Whether a text is `<0xNN>` as SentencePiece writes a byte.
fn is_byte(text: &[u8]) -> bool {
    let digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'A'..=b'F');
    matches!(*text, [b'<', b'0', b'x', a, b, b'>'] if digit(a) && digit(b))
}

/// The text with every space as U+2581.
fn escape(text: &[u8]) -> Vec<u8> {
    let mut escaped = Vec::with_capacity(text.len() + 2);
    for &byte in text {
        match byte {
            b' ' => escaped.extend_from_slice(SPACE),
            other => escaped.push(other),
        }
    }
    escaped
}

fn key(error: KeyError<'_>) -> VocabularyError {
    VocabularyError::Key {
        message: error.to_string(),
    }
}

fn missing(key: &'static str) -> VocabularyError {
    VocabularyError::Missing { key }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokenizer_bin(texts: &[&[u8]]) -> Vec<u8> {
        let mut bytes = vec![0; 4];
        for (text, score) in texts.iter().zip(0_u8..) {
            bytes.extend((-f32::from(score)).to_le_bytes());
            bytes.extend(u32::try_from(text.len()).unwrap().to_le_bytes());
            bytes.extend(*text);
        }
        bytes
    }

    fn read(texts: &[&[u8]]) -> Result<Vocabulary, VocabularyError> {
        let len = u32::try_from(texts.len()).unwrap();
        Vocabulary::read(&tokenizer_bin(texts), len)
    }

    /// Stored text and type of each token.
    fn tokens(vocabulary: &Vocabulary) -> Vec<(&[u8], i32)> {
        let texts = array(&vocabulary.texts).unwrap();
        texts
            .strings()
            .zip(vocabulary.types.iter().copied())
            .collect()
    }

    #[test]
    fn texts_are_stored_as_sentencepiece_writes_them() {
        let texts: [&[u8]; 15] = [
            b"<unk>",
            b"\n<s>\n",
            b"\n</s>\n",
            b"<0x00>",
            b"<0xAF>",
            b" a  b ",
            b"a",
            b"\xc3\x28 ",
            b"a\0b",
            b"",
            b"<0xaf>",
            b"<0x4G>",
            b"<0x-1>",
            b"<0x41",
            b"<0x041>",
        ];
        let vocabulary = read(&texts).unwrap();
        let expected: [(&[u8], i32); 15] = [
            (b"<unk>", 2),
            (b"<s>", 3),
            (b"</s>", 3),
            (b"<0x00>", 6),
            (b"<0xAF>", 6),
            ("\u{2581}a\u{2581}\u{2581}b\u{2581}".as_bytes(), 1),
            (b"a", 1),
            (b"\xc3\x28\xe2\x96\x81", 1),
            (b"a\0b", 1),
            (b"", 1),
            (b"<0xaf>", 1),
            (b"<0x4G>", 1),
            (b"<0x-1>", 1),
            (b"<0x41", 1),
            (b"<0x041>", 1),
        ];
        assert_eq!(tokens(&vocabulary), expected);
        assert_eq!(vocabulary.warnings(), [Warning::NotUtf8 { count: 1 }]);
    }

    #[test]
    fn what_is_odd_is_told() {
        let vocabulary = read(&[b"<unk>", b"[CLS]", b"</s>", b"a", b"b", b"a", b"a"]).unwrap();
        let expected = [
            Warning::Replaced {
                id: 1,
                text: b"[CLS]".to_vec(),
                by: "<s>",
            },
            Warning::Repeated {
                count: 2,
                first: 3,
                second: 5,
            },
        ];
        assert_eq!(vocabulary.warnings(), expected);
        let words: Vec<_> = expected.iter().map(ToString::to_string).collect();
        assert_eq!(words[0], "token 1 was `[CLS]`, it becomes <s>");
        assert_eq!(
            words[1],
            "token 5 repeats the text of token 3, and 1 more do the like; the lowest id is the \
             one that is found"
        );
    }

    #[test]
    fn sizes_must_match() {
        let few = VocabularyError::TooFew { found: 2 };
        assert_eq!(read(&[b"<unk>", b"<s>"]).unwrap_err(), few);
        let bytes = tokenizer_bin(&[b"<unk>", b"<s>", b"</s>"]);
        for expected in [0, 2, 4, u32::MAX] {
            let size = VocabularyError::Size { found: 3, expected };
            assert_eq!(Vocabulary::read(&bytes, expected).unwrap_err(), size);
        }
    }

    /// A GGUF with a vocabulary of four tokens, changed by `change`.
    fn gguf(change: impl FnOnce(&mut GgufBuilder<'_>)) -> Vec<u8> {
        let mut builder = GgufBuilder::new();
        builder
            .set(keys::TOKENIZER_GGML_MODEL, "llama")
            .set(
                keys::TOKENIZER_GGML_TOKENS,
                OwnedValue::strings(["<unk>", "<s>", "</s>", "a"]),
            )
            .set(keys::TOKENIZER_GGML_SCORES, &[0_f32, 0.0, 0.0, -1.0][..])
            .set(keys::TOKENIZER_GGML_TOKEN_TYPE, &[2_i32, 3, 3, 1][..]);
        change(&mut builder);
        let mut bytes = Vec::new();
        builder.write_to(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn a_gguf_s_entries_are_taken_over() {
        let bytes = gguf(|builder| {
            builder
                .set("general.name", "not of the tokenizer")
                .set(keys::TOKENIZER_GGML_BOS_TOKEN_ID, 3_u32)
                .set(keys::TOKENIZER_GGML_EOS_TOKEN_ID, NONE)
                .set(keys::TOKENIZER_GGML_PADDING_TOKEN_ID, NONE)
                .set(keys::TOKENIZER_GGML_ADD_SPACE_PREFIX, false)
                .set("tokenizer.chat_template", "{{ x }}")
                .set(keys::SMIDGEN_TOKENIZER_OFFSETS, &[1_u16, 2][..]);
        });
        let vocabulary = Vocabulary::read(&bytes, 4).unwrap();
        assert_eq!(vocabulary.source(), VocabularySource::Gguf);
        let mut builder = GgufBuilder::new();
        vocabulary.write_to(&mut builder);
        for (key, value) in [
            (keys::TOKENIZER_GGML_BOS_TOKEN_ID, 3_u32.into()),
            (keys::TOKENIZER_GGML_UNKNOWN_TOKEN_ID, 0_u32.into()),
            (keys::TOKENIZER_GGML_ADD_BOS_TOKEN, true.into()),
            (keys::TOKENIZER_GGML_ADD_SPACE_PREFIX, false.into()),
            ("tokenizer.chat_template", "{{ x }}".into()),
            (
                keys::SMIDGEN_TOKENIZER_OFFSETS,
                (&[8_u16, 21, 32, 44, 53][..]).into(),
            ),
            (
                keys::SMIDGEN_TOKENIZER_SORTED,
                (&[2_u16, 1, 0, 3][..]).into(),
            ),
        ] {
            assert_eq!(builder.get(key), Some(&value), "{key}");
        }
        for key in [
            "general.name",
            keys::TOKENIZER_GGML_EOS_TOKEN_ID,
            keys::TOKENIZER_GGML_PADDING_TOKEN_ID,
        ] {
            assert_eq!(builder.get(key), None, "{key}");
        }
    }

    #[test]
    fn a_gguf_that_is_wrong_says_what() {
        let error = |change: fn(&mut GgufBuilder<'_>)| {
            Vocabulary::read(&gguf(change), 4).unwrap_err().to_string()
        };
        let bpe = error(|b| _ = b.set(keys::TOKENIZER_GGML_MODEL, "gpt2"));
        assert!(
            bpe.contains("`gpt2`") && bpe.contains("needs `llama`"),
            "{bpe}"
        );
        for key in [
            keys::TOKENIZER_GGML_MODEL,
            keys::TOKENIZER_GGML_TOKENS,
            keys::TOKENIZER_GGML_SCORES,
            keys::TOKENIZER_GGML_TOKEN_TYPE,
        ] {
            let bytes = gguf(|builder| {
                builder.remove(key);
            });
            let error = Vocabulary::read(&bytes, 4).unwrap_err();
            assert_eq!(error, VocabularyError::Missing { key });
        }
        let short = error(|b| _ = b.set(keys::TOKENIZER_GGML_SCORES, &[0_f32; 3][..]));
        assert_eq!(short, "tokenizer.ggml.scores has 3 elements for 4 tokens");
        let nan = error(|b| _ = b.set(keys::TOKENIZER_GGML_SCORES, &[f32::NAN; 4][..]));
        assert_eq!(nan, "the score of token 0 is NaN");
        let ty = error(|b| _ = b.set(keys::TOKENIZER_GGML_TOKEN_TYPE, &[2_i32, 3, 7, 1][..]));
        assert_eq!(ty, "the type of token 2 is 7, it must be 0 to 6");
        let id = error(|b| _ = b.set(keys::TOKENIZER_GGML_BOS_TOKEN_ID, 4_u32));
        assert_eq!(
            id,
            "tokenizer.ggml.bos_token_id is 4, but there are 4 tokens"
        );
        let text = error(|b| _ = b.set(keys::TOKENIZER_GGML_BOS_TOKEN_ID, "1"));
        assert!(text.contains("tokenizer.ggml.bos_token_id"), "{text}");
        let cut = Vocabulary::read(&gguf(|_| {})[..100], 4).unwrap_err();
        assert!(matches!(cut, VocabularyError::Gguf { .. }));
    }
}
