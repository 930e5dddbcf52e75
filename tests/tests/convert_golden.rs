//! `smidgen convert` against what llama.cpp makes of the same files, and against the logits of
//! checkpoints in every version.

mod engine;

use std::path::{Path, PathBuf};
use std::process::Command;

use engine::{Run, read_f32};
use serde_json::Value as Json;
use smidgen_core::gguf::{GgmlType, Gguf, Value, keys};
use smidgen_core::kv_cache::KvType;
use smidgen_core::tokenizer::{IndexKind, Vocabulary};
use smidgen_io::{FileBytes, GgufBuilder};
use smidgen_tests::{Smidgen, reference::Reference, shared};

/// stories260K and its vocabulary.
fn stories(shared: &Path) -> [PathBuf; 2] {
    ["models/stories260K.bin", "models/tok512.bin"].map(|name| shared.join(name))
}

/// `smidgen convert CHECKPOINT --vocab VOCAB -o out.gguf more…`, and the file that it makes.
fn convert(smidgen: &Smidgen, checkpoint: &Path, vocab: &Path, more: &[&str]) -> FileBytes {
    let output = smidgen.path("out.gguf");
    let mut args = vec![
        Path::new("convert"),
        checkpoint,
        Path::new("--vocab"),
        vocab,
    ];
    args.extend([Path::new("-o"), &output, Path::new("--force")]);
    args.extend(more.iter().map(Path::new));
    smidgen.run(args).expect_success();
    FileBytes::open(output).unwrap()
}

/// Name, type, shape and bytes of every tensor.
type Tensor<'a> = (&'a str, GgmlType, Vec<u64>, &'a [u8]);

fn tensors<'a>(gguf: &Gguf<'a>) -> Vec<Tensor<'a>> {
    let tensor = |info: smidgen_core::gguf::TensorInfo<'a>| {
        let bytes = gguf.data(&info).unwrap();
        (info.name(), info.ty(), info.dims().to_vec(), bytes)
    };
    gguf.tensors().map(tensor).collect()
}

#[test]
fn stories260k_is_what_llama_cpp_makes_of_it() {
    let Some(shared) = shared() else { return };
    let [checkpoint, vocab] = stories(&shared);
    let smidgen = Smidgen::new();
    let file = convert(&smidgen, &checkpoint, &vocab, &[]);
    let (ours, golden) = (file.gguf().unwrap(), engine::stories("F32").unwrap());
    let theirs = golden.gguf().unwrap();

    let mut expected = tensors(&theirs);
    expected.retain(|(name, ..)| *name != "output.weight");
    assert!(tensors(&ours) == expected);
    for key in [
        keys::TOKENIZER_GGML_TOKENS,
        keys::TOKENIZER_GGML_SCORES,
        keys::TOKENIZER_GGML_TOKEN_TYPE,
    ] {
        assert_eq!(ours.get(key), theirs.get(key), "{key}");
    }

    let entries: Vec<_> = ours.metadata().map(|entry| entry.key()).collect();
    let expected = [
        (keys::GENERAL_ARCHITECTURE, Value::String(b"llama")),
        (keys::GENERAL_NAME, Value::String(b"stories260K")),
        (keys::GENERAL_FILE_TYPE, Value::U32(0)),
        (keys::GENERAL_QUANTIZATION_VERSION, Value::U32(2)),
        (keys::LLAMA_CONTEXT_LENGTH, Value::U32(512)),
        (keys::LLAMA_EMBEDDING_LENGTH, Value::U32(64)),
        (keys::LLAMA_BLOCK_COUNT, Value::U32(5)),
        (keys::LLAMA_FEED_FORWARD_LENGTH, Value::U32(172)),
        (keys::LLAMA_ATTENTION_HEAD_COUNT, Value::U32(8)),
        (keys::LLAMA_ATTENTION_HEAD_COUNT_KV, Value::U32(4)),
        (keys::LLAMA_ROPE_DIMENSION_COUNT, Value::U32(8)),
        (keys::LLAMA_ROPE_FREQ_BASE, Value::F32(10_000.0)),
        (
            keys::LLAMA_ATTENTION_LAYER_NORM_RMS_EPSILON,
            Value::F32(1e-5),
        ),
        (keys::LLAMA_VOCAB_SIZE, Value::U32(512)),
        (keys::TOKENIZER_GGML_MODEL, Value::String(b"llama")),
        (keys::TOKENIZER_GGML_BOS_TOKEN_ID, Value::U32(1)),
        (keys::TOKENIZER_GGML_EOS_TOKEN_ID, Value::U32(2)),
        (keys::TOKENIZER_GGML_UNKNOWN_TOKEN_ID, Value::U32(0)),
        (keys::TOKENIZER_GGML_ADD_BOS_TOKEN, Value::Bool(true)),
    ];
    for (key, value) in expected {
        assert_eq!(ours.get(key), Some(value), "{key}");
    }
    // These, three arrays of the tokenizer, two of the index, and nothing else.
    assert_eq!(entries.len(), expected.len() + 5, "{entries:?}");
    // Where the old converter says something else than this, it is wrong.
    for entry in theirs.metadata() {
        let known = [
            keys::GENERAL_NAME,
            keys::LLAMA_CONTEXT_LENGTH,
            keys::TOKENIZER_GGML_PADDING_TOKEN_ID,
            keys::TOKENIZER_GGML_SEPARATOR_TOKEN_ID,
        ];
        if !known.contains(&entry.key()) {
            assert_eq!(ours.get(entry.key()), Some(entry.value), "{}", entry.key());
        }
    }
}

