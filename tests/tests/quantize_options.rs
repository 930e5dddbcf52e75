//! The options of `smidgen quantize` and what it refuses.

use std::path::Path;

use smidgen_core::gguf::{GgmlType, Gguf, Value};
use smidgen_io::{GgufBuilder, Overwrite};
use smidgen_tests::Smidgen;

/// Writes a llama of two layers of random weights with rows of 64 and a hidden size of 40, in this
/// type.
fn write_model(path: &Path) {
    let mut state = 3_u32;
    let mut random = |count: u64| -> Vec<u8> {
        let next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            ((state >> 8) as f32 / (1 << 24) as f32 - 0.5).to_le_bytes()
        };
        std::iter::repeat_with(next)
            .take(count as usize)
            .flatten()
            .collect()
    };
    let mut builder = GgufBuilder::new();
    builder
        .set("general.architecture", "llama")
        .set("llama.feed_forward_length", 40_u32)
        .set("llama.attention.head_count", 4_u32)
        .set("llama.attention.head_count_kv", 4_u32);
    let mut add = |name: &str, dims: &[u64]| {
        let bytes = random(dims.iter().product());
        builder.tensor(name, dims, GgmlType::F32, bytes).unwrap();
    };
    add("token_embd.weight", &[64, 8]);
    add("output_norm.weight", &[64]);
    add("output.weight", &[64, 8]);
    for layer in 0..2 {
        for (name, dims) in [
            ("attn_q", [64, 64]),
            ("attn_v", [64, 64]),
            ("ffn_gate", [64, 40]),
            ("ffn_up", [64, 40]),
            ("ffn_down", [40, 64]),
        ] {
            add(&format!("blk.{layer}.{name}.weight"), &dims);
        }
    }
    builder.write_file(path, Overwrite::Refuse).unwrap();
}

fn model() -> Smidgen {
    let smidgen = Smidgen::new();
    write_model(&smidgen.path("in.gguf"));
    smidgen
}

/// The types of tensors after `smidgen quantize in.gguf out.gguf more…`.
fn types(smidgen: &Smidgen, more: &[&str]) -> impl Fn(&str) -> GgmlType + use<> {
    let line = ["quantize", "in.gguf", "out.gguf", "--force"];
    smidgen.run(line.iter().chain(more)).expect_success();
    let bytes = std::fs::read(smidgen.path("out.gguf")).unwrap();
    move |name| {
        let gguf = Gguf::parse_small(&bytes).unwrap();
        gguf.tensor(name).unwrap().ty()
    }
}

#[test]
fn types_can_be_given_by_name() {
    let smidgen = model();
    let ty = types(&smidgen, &["Q4_0"]);
    assert_eq!(
        ty("output.weight"),
        GgmlType::Q8_0,
        "Q6_K falls back for rows of 64"
    );
    assert_eq!(ty("token_embd.weight"), GgmlType::Q4_0);
    assert_eq!(ty("blk.1.ffn_down.weight"), GgmlType::Q4_0, "padded");
    assert_eq!(ty("output_norm.weight"), GgmlType::F32);

    let ty = types(&smidgen, &["Q4_0", "--no-pad"]);
    assert_eq!(ty("blk.1.ffn_down.weight"), GgmlType::F16);

    let more = [
        "Q4_0",
        "--leave-output-tensor",
        "--token-embedding-type",
        "bf16",
    ];
    let ty = types(&smidgen, &more);
    assert_eq!(ty("output.weight"), GgmlType::F32);
    assert_eq!(ty("token_embd.weight"), GgmlType::BF16);

    let by_name = [
        "--tensor-type",
        r"blk\.0\..*=q8_0",
        "--tensor-type",
        "attn_v=F16",
    ];
    let more = [&["Q5_1", "--output-tensor-type", "Q4_1"][..], &by_name].concat();
    let ty = types(&smidgen, &more);
    assert_eq!(ty("output.weight"), GgmlType::Q4_1);
    assert_eq!(
        ty("blk.0.attn_v.weight"),
        GgmlType::Q8_0,
        "the first that matches"
    );
    assert_eq!(ty("blk.1.attn_v.weight"), GgmlType::F16);
    assert_eq!(ty("blk.1.attn_q.weight"), GgmlType::Q5_1);
}

#[test]
fn a_dry_run_says_what_is_then_done() {
    let smidgen = model();
    let line = ["quantize", "in.gguf", "out.gguf", "Q4_K_M", "--json"];
    let dry = smidgen.run(line.iter().chain(&["--dry-run"]));
    let dry = dry.expect_success().json();
    assert_eq!(smidgen.files(), ["in.gguf"]);
    let done = smidgen.run(line).expect_success().json();
    assert_eq!(dry["tensors"], done["tensors"]);
    assert_eq!(dry["bytes"], done["bytes"]);
    let bytes = std::fs::metadata(smidgen.path("out.gguf")).unwrap().len();
    assert_eq!(done["bytes"], bytes);
    assert_eq!(done["padded"], serde_json::json!({"from": 40, "to": 64}));
    // No row is a multiple of 256, so that every matrix is a fallback but the output matrix, for
    // which the rules have Q8_0 then.
    assert_eq!(done["fallbacks"], 11);
    let elements = 2 * 8 * 64 + 64 + 2 * (2 * 64 * 64 + 3 * 64 * 64);
    assert_eq!(done["elements"], elements);
}

