//! `smidgen plan`: its numbers, its verdict, what it advises, and what it refuses.

use std::path::Path;

use serde_json::Value;
use smidgen_core::gguf::GgmlType;
use smidgen_io::{GgufBuilder, Overwrite};
use smidgen_tests::{Smidgen, shared};

/// A folder with stories260K of floats as `f32.gguf` and of bytes as `q8.gguf`.
fn with_models(shared: &Path) -> Smidgen {
    let smidgen = Smidgen::new();
    let [checkpoint, vocab] = ["stories260K.bin", "tok512.bin"].map(|name| {
        let path = shared.join("models").join(name);
        path.into_os_string().into_string().unwrap()
    });
    let convert = ["convert", &checkpoint, "--vocab", &vocab, "-o", "f32.gguf"];
    smidgen.run(convert).expect_success();
    let quantize = ["quantize", "f32.gguf", "q8.gguf", "Q8_0"];
    smidgen.run(quantize).expect_success();
    smidgen
}

/// The plan, whose exit status says whether the model fits.
#[track_caller]
fn plan(smidgen: &Smidgen, words: &[&str]) -> Value {
    let done = smidgen.run(["plan", "--json"].iter().chain(words));
    assert!(done.code() < 2, "{}", done.stderr());
    let plan = done.json();
    assert_eq!(plan["fits"], done.code() == 0);
    plan
}

/// Bytes of a part.
#[track_caller]
fn bytes(plan: &Value, name: &str) -> u64 {
    let regions = plan["regions"].as_array().unwrap().iter();
    let mut parts = regions.flat_map(|region| region["parts"].as_array().unwrap());
    let part = parts.find(|part| part["name"] == name).expect(name);
    part["bytes"].as_u64().unwrap()
}

const CHIP: [&str; 4] = ["--flash", "1M", "--ram", "128K"];

#[test]
fn keys_and_values_take_what_arithmetic_says() {
    let Some(shared) = shared() else { return };
    let smidgen = with_models(&shared);
    // Five layers of four heads of eight elements, keys and values: 320 elements and 40 scales, or
    // ten for whole rows, a position. A word tells whether the buffer was handed out.
    for (kv, window, expected) in [
        ("f32", 512, 655_360),
        ("f16", 512, 327_680),
        ("q8", 256, 256 * (320 + 2 * 40)),
        ("q8row", 512, 512 * (320 + 2 * 10)),
        ("q8row", 128, 128 * (320 + 2 * 10)),
    ] {
        let window = window.to_string();
        let words = [
            "q8.gguf",
            "--board",
            "mps2-an386",
            "--kv",
            kv,
            "-c",
            &window,
        ];
        let plan = plan(&smidgen, &words);
        let word = if kv == "f16" { 2 } else { 4 };
        assert_eq!(bytes(&plan, "kv"), expected + word, "{kv}");
        assert_eq!(plan["kv"], kv);
        assert_eq!(plan["window"].to_string(), window);
    }
}

#[test]
fn floats_of_activations_are_counted() {
    let Some(shared) = shared() else { return };
    let smidgen = with_models(&shared);
    // By hand: the residual stream and the input of products, 64 each; gate and up, 172 each, or 192
    // when padded; a score for each position, in lanes of 8; cosine and sine of 4 angles; 512 logits.
    // Steps are 4 words of 8 bytes.
    let of = |model: &str, kv: &str, window: &str| {
        let words = [model, "--board", "mps3-an547", "--kv", kv, "-c", window];
        bytes(&plan(&smidgen, &words), "activations")
    };
    let one = of("f32.gguf", "f32", "1");
    let many = of("f32.gguf", "f32", "512");
    assert_eq!(one, 4 * (2 * 64 + 2 * 172 + 8 + 8 + 512) + 8 * 4);
    assert_eq!(many - one, 4 * (512 - 8));
    // The padded model has 20 more of each, and 6 blocks of 32 bytes, a scale and a sum.
    assert_eq!(of("q8.gguf", "f32", "1") - one, 4 * 2 * 20 + 6 * 40);
    // On a core with DSP instructions these are halfwords.
    let words = ["q8.gguf", "--board", "mps2-an386", "--kv", "f32", "-c", "1"];
    let wide = bytes(&plan(&smidgen, &words), "activations");
    assert_eq!(wide - of("q8.gguf", "f32", "1"), 6 * 32);
}

