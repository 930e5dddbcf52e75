//! Encoding and decoding against a plain implementation of llama.cpp's rules, over random
//! vocabularies.

mod file;
mod reference;

use proptest::prelude::*;
use std::string::String;
use std::vec;
use std::vec::Vec;

use self::file::*;
use self::reference::reference;
use super::*;
use crate::gguf::{Array, Gguf, Value, ValueType, Writer, keys};

/// Calls `check` with the vocabulary as it is found in each of the three ways.
fn in_every_way(tokens: &[Token], extra: &Extra, check: &dyn Fn(&Vocabulary<'_>)) {
    let plain = file(tokens, extra);
    let mut indexed = extra.clone();
    indexed.entries.extend(index_arrays(tokens));
    let indexed = file(tokens, &indexed);
    for (bytes, kind) in [
        (&indexed, IndexKind::Stored),
        (&plain, IndexKind::Built),
        (&plain, IndexKind::Walk),
    ] {
        let gguf = Gguf::parse(bytes, &mut [0; 16]).unwrap();
        let mut buffer = vec![0; Vocabulary::index_len(&gguf)];
        assert_eq!(buffer.is_empty(), kind == IndexKind::Stored);
        if kind == IndexKind::Walk {
            buffer.clear();
        }
        let vocabulary = Vocabulary::load(&gguf, &mut buffer).unwrap();
        assert_eq!(vocabulary.index(), kind);
        assert_eq!(vocabulary.index_fault(), None);
        check(&vocabulary);
    }
}

fn encode(vocabulary: &Vocabulary<'_>, text: &[u8], options: EncodeOptions) -> Vec<u32> {
    let needed = vocabulary.scratch_len(text, options);
    assert!(needed <= max_scratch_len(text.len()));
    let mut ids = Vec::new();
    let count = vocabulary
        .encode(text, options, &mut vec![7; needed], &mut |id| ids.push(id))
        .unwrap();
    assert_eq!(count, ids.len());
    ids
}

fn decode(vocabulary: &Vocabulary<'_>, ids: &[u32]) -> Vec<u8> {
    let mut text = Vec::new();
    let mut decoder = Decoder::new();
    for id in ids {
        decoder
            .push(vocabulary, *id, &mut |part| text.extend(part))
            .unwrap();
    }
    decoder.finish(&mut |part| text.extend(part));
    text
}

/// Short strings over few characters, so that pieces are often found in texts.
fn piece() -> impl Strategy<Value = Vec<u8>> {
    let unit = prop::sample::select(vec!["a", "b", "c", "\u{2581}", "é", "\u{1F680}", "<", ">"]);
    prop::collection::vec(unit, 1..5).prop_map(|units| units.concat().into_bytes())
}

fn vocabulary() -> impl Strategy<Value = Vec<Token>> {
    // Few scores make many ties; some tokens appear twice.
    let score = prop::sample::select(vec![-3.0, -2.0, -1.0, 0.0, f32::NEG_INFINITY]);
    let ty = prop::sample::select(vec![NORMAL, NORMAL, NORMAL, NORMAL, NORMAL, USER_DEFINED]);
    let pieces = prop::collection::vec((piece(), score, ty), 0..40);
    (pieces, any::<bool>()).prop_map(|(pieces, bytes)| {
        let mut tokens = specials();
        tokens.extend(byte_tokens().filter(|_| bytes));
        tokens.extend(pieces);
        tokens
    })
}

/// Texts over the same characters, spaces, other characters, and bytes that are no UTF-8.
fn text() -> impl Strategy<Value = Vec<u8>> {
    let units: Vec<&[u8]> = vec![
        b"a",
        b"a",
        b"b",
        b"b",
        b"c",
        b" ",
        b" ",
        "é".as_bytes(),
        "\u{1F680}".as_bytes(),
        "\u{2581}".as_bytes(),
        "世".as_bytes(),
        b"\xC2",
        b"\xE2",
        b"\xF0",
        b"\x80",
        b"<s>",
        b"</s>",
        b"<unk>",
        b"<",
        b">",
    ];
    prop::collection::vec(prop::sample::select(units), 0..40).prop_map(|units| units.concat())
}

/// What `text` encodes to without additions.
const BARE: EncodeOptions = EncodeOptions {
    add_bos: false,
    add_eos: false,
    parse_special: false,
};

proptest! {
    #[test]
    fn encodes_as_the_plain_rules_say(
        tokens in vocabulary(),
        text in text(),
        prefix in any::<bool>(),
        parse_special in any::<bool>(),
    ) {
        let extra = Extra { add_space_prefix: Some(prefix), ..Extra::default() };
        let options = EncodeOptions { parse_special, ..BARE };
        let expected = reference(&tokens, &text, prefix, parse_special);
        in_every_way(&tokens, &extra, &|vocabulary| {
            assert_eq!(encode(vocabulary, &text, options), expected);
        });
    }

    /// With byte tokens nothing is lost; only U+2581 comes back as a space.
    #[test]
    fn decoding_gives_the_text_back(
        pieces in prop::collection::vec(piece(), 0..40),
        text in "[abc é世\u{1F680}\u{2581}<>]{0,40}",
        any_text in any::<String>(),
        bytes in prop::collection::vec(any::<u8>().prop_filter("space", |b| *b != b' '), 0..60),
        add_bos in any::<bool>(),
    ) {
        let mut tokens = specials();
        tokens.extend(byte_tokens());
        // Without this one the prefix is three byte tokens, which mean U+2581.
        tokens.push(("\u{2581}".into(), -9.0, NORMAL));
        tokens.extend(pieces.into_iter().map(|piece| (piece, -1.0, NORMAL)));
        in_every_way(&tokens, &Extra::default(), &|vocabulary| {
            let back = |text: &[u8]| {
                decode(vocabulary, &encode(vocabulary, text, EncodeOptions { add_bos, ..BARE }))
            };
            for text in [&text, &any_text] {
                let expected = text.replace('\u{2581}', " ");
                assert_eq!(String::from_utf8(back(text.as_bytes())).unwrap(), expected);
            }
            // Bytes that are no text come back too, where no stray one breaks up a space.
            if !bytes.windows(3).any(|w| w == "\u{2581}".as_bytes()) {
                assert_eq!(back(&bytes), bytes);
            }
        });
    }

    /// Tokens, scores and types may be anything: nothing panics, and the ways to find tokens agree.
    #[test]
    fn any_vocabulary_does(
        tokens in prop::collection::vec(
            (prop::collection::vec(any::<u8>(), 0..4), any::<f32>(), -1..8), 0..50,
        ),
        text in prop::collection::vec(any::<u8>(), 0..50),
        add_bos in any::<bool>(),
        add_eos in any::<bool>(),
        parse_special in any::<bool>(),
    ) {
        let options = EncodeOptions { add_bos, add_eos, parse_special };
        let answers = core::cell::RefCell::new(Vec::new());
        in_every_way(&tokens, &Extra::default(), &|vocabulary| {
            let mut scratch = vec![0; vocabulary.scratch_len(&text, options)];
            let mut out = vec![0; text.len() * 3 + 5];
            let count = vocabulary.encode_into(&text, options, &mut scratch, &mut out);
            out.truncate(*count.as_ref().unwrap_or(&0));
            decode(vocabulary, &out);
            answers.borrow_mut().push((count, out));
            for id in [vocabulary.len(), u32::MAX / 4, u32::MAX / 2 + 1, u32::MAX] {
                assert_eq!(vocabulary.piece(id), None);
                assert_eq!(vocabulary.score(id), None);
                assert_eq!(vocabulary.token_type(id), None);
            }
        });
        let answers = answers.into_inner();
        prop_assert_eq!(&answers[0], &answers[1]);
        prop_assert_eq!(&answers[0], &answers[2]);
    }

    /// The decoder gives out what the pieces say in whole characters, however ids split them.
    #[test]
    fn no_part_of_a_character_is_given_out(bytes in prop::collection::vec(
        prop::sample::select(vec![b'a', 0xC3, 0xA9, 0xE4, 0xB8, 0x96, 0xF0, 0x9F, 0x9A, 0x80, 0xFF]),
        0..30,
    )) {
        let mut tokens = specials();
        tokens.extend(byte_tokens());
        in_every_way(&tokens, &Extra::default(), &|vocabulary| {
            let mut decoder = Decoder::new();
            let mut text: Vec<u8> = Vec::new();
            for (i, byte) in bytes.iter().enumerate() {
                decoder
                    .push(vocabulary, u32::from(*byte) + 3, &mut |part| {
                        assert!(!part.is_empty());
                        text.extend(part);
                    })
                    .unwrap();
                // All is out but what may still become a character.
                let last = bytes[..=i].utf8_chunks().last().unwrap();
                let may_become = match core::str::from_utf8(last.invalid()) {
                    Err(e) if e.error_len().is_none() => last.invalid().len(),
                    _ => 0,
                };
                assert_eq!(text, bytes[..i + 1 - may_become]);
            }
            decoder.finish(&mut |part| text.extend(part));
            assert_eq!(text, bytes);
        });
    }
}

/// The vocabulary of `tokens`, found by walking, or why there is none.
fn load(tokens: &[Token], extra: &Extra, check: &dyn Fn(Result<Vocabulary<'_>, VocabularyError>)) {
    let bytes = file(tokens, extra);
    let gguf = Gguf::parse(&bytes, &mut [0; 16]).unwrap();
    check(Vocabulary::load(&gguf, &mut []));
}

#[test]
fn wrong_index_arrays_are_not_used() {
    let mut tokens = specials();
    tokens.extend(["b", "a", "ab"].map(|text| (text.into(), -1.0, NORMAL)));
    let right = index_arrays(&tokens);
    let expect = |change: &dyn Fn(&mut Entries), fault| {
        let mut entries = right.clone();
        change(&mut entries);
        let extra = Extra {
            entries,
            ..Extra::default()
        };
        load(&tokens, &extra, &|vocabulary| {
            let vocabulary = vocabulary.unwrap();
            assert_eq!(vocabulary.index_fault(), fault);
            assert_eq!(vocabulary.index() == IndexKind::Stored, fault.is_none());
            assert_eq!(vocabulary.find(b"ab"), Some(5));
        });
    };
    expect(&|_| {}, None);
    expect(&|x| x.truncate(1), Some(IndexFault::Half));
    expect(&|x| x[0].1.truncate(6), Some(IndexFault::Len));
    expect(&|x| x[1].1.push(0), Some(IndexFault::Len));
    expect(&|x| x[0].1[0] = 0, Some(IndexFault::Offset { at: 0 }));
    expect(&|x| x[0].1[6] += 1, Some(IndexFault::Offset { at: 6 }));
    // <unk> may not come before </s>, nothing twice, and no id past the end.
    expect(&|x| x[1].1.swap(0, 1), Some(IndexFault::Order { at: 1 }));
    expect(
        &|x| x[1].1[3] = x[1].1[2],
        Some(IndexFault::Order { at: 3 }),
    );
    expect(&|x| x[1].1[5] = 6, Some(IndexFault::Order { at: 5 }));

    // With a buffer, the index is built there; one that is too short is an error.
    let mut entries = right.clone();
    entries[1].1.swap(0, 1);
    let bytes = file(
        &tokens,
        &Extra {
            entries,
            ..Extra::default()
        },
    );
    let gguf = Gguf::parse(&bytes, &mut [0; 16]).unwrap();
    let mut buffer = [0; 13];
    let vocabulary = Vocabulary::load(&gguf, &mut buffer).unwrap();
    assert_eq!(vocabulary.index(), IndexKind::Built);
    assert_eq!(
        Vocabulary::load(&gguf, &mut [0; 12]).unwrap_err(),
        VocabularyError::IndexBuffer {
            needed: 13,
            found: 12
        }
    );
}

#[test]
fn files_that_hold_no_usable_vocabulary_are_refused() {
    let entry = |key, list: &[u32]| Extra {
        entries: vec![(key, list.to_vec())],
        without_types: true,
        ..Extra::default()
    };
    let three = entry(keys::TOKENIZER_GGML_TOKEN_TYPE, &[1, 1, 1]);
    load(&specials(), &three, &|vocabulary| {
        let error = vocabulary.unwrap_err();
        assert!(
            matches!(error, VocabularyError::Key(_)),
            "u32 types: {error}"
        );
    });

    let mut bytes = Vec::new();
    let sink = |part: &[u8]| -> Result<(), ()> {
        bytes.extend(part);
        Ok(())
    };
    let mut writer = Writer::new(sink, 5, 0).unwrap();
    let text = [&1_u64.to_le_bytes()[..], b"a"].concat();
    let tokens = Value::Array(Array::new(ValueType::String, 1, &text).unwrap());
    let scores = Value::Array(Array::new(ValueType::F32, 2, &[0; 8]).unwrap());
    let model = Value::String(b"llama");
    writer
        .metadata(keys::TOKENIZER_GGML_TOKENS, &tokens)
        .unwrap();
    writer.metadata(keys::TOKENIZER_GGML_MODEL, &model).unwrap();
    writer
        .metadata(keys::TOKENIZER_GGML_SCORES, &scores)
        .unwrap();
    writer
        .metadata(keys::TOKENIZER_GGML_BOS_TOKEN_ID, &Value::U32(1))
        .unwrap();
    writer.metadata("tokenizer.other", &Value::U32(1)).unwrap();
    writer.finish(32).unwrap();
    let refuse = |from: &[u8], to: &[u8], expected: &str| {
        let at = bytes.windows(from.len()).position(|w| w == from).unwrap();
        let mut bytes = bytes.clone();
        bytes[at..at + to.len()].copy_from_slice(to);
        let gguf = Gguf::parse(&bytes, &mut [0; 16]).unwrap();
        let error = Vocabulary::load(&gguf, &mut []).unwrap_err();
        assert_eq!(std::format!("{error}"), expected);
    };
    refuse(
        b"tokenizer.other",
        b"tokenizer.othex",
        "tokenizer.ggml.scores has 2 entries for 1 tokens",
    );
    refuse(
        b"tokenizer.ggml.scores",
        b"tokenizer.ggml.scorex",
        "tokenizer.ggml.bos_token_id is 1, but there are only 1 tokens",
    );
    refuse(
        b"tokenizer.ggml.tokens",
        b"tokenizer.ggml.tokenx",
        "metadata key tokenizer.ggml.tokens is missing",
    );
    refuse(
        b"llama",
        b"other",
        "tokenizer.ggml.model is of an unknown kind, only llama is supported",
    );
}

#[test]
fn what_does_not_fit_is_said() {
    let tokens = specials();
    load(&tokens, &Extra::default(), &|vocabulary| {
        let vocabulary = vocabulary.unwrap();
        let mut scratch = [0; 100];
        // Prefix, and four characters of one, two, three and four bytes.
        let text = "aé世\u{1F680}".as_bytes();
        assert_eq!(
            vocabulary.encode(text, BARE, &mut [0; 24], &mut |_| unreachable!()),
            Err(EncodeError::Scratch {
                needed: 25,
                found: 24
            })
        );
        assert_eq!(
            vocabulary.encode_into(text, BARE, &mut scratch, &mut [0; 4]),
            Err(EncodeError::OutputLen {
                needed: 5,
                found: 4
            })
        );
        let mut out = [9; 6];
        let count = vocabulary.encode_into(text, BARE, &mut scratch, &mut out);
        // A character without a token, whose bytes have none, is one unknown token.
        assert_eq!((count, out), (Ok(5), [0, 0, 0, 0, 0, 9]));
        let mut decoder = Decoder::new();
        let error = decoder.push(&vocabulary, 3, &mut |_| {}).unwrap_err();
        assert_eq!(error, NoSuchToken { id: 3, len: 3 });
    });
    load(&[], &Extra::default(), &|vocabulary| {
        let vocabulary = vocabulary.unwrap();
        let encode = |text: &[u8], options| {
            vocabulary.encode(text, options, &mut [0; 100], &mut |_| unreachable!())
        };
        assert!(vocabulary.is_empty());
        assert_eq!(encode(b"", BARE), Ok(0));
        assert_eq!(encode(b"a", BARE), Err(EncodeError::NoUnknown));
        let options = vocabulary.encode_options();
        assert_eq!(encode(b"a", options), Err(EncodeError::NoBos));
        let options = EncodeOptions {
            add_eos: true,
            ..BARE
        };
        assert_eq!(encode(b"", options), Err(EncodeError::NoEos));
    });
}

#[test]
fn tokens_of_any_length_are_found() {
    let mut tokens = specials();
    tokens.extend((1..=130).map(|len| (vec![b'a'; len], len as f32, NORMAL)));
    let extra = Extra {
        add_space_prefix: Some(false),
        ..Extra::default()
    };
    in_every_way(&tokens, &extra, &|vocabulary| {
        for len in 1..=130 {
            assert_eq!(encode(vocabulary, &vec![b'a'; len], BARE), [len as u32 + 2]);
        }
        assert_eq!(vocabulary.find(&[b'a'; 131]), None);
    });
}

#[test]
fn without_types_tokens_are_what_they_look_like() {
    let mut tokens = specials();
    tokens.extend(byte_tokens());
    tokens.push((b"<0x41>z".to_vec(), -1.0, NORMAL));
    let extra = Extra {
        without_types: true,
        ..Extra::default()
    };
    load(&tokens, &extra, &|vocabulary| {
        let vocabulary = vocabulary.unwrap();
        let types = [0, 1, 2, 3, 258, 259].map(|id| vocabulary.token_type(id).unwrap());
        use TokenType::{Byte, Control, Normal, Unknown};
        assert_eq!(types, [Unknown, Control, Control, Byte, Byte, Normal]);
        let options = EncodeOptions {
            parse_special: true,
            ..BARE
        };
        assert_eq!(encode(&vocabulary, b"</s><unk>", options), [2, 0]);
        assert_eq!(decode(&vocabulary, &[1, 0x41 + 3, 259, 2]), b"A<0x41>z");
    });
}

#[test]
fn the_prefix_is_taken_away_at_the_start_and_after_bos() {
    let mut tokens = specials();
    tokens.push(("\u{2581}a".into(), -1.0, NORMAL));
    tokens.push((" b".into(), -1.0, USER_DEFINED));
    load(&tokens, &Extra::default(), &|vocabulary| {
        let vocabulary = vocabulary.unwrap();
        assert_eq!(decode(&vocabulary, &[3, 3, 1, 3, 3]), b"a aa a");
        // A user-defined token got no prefix.
        assert_eq!(decode(&vocabulary, &[1, 4, 3]), b" b a");
        assert_eq!(decode(&vocabulary, &[1, 2, 3]), b" a");
    });
    let extra = Extra {
        add_space_prefix: Some(false),
        ..Extra::default()
    };
    load(&tokens, &extra, &|vocabulary| {
        assert_eq!(decode(&vocabulary.unwrap(), &[1, 3, 3]), b" a a");
    });
}