#[test]
fn the_old_tool_s_options_give_its_tensors_in_its_order() {
    let Some(shared) = shared() else { return };
    let [checkpoint, vocab] = stories(&shared);
    let smidgen = Smidgen::new();
    let options = ["--keep-tied-output", "--context", "128"];
    let file = convert(&smidgen, &checkpoint, &vocab, &options);
    let (ours, golden) = (file.gguf().unwrap(), engine::stories("F32").unwrap());
    let theirs = golden.gguf().unwrap();
    assert!(tensors(&ours) == tensors(&theirs));
    let context = ours.get_u32(keys::LLAMA_CONTEXT_LENGTH);
    assert_eq!(context.unwrap(), Some(128));
}

#[test]
fn halves_are_those_of_llama_cpp() {
    let Some(shared) = shared() else { return };
    let [checkpoint, vocab] = stories(&shared);
    let smidgen = Smidgen::new();
    for (ty, golden_ty, file_type) in [("f16", "F16", 1), ("BF16", "BF16", 32)] {
        let options = ["--type", ty, "--keep-tied-output"];
        let file = convert(&smidgen, &checkpoint, &vocab, &options);
        let (ours, golden) = (file.gguf().unwrap(), engine::stories(golden_ty).unwrap());
        // llama.cpp's quantizer sorts by name.
        let (mut ours_sorted, theirs) = (tensors(&ours), golden.gguf().unwrap());
        let mut theirs_sorted = tensors(&theirs);
        ours_sorted.sort_by_key(|tensor| tensor.0);
        theirs_sorted.sort_by_key(|tensor| tensor.0);
        assert!(ours_sorted == theirs_sorted, "{ty}");
        assert_eq!(
            ours.get_u32(keys::GENERAL_FILE_TYPE).unwrap(),
            Some(file_type)
        );
    }
}

#[test]
fn the_old_spelling_makes_the_same_file() {
    let Some(shared) = shared() else { return };
    let [checkpoint, vocab] = stories(&shared);
    let smidgen = Smidgen::new();
    let new = convert(&smidgen, &checkpoint, &vocab, &[]).to_vec();
    let words = |vocab_flag, model_flag, output: &[&str]| {
        let mut args = vec!["convert", vocab_flag, vocab.to_str().unwrap()];
        args.extend([model_flag, checkpoint.to_str().unwrap()]);
        args.extend(output);
        smidgen.run(args).expect_success();
    };
    words(
        "--copy-vocab-from-model",
        "--llama2c-model",
        &["--llama2c-output-model", "dashes.gguf"],
    );
    words(
        "--copy_vocab-from_model",
        "--llama2c_model",
        &["--llama2c_output_model=under_scores.gguf"],
    );
    words("--copy-vocab-from-model", "--llama2c-model", &[]);
    for name in ["dashes.gguf", "under_scores.gguf", "ak_llama_model.gguf"] {
        assert!(std::fs::read(smidgen.path(name)).unwrap() == new, "{name}");
    }
}

#[test]
fn the_index_is_taken_by_the_tokenizer() {
    let Some(shared) = shared() else { return };
    let [checkpoint, vocab] = stories(&shared);
    let smidgen = Smidgen::new();
    let file = convert(&smidgen, &checkpoint, &vocab, &[]);
    let gguf = file.gguf().unwrap();
    let vocabulary = Vocabulary::load(&gguf, &mut []).unwrap();
    assert_eq!(vocabulary.index(), IndexKind::Stored);
    for id in 0..512 {
        let piece = vocabulary.piece(id).unwrap();
        assert_eq!(vocabulary.find(piece), Some(id));
    }
    assert_eq!(vocabulary.find(b"no such token"), None);
}