#[test]
fn parts_add_up_and_the_schema_is_kept() {
    let Some(shared) = shared() else { return };
    let smidgen = with_models(&shared);
    let boards = smidgen.run(["plan", "--boards", "--json"]);
    let boards = boards.expect_success().json();
    assert_eq!(boards["schema"], 1);
    let boards = boards["boards"].as_array().unwrap();
    let text = smidgen.run(["plan", "--boards"]);
    text.expect_success();
    assert!(boards.len() >= 5);
    for board in boards {
        let name = board["name"].as_str().unwrap();
        text.expect_stdout(&[name]);
        let plan = plan(&smidgen, &["q8.gguf", "--board", name]);
        let keys: Vec<_> = plan.as_object().unwrap().keys().collect();
        let expected = [
            "schema",
            "model",
            "model_bytes",
            "board",
            "fits",
            "kv",
            "window",
            "ring",
            "context",
            "largest_window",
            "regions",
            "advice",
        ];
        assert_eq!(keys, expected);
        assert_eq!((&plan["schema"], &plan["board"]), (&1.into(), &name.into()));
        for key in ["kv", "ring"] {
            assert_eq!(plan[key], board[key], "{name}");
        }
        assert_eq!(bytes(&plan, "code"), board["code_bytes"]);
        // Places for five layers, each of nine matrices and norms with a pointer and lengths.
        let has_64_bits = board["core"].as_str().unwrap().starts_with("Cortex-A");
        let layers = 5 * if has_64_bits { 312 } else { 184 };
        let variables = board["variable_bytes"].as_u64().unwrap();
        assert_eq!(bytes(&plan, "variables"), variables + layers, "{name}");
        assert_eq!(bytes(&plan, "stack"), board["stack_bytes"], "{name}");
        let model = std::fs::metadata(smidgen.path("q8.gguf")).unwrap().len();
        assert_eq!(bytes(&plan, "model"), model);
        let mut fits = true;
        for region in plan["regions"].as_array().unwrap() {
            let parts = region["parts"].as_array().unwrap().iter();
            let sum: u64 = parts.map(|part| part["bytes"].as_u64().unwrap()).sum();
            assert_eq!(region["used"], sum);
            let free = region["bytes"].as_u64().unwrap().checked_sub(sum);
            assert_eq!(region["free"], serde_json::json!(free));
            fits &= free.is_some();
        }
        assert_eq!(plan["fits"], fits);
        // And in words.
        let words = smidgen.run(["plan", "q8.gguf", "--board", name]);
        words.expect_code(if fits { 0 } else { 1 });
        words.expect_stdout(&[
            name,
            "code",
            "keys and values",
            &bytes(&plan, "kv").to_string(),
        ]);
        words.expect_stdout(&[if fits { "It fits." } else { "It does not fit:" }]);
    }
}

#[test]
fn the_largest_window_is_the_largest() {
    let Some(shared) = shared() else { return };
    let smidgen = with_models(&shared);
    for kv in ["f32", "f16", "q8", "q8row"] {
        let with = |window: &str| {
            let words = [&["q8.gguf", "--kv", kv, "-c", window][..], &CHIP].concat();
            plan(&smidgen, &words)
        };
        let most = with("512")["largest_window"].as_u64().unwrap();
        assert!((10..=512).contains(&most), "{kv}: {most}");
        assert_eq!(with(&most.to_string())["fits"], true, "{kv}");
        assert_eq!(with(&(most + 1).to_string())["fits"], false, "{kv}");
    }
}

#[test]
fn what_is_advised_helps() {
    let Some(shared) = shared() else { return };
    let smidgen = with_models(&shared);
    // Too little of RAM, of both, of flash.
    for (chip, kv) in [
        (["--flash", "1M", "--ram", "96K"], "f32"),
        (["--flash", "1M", "--ram", "128K"], "f16"),
        (["--flash", "350K", "--ram", "64K"], "q8"),
        (["--flash", "350K", "--ram", "512K"], "q8"),
    ] {
        let words = [&["q8.gguf", "--kv", kv, "-c", "300"][..], &chip].concat();
        let planned = plan(&smidgen, &words);
        assert_eq!(planned["fits"], false);
        let advice = planned["advice"].as_array().unwrap();
        assert!(!advice.is_empty());
        let mut model = "q8.gguf";
        for advice in advice {
            let change: Vec<_> = advice["change"].as_str().unwrap().split(' ').collect();
            if let ["smidgen", "quantize", input, "OUT", ty] = change[..] {
                let line = ["quantize", input, "small.gguf", ty];
                let line = line.iter().chain(&["--allow-requantize", "--force"]);
                smidgen.run(line).expect_success();
                model = "small.gguf";
            }
        }
        let flags = advice
            .iter()
            .map(|advice| advice["change"].as_str().unwrap());
        let flags: Vec<_> = flags.filter(|change| change.starts_with('-')).collect();
        if chip[3] != "512K" {
            assert!(flags.len() >= 2, "{flags:?}");
        }
        // With the smaller model alone, where RAM was large enough.
        let flags = match flags[..] {
            [] => vec!["-c 300"],
            _ => flags,
        };
        for change in flags {
            let change: Vec<_> = change.split(' ').collect();
            let mut words = vec![model];
            if !change.contains(&"--kv") {
                words.extend(["--kv", kv]);
            }
            if !change.contains(&"-c") && !change.contains(&"--window") {
                words.extend(["-c", "300"]);
            }
            words.extend(change);
            words.extend(chip);
            assert_eq!(plan(&smidgen, &words)["fits"], true, "{words:?}");
        }
    }
    // Nothing helps.
    let words = ["q8.gguf", "--flash", "64K", "--ram", "2K"];
    let planned = plan(&smidgen, &words);
    assert_eq!(planned["largest_window"], Value::Null);
    assert!(!planned["advice"].as_array().unwrap().is_empty());
}

