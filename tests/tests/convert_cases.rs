//! The cases in which a checkpoint or a vocabulary is converted: verdicts, causes and facts.

use serde_json::Value as Json;
use sha2::{Digest, Sha256};
use smidgen_core::gguf::{Gguf, Value, keys};
use smidgen_core::tokenizer::{IndexKind, TokenType, Vocabulary};
use smidgen_tests::cases::{self, Case, Expectation};
use smidgen_tests::{Done, Smidgen};

fn convert(smidgen: &Smidgen, case: &Case) -> Done {
    let file = |name: &str| {
        let name = case.args[name].as_str().unwrap();
        let folder = case.file().parent().unwrap();
        folder.join(name).into_os_string()
    };
    let vocab = file("tokenizer");
    smidgen.run([
        "convert".as_ref(),
        file("checkpoint").as_os_str(),
        "--vocab".as_ref(),
        vocab.as_os_str(),
        "-o".as_ref(),
        case.args["output"].as_str().unwrap().as_ref(),
    ])
}

/// Words of which the message holds one for each kind of cause.
fn words(reason: &str) -> &'static [&'static str] {
    match reason {
        "bad_magic" => &["magic", "zip archive"],
        "bad_version" => &["version 3"],
        "config" => &["makes no model", "big-endian"],
        "format" => &["without scores", "SentencePiece model"],
        "group_size" => &["group size"],
        "nan" => &["NaN"],
        "string_length" => &["the length of token 260 is 2147483647"],
        "trailing_bytes" => &["trailing bytes"],
        "truncated" => &["cut short"],
        "vocab_mismatch" => &["294 tokens, the model has 293"],
        other => panic!("reason {other}"),
    }
}

/// What each hyperparameter that is wrong is called.
const CONFIG_WORDS: [(&str, &str); 13] = [
    (
        "l2c_cfg_kv_gt_heads",
        "n_kv_heads 8 is greater than n_heads 4",
    ),
    (
        "l2c_cfg_dim_not_div",
        "dim 18 is not divisible by n_heads 4",
    ),
    ("l2c_cfg_heads_0", "n_heads is 0"),
    ("l2c_cfg_heads_neg", "n_heads is -4"),
    ("l2c_cfg_dim_0", "dim is 0"),
    ("l2c_cfg_hidden_neg", "hidden_dim is -24"),
    ("l2c_cfg_seq_0", "seq_len is 0"),
    ("l2c_cfg_seq_neg", "seq_len is -5"),
    ("l2c_cfg_prod_wrap32", "vocab_size * dim is 4294967296"),
    ("l2c_cfg_prod_huge", "head size dim / n_heads is 15447"),
    ("l2c_cfg_head_odd", "head size dim / n_heads is 3"),
    ("l2c_big_endian", "big-endian"),
    ("l2c_v1_neg_vocab", "vocab_size is -293"),
];

fn check(case: &Case) {
    let smidgen = Smidgen::new();
    let done = convert(&smidgen, case);
    if case.expectation == Expectation::Reject {
        let reason = case.reason.as_deref().unwrap();
        done.expect_error(&[]);
        let words = words(reason);
        let named = words.iter().any(|word| done.stderr().contains(word));
        assert!(named, "{}: {reason} in {}", case.id, done.stderr());
        if let Some((_, words)) = CONFIG_WORDS.iter().find(|(id, _)| *id == case.id) {
            done.expect_stderr(&[words]);
        }
        assert!(smidgen.files().is_empty(), "{}", case.id);
        return;
    }
    done.expect_success();
    let bytes = std::fs::read(smidgen.path("m.gguf")).unwrap();
    let gguf = Gguf::parse_small(&bytes).unwrap();
    let vocabulary = Vocabulary::load(&gguf, &mut []).unwrap();
    assert_eq!(vocabulary.index(), IndexKind::Stored, "{}", case.id);
    match &case.facts {
        Json::Object(facts) => {
            for (name, fact) in facts {
                check_fact(case, &gguf, &vocabulary, name, fact);
            }
        }
        Json::Null => {}
        other => panic!("{}: {other}", case.id),
    }
}

