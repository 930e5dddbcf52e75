//! Token ids against those of llama.cpp and llama2.c, and the tokenizer area of the cases.

use std::path::{Path, PathBuf};

use serde_json::Value;
use smidgen_core::gguf::Gguf;
use smidgen_core::tokenizer::{
    Decoder, EncodeOptions, IndexKind, Vocabulary, VocabularyError, max_scratch_len,
};
use smidgen_tests::cases::{self, Case};

/// Calls `check` with the vocabulary of a file, with an index.
fn with_vocabulary(path: &Path, check: impl FnOnce(&Vocabulary<'_>)) {
    let bytes = std::fs::read(path).unwrap();
    let mut scratch = vec![0; Gguf::scratch_len(&bytes)];
    let gguf = Gguf::parse(&bytes, &mut scratch).unwrap();
    let mut index = vec![0; Vocabulary::index_len(&gguf)];
    let vocabulary = Vocabulary::load(&gguf, &mut index).unwrap();
    assert_eq!(vocabulary.index(), IndexKind::Built);
    check(&vocabulary);
}

fn encode(vocabulary: &Vocabulary<'_>, text: &[u8], options: EncodeOptions) -> Vec<u32> {
    let mut scratch = vec![0; vocabulary.scratch_len(text, options)];
    assert!(scratch.len() <= max_scratch_len(text.len()));
    let mut ids = Vec::new();
    vocabulary
        .encode(text, options, &mut scratch, &mut |id| ids.push(id))
        .unwrap();
    ids
}

/// What each id gives, and at the end what was held back.
fn decode(vocabulary: &Vocabulary<'_>, ids: &[u32]) -> Vec<Vec<u8>> {
    let mut decoder = Decoder::new();
    let mut parts = Vec::new();
    for id in ids {
        let mut part = Vec::new();
        decoder
            .push(vocabulary, *id, &mut |bytes| part.extend(bytes))
            .unwrap();
        parts.push(part);
    }
    let mut rest = Vec::new();
    decoder.finish(&mut |bytes| rest.extend(bytes));
    parts.push(rest);
    parts
}

fn ids(value: &Value) -> Vec<u32> {
    let list = value.as_array().unwrap();
    list.iter().map(|id| id.as_u64().unwrap() as u32).collect()
}

fn hex(value: &Value) -> Vec<u8> {
    let text = value.as_str().unwrap();
    (0..text.len())
        .step_by(2)
        .map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap())
        .collect()
}

/// The bytes of base64 with padding.
fn base64(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut bits = 0_u32;
    let mut count = 0;
    for c in text.bytes().filter(|c| *c != b'=') {
        let digit = match c {
            b'A'..=b'Z' => c - b'A',
            b'a'..=b'z' => c - b'a' + 26,
            b'0'..=b'9' => c - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => panic!("{c} is no digit of base64"),
        };
        bits = bits << 6 | u32::from(digit);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    bytes
}

/// All texts of the golden file have the ids of `key`, and lead back to the text.
fn check_golden(shared: &Path, vocabulary: &Path, key: &str) {
    let texts = std::fs::read(shared.join("golden/stories260K/tokenize.json")).unwrap();
    let texts: Value = serde_json::from_slice(&texts).unwrap();
    let texts = texts.as_array().unwrap();
    assert!(texts.len() > 10);
    with_vocabulary(&shared.join(vocabulary), |vocabulary| {
        let options = vocabulary.encode_options();
        assert!(options.add_bos && !options.add_eos);
        for entry in texts {
            let text = base64(entry["bytes_b64"].as_str().unwrap());
            let found = encode(vocabulary, &text, options);
            assert_eq!(found, ids(&entry[key]), "{}", entry["text"]);
            if let Ok(text) = String::from_utf8(text) {
                let back = decode(vocabulary, &found).concat();
                let expected = text.replace('\u{2581}', " ");
                assert_eq!(String::from_utf8(back).unwrap(), expected);
            }
        }
    });
}

#[test]
fn ids_of_the_512_vocabulary() {
    if let Some(shared) = smidgen_tests::shared() {
        let file = "golden/stories260K/gguf/stories260K-F32.gguf";
        check_golden(&shared, Path::new(file), "stories260K_llama_cpp");
    }
}

#[test]
fn ids_of_the_32000_vocabulary() {
    if let Some(shared) = smidgen_tests::shared() {
        let file = "models/llama32000-vocab.gguf";
        check_golden(&shared, Path::new(file), "llama32000_llama_cpp");
    }
}

#[test]
fn long_texts_come_back_whole() {
    let Some(shared) = smidgen_tests::shared() else {
        return;
    };
    let story = std::fs::read(shared.join("golden/stories260K/tinystories-200k.txt")).unwrap();
    let equal = vec![b'a'; story.len()];
    with_vocabulary(&shared.join("models/llama32000-vocab.gguf"), |vocabulary| {
        for text in [story, equal] {
            let ids = encode(vocabulary, &text, vocabulary.encode_options());
            assert!(ids.len() < text.len() / 3, "{}", ids.len());
            assert!(decode(vocabulary, &ids).concat() == text);
        }
    });
}

/// The vocabulary of a case: that of its GGUF.
fn vocabulary_file(case: &Case) -> PathBuf {
    let mut files = case.files.iter();
    let gguf = files.find(|file| file.extension().is_some_and(|e| e == "gguf"));
    gguf.unwrap_or_else(|| panic!("{}: no GGUF", case.id))
        .clone()
}

#[test]
fn encode_cases() {
    for case in cases::of("tokenizer", "encode") {
        with_vocabulary(&vocabulary_file(&case), |vocabulary| {
            let text = hex(&case.args["text_hex"]);
            let found = encode(vocabulary, &text, vocabulary.encode_options());
            // Where llama2.c and llama.cpp differ, `ids_spm` is llama.cpp's answer.
            let expected = match &case.facts["ids_spm"] {
                Value::Null => &case.facts["ids"],
                list => list,
            };
            assert_eq!(found, ids(expected), "{}", case.id);
            if let Some(back) = case.facts.get("decode_back_hex") {
                assert_eq!(
                    decode(vocabulary, &found).concat(),
                    hex(back),
                    "{}",
                    case.id
                );
            }
        });
    }
}

#[test]
fn decode_cases() {
    for case in cases::of("tokenizer", "decode") {
        with_vocabulary(&vocabulary_file(&case), |vocabulary| {
            let ids = ids(&case.args["ids"]);
            let parts = decode(vocabulary, &ids);
            assert_eq!(parts.concat(), hex(&case.facts["bytes_hex"]), "{}", case.id);
            if let Some(chunks) = case.facts["utf8_chunks"].as_array() {
                // BOS has no chunk, and nothing is left for the end.
                let parts = parts[1..ids.len()].iter();
                let parts: Vec<_> = parts.map(|part| str::from_utf8(part).unwrap()).collect();
                assert_eq!(
                    parts,
                    chunks
                        .iter()
                        .map(|c| c.as_str().unwrap())
                        .collect::<Vec<_>>()
                );
            }
        });
    }
}

#[test]
fn tokens_that_are_no_strings_are_refused() {
    let bytes = cases::named("kv_tokens_as_u8_array").bytes();
    let gguf = Gguf::parse(&bytes, &mut [0; 64]).unwrap();
    let error = Vocabulary::load(&gguf, &mut []).unwrap_err();
    assert!(matches!(error, VocabularyError::Key(_)));
    assert_eq!(
        error.to_string(),
        "metadata key tokenizer.ggml.tokens must be an array of strings, it is arr"
    );
}