/// A `tokenizer.bin` of `len` tokens: the special ones, the bytes, and then any.
fn tokenizer_bin(len: usize) -> Vec<u8> {
    let special = ["<unk>", "\n<s>\n", "\n</s>\n"].map(String::from);
    let bytes = (0..=255_u8).map(|byte| format!("<0x{byte:02X}>"));
    let texts = special.into_iter().chain(bytes);
    let texts = texts.chain((0..).map(|n| format!(" w{n}"))).take(len);
    let mut file = 16_u32.to_le_bytes().to_vec();
    for text in texts {
        file.extend(0_f32.to_le_bytes());
        file.extend(u32::try_from(text.len()).unwrap().to_le_bytes());
        file.extend(text.as_bytes());
    }
    file
}

#[test]
fn checkpoints_of_every_version_keep_their_logits() {
    if shared().is_none() {
        return;
    }
    let folder = engine::golden().unwrap().join("checkpoints");
    let index = std::fs::read(folder.join("index.json")).unwrap();
    let index: Json = serde_json::from_slice(&index).unwrap();
    let smidgen = Smidgen::new();
    let mut versions = Vec::new();
    for entry in index.as_array().unwrap() {
        let text = |key: &str| entry[key].as_str().unwrap();
        let int = |key: &str| usize::try_from(entry[key].as_u64().unwrap()).unwrap();
        let vocab = smidgen.write("tokenizer.bin", tokenizer_bin(int("vocab_size")));
        let checkpoint = folder.join(text("file"));
        let file = convert(&smidgen, &checkpoint, &vocab, &[]);
        let gguf = file.gguf().unwrap();

        let tied = gguf.tensor("output.weight").is_none();
        assert_eq!(Some(tied), entry["shared_classifier"].as_bool());
        let head = int("dim") / int("n_heads");
        for (key, expected) in [
            (keys::LLAMA_EMBEDDING_LENGTH, int("dim")),
            (keys::LLAMA_FEED_FORWARD_LENGTH, int("hidden_dim")),
            (keys::LLAMA_BLOCK_COUNT, int("n_layers")),
            (keys::LLAMA_ATTENTION_HEAD_COUNT, int("n_heads")),
            (keys::LLAMA_ATTENTION_HEAD_COUNT_KV, int("n_kv_heads")),
            (keys::LLAMA_VOCAB_SIZE, int("vocab_size")),
            (keys::LLAMA_CONTEXT_LENGTH, int("seq_len")),
            (keys::LLAMA_ROPE_DIMENSION_COUNT, head),
        ] {
            let found = gguf.get_u32(key).unwrap().unwrap();
            assert_eq!(found as usize, expected, "{key}");
        }

        let ids = entry["ids"].as_array().unwrap().iter();
        let ids: Vec<_> = ids.map(|id| id.as_u64().unwrap() as u32).collect();
        let logits = Reference::load(&gguf).logits(&ids);
        let golden = read_f32(&folder.join(text("logits")));
        assert_eq!(golden.len(), ids.len() * int("vocab_size"));
        // The golden logits of int8 weights come from products that were not rounded to f32.
        let bound = if int("version") == 2 { 1e-5 } else { 1e-6 };
        for (at, (ours, theirs)) in logits.iter().flatten().zip(&golden).enumerate() {
            let theirs = f64::from(*theirs);
            let difference = (ours - theirs).abs();
            assert!(
                difference <= bound * theirs.abs().max(1.0),
                "{}: logit {at} is {ours}, not {theirs}",
                text("file")
            );
        }
        let run = Run::new(&file, KvType::F32, int("seq_len"), 4);
        let positions = run.with_session(|mut session| {
            let mut positions = golden.chunks(int("vocab_size"));
            session
                .prompt_each(&ids, |_, found| {
                    for (ours, theirs) in found.iter().zip(positions.next().unwrap()) {
                        let difference = (ours - theirs).abs();
                        assert!(difference <= 1e-4, "{}: {difference}", text("file"));
                    }
                })
                .unwrap();
            positions.len()
        });
        assert_eq!(positions, 0, "positions without logits");
        versions.push(int("version"));
    }
    versions.sort_unstable();
    versions.dedup();
    assert_eq!(versions, [0, 1, 2]);
}