fn check_fact(case: &Case, gguf: &Gguf<'_>, vocabulary: &Vocabulary<'_>, name: &str, fact: &Json) {
    let id = &case.id;
    let is_token = |token: u32, text: &[u8]| {
        assert_eq!(vocabulary.piece(token), Some(text), "{id}");
    };
    let is_type = |token: u32, expected: &str| {
        let ty = match vocabulary.token_type(token).unwrap() {
            TokenType::Normal => "NORMAL",
            TokenType::Unknown => "UNKNOWN",
            TokenType::Control => "CONTROL",
            TokenType::Byte => "BYTE",
            other => panic!("{id}: {other:?}"),
        };
        assert!(
            expected.split(" or ").any(|t| t == ty),
            "{id}: {token} {ty}"
        );
    };
    match name {
        "gguf_kv" => {
            for (key, value) in fact.as_object().unwrap() {
                let found = gguf.get_u64(key).unwrap();
                assert_eq!(found, value.as_u64(), "{id}: {key}");
            }
        }
        "config" => {
            for (field, value) in fact.as_object().unwrap() {
                let key = match field.as_str() {
                    "dim" => keys::LLAMA_EMBEDDING_LENGTH,
                    "hidden_dim" => keys::LLAMA_FEED_FORWARD_LENGTH,
                    "n_layers" => keys::LLAMA_BLOCK_COUNT,
                    "n_heads" => keys::LLAMA_ATTENTION_HEAD_COUNT,
                    "n_kv_heads" => keys::LLAMA_ATTENTION_HEAD_COUNT_KV,
                    "vocab_size" => keys::LLAMA_VOCAB_SIZE,
                    "seq_len" => keys::LLAMA_CONTEXT_LENGTH,
                    other => panic!("{id}: {other}"),
                };
                assert_eq!(gguf.get_u64(key).unwrap(), value.as_u64(), "{id}: {key}");
            }
        }
        "tensors" => {
            let facts = fact.as_array().unwrap();
            let found: Vec<_> = gguf.tensors().collect();
            assert_eq!(found.len(), facts.len(), "{id}");
            for fact in facts {
                let name = fact["name"].as_str().unwrap();
                let tensor = gguf.tensor(name).unwrap_or_else(|| panic!("{id}: {name}"));
                let dims = fact["dims"].as_array().unwrap();
                let dims: Vec<_> = dims.iter().map(|dim| dim.as_u64().unwrap()).collect();
                assert_eq!(tensor.dims(), dims, "{id}: {name}");
                let digest = Sha256::digest(gguf.data(&tensor).unwrap());
                let digest: String = digest[..8].iter().map(|b| format!("{b:02x}")).collect();
                assert_eq!(Some(&*digest), fact["sha256_16"].as_str(), "{id}: {name}");
            }
        }
        "output_weight" => {
            let present = gguf.tensor("output.weight").is_some();
            assert_eq!(present, fact == "present", "{id}");
        }
        "shared_classifier" => {
            let tied = gguf.tensor("output.weight").is_none();
            assert_eq!(Some(tied), fact.as_bool(), "{id}");
        }
        "dequantized" => {
            let f32s = gguf
                .tensors()
                .filter(|info| info.ty() == smidgen_core::gguf::GgmlType::F32)
                .count();
            assert_eq!(f32s, gguf.tensor_count(), "{id}");
        }
        "all_finite" => assert!(floats(gguf).iter().all(|v| v.is_finite()), "{id}"),
        "first_8_weights" => {
            let expected = fact.as_array().unwrap().iter().map(|v| v.as_f64().unwrap());
            let expected: Vec<_> = expected.collect();
            let found: Vec<_> = floats(gguf)[..8].iter().map(|&v| f64::from(v)).collect();
            assert_eq!(found, expected, "{id}");
        }
        "n_tokens" => assert_eq!(Some(u64::from(vocabulary.len())), fact.as_u64(), "{id}"),
        "unk" | "bos" | "eos" => {
            let token = match name {
                "unk" => vocabulary.unknown(),
                "bos" => vocabulary.bos(),
                _ => vocabulary.eos(),
            };
            is_token(token.unwrap(), fact[0].as_str().unwrap().as_bytes());
            is_type(token.unwrap(), fact[1].as_str().unwrap());
        }
        "types" => {
            for (token, ty) in fact.as_object().unwrap() {
                is_type(token.parse().unwrap(), ty.as_str().unwrap());
            }
        }
        "type" => is_type(260, fact.as_str().unwrap()),
        "token_260_hex" => {
            let hex = vocabulary.piece(260).unwrap().iter();
            let hex: String = hex.map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(Some(&*hex), fact.as_str(), "{id}");
        }
        "true_max" => {
            // The length is that of the texts before a space became three bytes.
            let len = |token| {
                let text = String::from_utf8_lossy(vocabulary.piece(token).unwrap());
                text.replace('\u{2581}', " ").len() as u64
            };
            let longest = (3..vocabulary.len()).map(len).max();
            assert_eq!(longest, fact.as_u64(), "{id}");
        }
        "lookup" => {
            let text = vocabulary.piece(260).unwrap();
            assert_eq!(vocabulary.piece(259), Some(text), "{id}");
            assert_eq!(vocabulary.find(text), Some(259), "{id}");
        }
        "note" => {
            // It is about run.c; what we keep is the score as it is.
            let scores = (0..vocabulary.len()).map(|token| vocabulary.score(token));
            let infinite = scores.filter(|&s| s == Some(f32::NEG_INFINITY));
            assert!(infinite.count() > 0, "{id}");
        }
        name => {
            let token = name.strip_prefix("token_").and_then(|n| n.parse().ok());
            let token = token.unwrap_or_else(|| panic!("{id}: fact {name}"));
            is_token(token, fact.as_str().unwrap().as_bytes());
        }
    }
}