#[test]
fn a_model_quantized_for_a_board_fits_it() {
    let Some(shared) = shared() else { return };
    let smidgen = with_models(&shared);
    let boards = smidgen.run(["plan", "--boards", "--json"]).json();
    let boards = boards["boards"].as_array().unwrap();
    let board = boards
        .iter()
        .min_by_key(|board| board["model"]["bytes"].as_u64());
    let board = board.unwrap();
    let name = board["name"].as_str().unwrap();
    let line = [
        "quantize", "f32.gguf", "out.gguf", "--board", name, "--json",
    ];
    let report = smidgen.run(line);
    let report = report.expect_success().json();
    assert_eq!(report["board"], name);
    assert_eq!(report["fit"].as_array().unwrap().len(), 36);
    let planned = plan(&smidgen, &["out.gguf", "--board", name]);
    assert_eq!(planned["fits"], true, "{planned}");

    let refused = smidgen.run(["quantize", "f32.gguf", "x.gguf", "--board", "nothing"]);
    refused.expect_error(&["no board nothing"]);
    refused.expect_stderr(&["mps2-an386"]);
    for more in [["Q8_0", "--board", name], ["--fit=9999", "--board", name]] {
        let line = ["quantize", "f32.gguf", "x.gguf"];
        let refused = smidgen.run(line.iter().chain(&more));
        refused.expect_error(&["--board", "cannot be used with"]);
    }
    assert!(!smidgen.path("x.gguf").exists());
}

#[test]
fn what_makes_no_sense_is_refused_in_one_line() {
    let smidgen = Smidgen::new();
    smidgen.write("text.gguf", "no model");
    let mut builder = GgufBuilder::new();
    builder.set("general.architecture", "gpt2");
    let added = builder.tensor("t", &[4], GgmlType::F32, vec![0; 16]);
    added.unwrap();
    let path = smidgen.path("gpt2.gguf");
    builder.write_file(path, Overwrite::Refuse).unwrap();
    let chip = &CHIP[..];
    for (words, expected) in [
        (&["text.gguf"][..], "text.gguf"),
        (&["gpt2.gguf"], "gpt2"),
        (&["missing.gguf"], "missing.gguf"),
        (&["text.gguf", "-c", "0"], "-c"),
        (&["text.gguf", "--window", "-1"], "-1"),
        (&["text.gguf", "--kv", "q4"], "q4"),
        (&["text.gguf", "-c", "8", "--window", "8"], "--window"),
        (&["text.gguf", "--board", "mps2-an386"], "--board"),
        (&["text.gguf", "--boards"], "--boards"),
        (&[], "GGUF"),
    ] {
        let words = [&["plan"][..], words, chip].concat();
        smidgen.run(words).expect_error(&[expected]);
    }
    for (words, expected) in [
        (&["text.gguf"][..], "--board"),
        (&["text.gguf", "--board", "b"], "no board b"),
        (&["text.gguf", "--flash", "1M"], "--ram"),
        (&["text.gguf", "--ram", "1M"], "--flash"),
        (&["text.gguf", "--flash", "1T", "--ram", "1M"], "1T"),
        (
            &["text.gguf", "--flash", "0", "--ram", "1M"],
            "expected bytes",
        ),
    ] {
        let words = [&["plan"][..], words].concat();
        smidgen.run(words).expect_error(&[expected]);
    }
}

#[test]
fn shards_are_to_be_merged_first() {
    let Some(shared) = shared() else { return };
    let smidgen = with_models(&shared);
    let split = ["split", "--split-max-tensors", "20", "q8.gguf", "m"];
    smidgen.run(split).expect_success();
    let words = ["plan", "m-00001-of-00003.gguf", "--board", "mps2-an386"];
    let refused = smidgen.run(words);
    refused.expect_error(&["one file, not shards"]);
    refused.expect_stderr(&["smidgen merge"]);
}