#[test]
fn metadata_can_be_set() {
    let smidgen = model();
    let overrides = [
        "--override-kv",
        "general.name=str:tiny",
        "--override-kv",
        "a.b=int:7",
    ];
    let _types = types(&smidgen, &[&["Q8_0"][..], &overrides].concat());
    let bytes = std::fs::read(smidgen.path("out.gguf")).unwrap();
    let gguf = Gguf::parse_small(&bytes).unwrap();
    assert_eq!(gguf.get_str("general.name").unwrap(), Some("tiny"));
    assert_eq!(gguf.get("a.b"), Some(Value::U32(7)));
    assert_eq!(gguf.get("general.file_type"), Some(Value::U32(7)));
    assert_eq!(gguf.get("llama.feed_forward_length"), Some(Value::U32(64)));
}

#[test]
fn quantizing_twice_must_be_asked_for() {
    let smidgen = model();
    smidgen
        .run(["quantize", "in.gguf", "q8.gguf", "Q8_0"])
        .expect_success();
    let line = ["quantize", "q8.gguf", "q4.gguf", "Q4_0"];
    let refused = smidgen.run(line);
    refused.expect_error(&["q8.gguf", "is quantized already (Q8_0)"]);
    refused.expect_stderr(&["--allow-requantize"]);
    assert!(!smidgen.path("q4.gguf").exists());
    smidgen
        .run(line.iter().chain(&["--allow-requantize"]))
        .expect_success();
    // What has its type is copied as it is.
    smidgen
        .run(["quantize", "q8.gguf", "again.gguf", "Q8_0"])
        .expect_success();
    let read = |name| std::fs::read(smidgen.path(name)).unwrap();
    assert!(read("again.gguf") == read("q8.gguf"));
}

#[test]
fn what_cannot_be_is_refused_in_one_line() {
    let smidgen = model();
    let refused = smidgen.run(["quantize", "in.gguf", "out.gguf", "Q9_9"]);
    refused.expect_error(&["Q9_9", "there are F32, F16, BF16, Q8_0"]);
    let refused = smidgen.run(["quantize", "in.gguf", "no/out.gguf", "Q8_0"]);
    refused.expect_error(&["no/out.gguf"]);
    let refused = smidgen.run(["quantize", "in.gguf", "in.gguf", "Q8_0", "--force"]);
    refused.expect_error(&["the same file"]);
    let refused = smidgen.run([
        "quantize", "in.gguf", "out.gguf", "Q4_0", "--no-pad", "--strict",
    ]);
    refused.expect_error(&["rows of 64 are no whole blocks of Q6_K; it would become Q8_0"]);
    let refused = smidgen.run(["quantize", "in.gguf", "out.gguf", "Q4_0", "--calibrate"]);
    refused.expect_error(&["in.gguf"]);
    smidgen.write("there.gguf", "x");
    let refused = smidgen.run(["quantize", "in.gguf", "there.gguf", "Q8_0"]);
    refused.expect_error(&["there.gguf exists"]);
    assert_eq!(smidgen.files(), ["in.gguf", "there.gguf"]);
}

#[test]
fn an_output_that_is_the_embedding_is_left_out() {
    let smidgen = Smidgen::new();
    let mut builder = GgufBuilder::new();
    builder.set("general.architecture", "llama");
    let numbers: Vec<u8> = (0..256).flat_map(|i| (i as f32).to_le_bytes()).collect();
    for name in ["token_embd.weight", "output.weight"] {
        let numbers = numbers.clone();
        builder
            .tensor(name, &[128, 2], GgmlType::F32, numbers)
            .unwrap();
    }
    builder
        .write_file(smidgen.path("in.gguf"), Overwrite::Refuse)
        .unwrap();
    let ty = types(&smidgen, &["Q4_0", "--keep-tied-output"]);
    assert_eq!(ty("token_embd.weight"), GgmlType::Q4_0);
    assert_eq!(ty("output.weight"), GgmlType::Q8_0);
    let ty = types(&smidgen, &["Q4_0"]);
    assert_eq!(ty("token_embd.weight"), GgmlType::Q8_0, "it is the output");
    let file = std::fs::read(smidgen.path("out.gguf")).unwrap();
    assert_eq!(Gguf::parse_small(&file).unwrap().tensor_count(), 1);
}

#[test]
fn a_split_model_becomes_one_file_or_stays_split() {
    let smidgen = model();
    let split = ["split", "--split-max-tensors", "5", "in.gguf", "in"];
    smidgen.run(split).expect_success();
    smidgen
        .run(["quantize", "in.gguf", "whole.gguf", "Q8_0"])
        .expect_success();
    let read = |name: &str| std::fs::read(smidgen.path(name)).unwrap();

    let first = "in-00001-of-00003.gguf";
    smidgen
        .run(["quantize", first, "joined.gguf", "Q8_0"])
        .expect_success();
    assert!(read("joined.gguf") == read("whole.gguf"));

    let line = ["quantize", first, "kept.gguf", "Q8_0", "--keep-split"];
    smidgen.run(line).expect_success();
    assert!(!smidgen.path("kept.gguf").exists());
    smidgen
        .run(["merge", "kept-00001-of-00003.gguf", "merged.gguf"])
        .expect_success();
    assert!(read("merged.gguf") == read("whole.gguf"));
    // None of the shards is replaced if one of them is there.
    std::fs::remove_file(smidgen.path("kept-00001-of-00003.gguf")).unwrap();
    smidgen
        .run(line)
        .expect_error(&["kept-00002-of-00003.gguf exists"]);
    assert!(!smidgen.path("kept-00001-of-00003.gguf").exists());
}