fn floats(gguf: &Gguf<'_>) -> Vec<f32> {
    let tensors = gguf.tensors().map(|info| gguf.data(&info).unwrap());
    tensors
        .flat_map(|bytes| bytes.as_chunks().0.iter().map(|&v| f32::from_le_bytes(v)))
        .collect()
}

#[test]
fn checkpoints() {
    let cases = cases::of("convert", "convert");
    assert_eq!(cases.len(), 39);
    let config = |case: &&Case| case.reason.as_deref() == Some("config");
    assert_eq!(cases.iter().filter(config).count(), CONFIG_WORDS.len());
    for case in &cases {
        check(case);
    }
}

#[test]
fn vocabularies() {
    let cases = cases::of("tokenizer", "convert");
    assert_eq!(cases.len(), 15);
    for case in &cases {
        check(case);
    }
}

#[test]
fn tokens_that_are_no_strings_are_no_vocabulary() {
    let case = cases::named("kv_tokens_as_u8_array");
    assert_eq!(case.reason.as_deref(), Some("kv_type"));
    let bytes = case.bytes();
    let error = smidgen_llama2c::Vocabulary::read(&bytes, 1).unwrap_err();
    let message = error.to_string();
    assert!(
        message.contains("tokenizer.ggml.tokens") && message.contains("array of strings"),
        "{message}"
    );
}

#[test]
fn texts_that_are_not_utf8_are_kept_and_named() {
    let smidgen = Smidgen::new();
    let done = convert(&smidgen, &cases::named("tok_bad_utf8"));
    done.expect_success();
    done.expect_stderr(&["1 token is not UTF-8"]);
    let bytes = std::fs::read(smidgen.path("m.gguf")).unwrap();
    let gguf = Gguf::parse_small(&bytes).unwrap();
    let Some(Value::Array(tokens)) = gguf.get(keys::TOKENIZER_GGML_TOKENS) else {
        panic!("no tokens");
    };
    assert_eq!(tokens.strings().nth(260), Some(&b"\xc3\x28"[..]));
}