#[test]
fn a_vocabulary_of_32000_is_the_same_from_both_sources() {
    let Some(shared) = shared() else { return };
    let read = |name: &str| {
        let bytes = FileBytes::open(shared.join("models").join(name)).unwrap();
        let vocabulary = smidgen_llama2c::Vocabulary::read(&bytes, 32_000).unwrap();
        assert_eq!(vocabulary.warnings(), []);
        let mut builder = GgufBuilder::new();
        vocabulary.write_to(&mut builder);
        builder
    };
    let from_bin = read("llama32000-tokenizer.bin");
    let from_gguf = read("llama32000-vocab.gguf");
    // Texts, scores and types agree without exception, and so does what follows from them.
    for (key, value) in from_bin.metadata() {
        assert_eq!(Some(value), from_gguf.get(key), "{key}");
    }
    // The GGUF says two things more of its tokenizer; both are what llama.cpp takes anyway.
    let known = |key: &str| from_bin.get(key).is_some();
    let more: Vec<_> = from_gguf
        .metadata()
        .filter(|(key, _)| !known(key))
        .collect();
    let more: Vec<_> = more
        .iter()
        .map(|(key, value)| (*key, value.as_value()))
        .collect();
    let expected = [
        ("tokenizer.ggml.pre", Value::String(b"default")),
        (keys::TOKENIZER_GGML_ADD_EOS_TOKEN, Value::Bool(false)),
    ];
    assert_eq!(more, expected);
    // Texts of 32000 tokens are beyond 64 KiB, their ids are not.
    let width = |key| match from_bin.get(key).unwrap().as_value() {
        Value::Array(array) => array.element_type().name(),
        _ => "no array",
    };
    assert_eq!(width(keys::SMIDGEN_TOKENIZER_OFFSETS), "u32");
    assert_eq!(width(keys::SMIDGEN_TOKENIZER_SORTED), "u16");
}

#[test]
fn a_gguf_can_give_the_vocabulary() {
    let Some(shared) = shared() else { return };
    let [checkpoint, vocab] = stories(&shared);
    let smidgen = Smidgen::new();
    let from_bin = convert(&smidgen, &checkpoint, &vocab, &[]).to_vec();
    // The old converter's file says 4294967295 for tokens that there are not.
    let vocab = shared.join("golden/stories260K/gguf/stories260K-Q4_0.gguf");
    let from_gguf = convert(&smidgen, &checkpoint, &vocab, &[]);
    let gguf = from_gguf.gguf().unwrap();
    for key in [
        keys::TOKENIZER_GGML_PADDING_TOKEN_ID,
        keys::TOKENIZER_GGML_SEPARATOR_TOKEN_ID,
    ] {
        assert_eq!(gguf.get(key), None);
    }
    let from_bin = Gguf::parse_small(&from_bin).unwrap();
    assert_eq!(gguf.metadata_count(), from_bin.metadata_count());
    for entry in from_bin.metadata() {
        assert_eq!(gguf.get(entry.key()), Some(entry.value), "{}", entry.key());
    }
}

#[test]
fn the_wrong_vocabulary_is_named() {
    let Some(shared) = shared() else { return };
    let [checkpoint, _] = stories(&shared);
    let smidgen = Smidgen::new();
    for name in ["llama32000-tokenizer.bin", "llama32000-vocab.gguf"] {
        let vocab = shared.join("models").join(name);
        let args = ["convert", checkpoint.to_str().unwrap(), "--vocab"];
        let args = [&args[..], &[vocab.to_str().unwrap(), "-o", "out.gguf"]].concat();
        let done = smidgen.run(args);
        done.expect_error(&[name, "32000 tokens", "512", "tok512.bin"]);
    }
    assert!(smidgen.files().is_empty());
}

/// Skips, and says so, where Python or its package is not installed.
#[test]
fn the_python_package_opens_the_file() {
    let Some(shared) = shared() else { return };
    let import = Command::new("python3").args(["-c", "import gguf"]).output();
    if !import.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: python3 has no package gguf");
        return;
    }
    let [checkpoint, vocab] = stories(&shared);
    let smidgen = Smidgen::new();
    let file = convert(&smidgen, &checkpoint, &vocab, &[]);
    let script = "\
import gguf, sys
reader = gguf.GGUFReader(sys.argv[1])
assert len(reader.tensors) == 47
assert reader.fields['llama.context_length'].contents() == 512
tokens = reader.fields['tokenizer.ggml.tokens'].contents()
assert len(tokens) == 512 and tokens[2] == '</s>'
assert len(reader.fields['smidgen.tokenizer.offsets'].contents()) == 513
assert reader.tensors[0].name == 'token_embd.weight'
";
    let mut python = Command::new("python3");
    python.args(["-c", script]).arg(file.path());
    let output = python.output().unwrap();
    assert!(output.status.success(), "{output:?}");
}
