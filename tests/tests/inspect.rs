//! `smidgen inspect`: what it shows is what is in the file.

use std::{ffi::OsStr, fs};

use serde_json::Value;
use sha2::{Digest, Sha256};
use smidgen_tests::{
    Smidgen,
    cases::{self, Expectation},
    shared,
};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whether a value of the JSON is that of the manifest, which writes floats with their bits.
fn same(ty: &str, found: &Value, expected: &Value) -> bool {
    let number = || match found {
        Value::String(text) => text.parse::<f64>().ok(),
        other => other.as_f64(),
    };
    match expected {
        Value::Object(map) if map.contains_key("bits") => {
            let bits = expected["bits"].as_str().unwrap();
            let found_bits = match (ty, found) {
                (_, Value::Object(map)) => map["bits"].as_str().unwrap().to_owned(),
                ("f32", _) => format!("{:08x}", (number().unwrap() as f32).to_bits()),
                _ => format!("{:016x}", number().unwrap().to_bits()),
            };
            found_bits == bits
        }
        Value::Object(map) if map.contains_key("hex") => {
            let found = match found {
                Value::Object(map) => map["hex"].as_str().unwrap().to_owned(),
                other => hex(other.as_str().unwrap().as_bytes()),
            };
            found == expected["hex"].as_str().unwrap()
        }
        Value::Number(n) if n.as_f64().is_some_and(|n| n.abs() > 2_f64.powi(53)) => {
            found.as_str() == Some(&n.to_string())
        }
        other => found == other,
    }
}

fn check_entry(id: &str, found: &Value, expected: &Value) {
    let ty = expected[0].as_str().unwrap();
    assert_eq!(found["type"], ty, "{id} {found}");
    let value = &expected[1];
    if ty != "arr" {
        assert!(same(ty, &found["value"], value), "{id} {found} {value}");
        return;
    }
    assert_eq!(found["element"], value["elem"], "{id}");
    assert_eq!(found["count"], value["len"], "{id}");
    let element = value["elem"].as_str().unwrap();
    let all = found["value"].as_array().unwrap();
    assert_eq!(Value::from(all.len()), value["len"], "{id}");
    for (found, expected) in all.iter().zip(value["head"].as_array().unwrap()) {
        assert!(same(element, found, expected), "{id} {found} {expected}");
    }
}

#[test]
fn every_fact_of_the_accepted_cases() {
    let smidgen = Smidgen::new();
    let mut checked = 0;
    let cases = cases::all().into_iter().filter(|case| {
        let container = matches!(case.area.as_str(), "parser" | "embedded");
        let op = matches!(
            case.op.as_str(),
            "inspect" | "roundtrip" | "inspect_prefixes"
        );
        container && op && case.expectation == Expectation::Accept
    });
    for case in cases {
        let id = &case.id;
        let done = smidgen.run([
            OsStr::new("inspect"),
            "--json".as_ref(),
            case.file().as_ref(),
        ]);
        done.expect_success();
        assert_eq!(done.stderr(), "", "{id}");
        let json = done.json();
        let bytes = case.bytes();
        let tensors = json["tensors"].as_array().unwrap();
        for (fact, expected) in case.facts.as_object().unwrap() {
            checked += 1;
            match fact.as_str() {
                "alignment" | "version" => assert_eq!(&json[fact], expected, "{id}"),
                "data_offset" => assert_eq!(&json["offsets"]["data"], expected, "{id}"),
                "size" => assert_eq!(&json["bytes"], expected, "{id}"),
                "n_kv" => assert_eq!(&json["totals"]["metadata"], expected, "{id}"),
                "n_tensors" => assert_eq!(&json["totals"]["tensors"], expected, "{id}"),
                "n_dims_in_file" => {
                    let dims = tensors[0]["dims"].as_array().unwrap();
                    assert_eq!(&Value::from(dims.len()), expected, "{id}");
                }
                "n_elements" => {
                    let found = tensors.iter().map(|tensor| tensor["elements"].clone());
                    assert_eq!(&found.collect::<Value>(), expected, "{id}");
                }
                "kv" => {
                    let entries = json["metadata"].as_array().unwrap();
                    for (key, expected) in expected.as_object().unwrap() {
                        let found = entries.iter().find(|entry| entry["key"] == *key);
                        check_entry(id, found.unwrap_or_else(|| panic!("{id} {key}")), expected);
                    }
                }
                "tensors" => {
                    for (found, expected) in tensors.iter().zip(expected.as_array().unwrap()) {
                        for (fact, expected) in expected.as_object().unwrap() {
                            let word = if fact == "nbytes" { "bytes" } else { fact };
                            if fact == "sha256_16" {
                                let at = |key: &str| found[key].as_u64().unwrap() as usize;
                                let start = at("file_offset");
                                let data = &bytes[start..start + at("bytes")];
                                let digest = hex(&Sha256::digest(data));
                                assert_eq!(expected, &digest[..16], "{id}");
                            } else {
                                assert_eq!(&found[word], expected, "{id} {fact}");
                            }
                        }
                    }
                }
                // Of the numbers in the tensors, which inspect does not show, and of prefixes.
                "second_f32_bits" | "min_good" => checked -= 1,
                other => panic!("{id}: fact {other} is not checked"),
            }
        }
        let parts = json["layout"].as_array().unwrap();
        let sum: u64 = parts
            .iter()
            .map(|part| part["bytes"].as_u64().unwrap())
            .sum();
        assert_eq!(sum, bytes.len() as u64, "{id}: every byte is in one part");
    }
    assert!(checked > 150, "{checked}");
}

#[test]
fn faults_are_warnings_as_long_as_something_can_be_shown() {
    let smidgen = Smidgen::new();
    let run = |id: &str| smidgen.run(["inspect".as_ref(), cases::named(id).file().as_os_str()]);
    run("ti_type_999")
        .expect_success()
        .expect_stdout(&["Unknown(999)", "general.name"])
        .expect_stderr(&["smidgen: warning: ", "tensor type 999 is unknown"]);
    run("data_cut_half")
        .expect_success()
        .expect_stdout(&["model, 2 tensors"])
        .expect_stderr(&["truncated"]);
    // The walk ends in the third entry; the first two are shown.
    run("kv_str_one_past_eof")
        .expect_success()
        .expect_stdout(&[
            "unreadable from byte 105 on",
            "general.name",
            "2 metadata entries",
        ])
        .expect_stderr(&["at byte 120: string length 4, but 3 bytes are left"]);
    for id in [
        "hdr_empty_file",
        "hdr_gzip",
        "hdr_version_0",
        "hdr_ntensors_max",
    ] {
        run(id).expect_error(&["at byte "]);
    }
    run("hdr_magic_ggml").expect_error(&["bad magic", "hint: "]);
}

#[test]
fn every_case_is_shown_or_refused() {
    let smidgen = Smidgen::new();
    let (mut shown, mut refused) = (0, 0);
    for case in cases::all() {
        if !matches!(
            case.area.as_str(),
            "parser" | "embedded" | "split" | "tokenizer"
        ) {
            continue;
        }
        for json in [false, true] {
            let mut args = vec![OsStr::new("inspect"), case.file().as_ref()];
            args.extend(json.then_some(OsStr::new("--json")));
            let done = smidgen.run(args);
            match done.code() {
                0 if json => assert_eq!(done.json()["schema"], 1, "{}", case.id),
                0 => shown += 1,
                _ => {
                    done.expect_error(&["at byte "]);
                    refused += 1;
                }
            }
        }
    }
    assert!(shown > 100 && refused > 10, "{shown} {refused}");
}

#[test]
fn long_values_are_cut_unless_all_is_asked_for() {
    let smidgen = Smidgen::new();
    let vocabulary = cases::named("emb_vocab");
    let file = vocabulary.file().as_os_str();
    let cut = smidgen.run(["inspect".as_ref(), "--no-tensors".as_ref(), file]);
    let full = smidgen.run([OsStr::new("inspect"), "--full".as_ref(), file]);
    let widest = |text: &str| text.lines().map(|line| line.chars().count()).max().unwrap();
    assert!(widest(cut.stdout()) <= 100, "{}", cut.stdout());
    assert!(cut.stdout().contains(", …\n"));
    assert!(widest(full.stdout()) > 1000);
    assert!(!full.stdout().contains('…'));
    assert!(full.stdout().contains("\nTensors"));
    assert!(!cut.stdout().contains("\nTensors"));
}

#[test]
fn nothing_in_a_file_moves_the_terminal() {
    use smidgen_core::gguf::GgmlType;
    use smidgen_io::{GgufBuilder, OwnedValue};
    let mut builder = GgufBuilder::new();
    builder.set("\u{1b}]0;key\u{7}", "\u{1b}[2J\r\nvalue\u{202e}");
    builder.set("list", OwnedValue::strings(["\u{9b}31m"]));
    builder
        .tensor("\u{1b}[8mname", &[1], GgmlType::I8, vec![1])
        .unwrap();
    let mut bytes = Vec::new();
    builder.write_to(&mut bytes).unwrap();
    let smidgen = Smidgen::new();
    smidgen.write("m\u{1b}[31m.gguf", bytes);
    for command in ["inspect", "verify"] {
        let done = smidgen.run([command, "m\u{1b}[31m.gguf"]);
        done.expect_success();
        for text in [done.stdout(), done.stderr()] {
            let bad = text
                .chars()
                .find(|&c| c.is_control() && c != '\n' || c == '\u{202e}');
            assert_eq!(bad, None, "{text:?}");
        }
        assert!(done.stdout().contains("\\u{1b}"), "{}", done.stdout());
    }
}

#[test]
fn the_first_shard_shows_the_set() {
    let smidgen = Smidgen::new();
    let whole = cases::named("shard_ok_3");
    let done = smidgen.run([
        "inspect".as_ref(),
        whole.file().as_os_str(),
        "--json".as_ref(),
    ]);
    let json = done.expect_success().json();
    let names = json["tensors"].as_array().unwrap().iter();
    let names: Value = names.map(|tensor| tensor["name"].clone()).collect();
    assert_eq!(names, whole.facts["tensor_order"]);
    assert_eq!(json["totals"]["tensors"], 8);
    let numbers = json["tensors"].as_array().unwrap().iter();
    let numbers: Value = numbers.map(|tensor| tensor["shard"].clone()).collect();
    assert_eq!(numbers, serde_json::json!([1, 1, 1, 2, 2, 2, 3, 3]));

    let done = smidgen.run(["inspect".as_ref(), whole.files[1].as_os_str()]);
    done.expect_success()
        .expect_stdout(&["shard 2 of 3, 3 tensors of 8"]);
    assert!(!done.stdout().contains("\nShards"));

    let cut = cases::named("shard_missing_last");
    let done = smidgen.run(["inspect".as_ref(), cut.file().as_os_str()]);
    done.expect_success();
    let line = done
        .stdout()
        .lines()
        .find(|line| line.contains("m-00003-of-00003.gguf"));
    assert!(line.unwrap().ends_with("missing"), "{line:?}");
    done.expect_stdout(&["1 of 3 missing"]);

    // A name can promise many; they are neither read nor listed.
    let many = cases::named("shard_count_65535");
    let done = smidgen.run(["inspect".as_ref(), many.file().as_os_str()]);
    done.expect_success()
        .expect_stdout(&["65534 of 65535 missing"]);
    assert!(done.stdout().lines().count() < 100);
}

#[test]
fn the_name_is_taken_apart() {
    let smidgen = Smidgen::new();
    let bytes = cases::named("ti_ok_q4_0").bytes();
    let conforming = "Tiny-Llama-15M-chat-v1.0-Q4_0.gguf";
    for name in [conforming, "stories260K.gguf"] {
        smidgen.write(name, &bytes);
    }
    let json = smidgen.run(["inspect", "--json", conforming]).json();
    let name = &json["file_name"];
    for (part, expected) in [
        ("base_name", "Tiny-Llama"),
        ("size_label", "15M"),
        ("fine_tune", "chat"),
        ("version", "v1.0"),
        ("encoding", "Q4_0"),
    ] {
        assert_eq!(name[part], expected);
    }
    assert_eq!(name["conforms"], true);
    let done = smidgen.run(["inspect", "stories260K.gguf"]);
    done.expect_stdout(&["not by the convention: no size label"]);
    let done = smidgen.run_with_input(["inspect", "-", "--json"], &bytes);
    assert_eq!(done.json()["file_name"], Value::Null);
    assert_eq!(done.json()["bytes"], bytes.len());
}

#[test]
fn totals_of_a_real_model() {
    let Some(shared) = shared() else { return };
    let smidgen = Smidgen::new();
    let path = shared.join("golden/stories260K/gguf/stories260K-Q4_0.gguf");
    let done = smidgen.run(["inspect".as_ref(), "--json".as_ref(), path.as_os_str()]);
    let json = done.expect_success().json();
    assert_eq!(json["bytes"], 277_024);
    assert_eq!(json["bytes"], fs::metadata(&path).unwrap().len());
    // 260,032 parameters and the classifier, which is stored a second time.
    assert_eq!(json["totals"]["parameters"], 260_032 + 32_768);
    let types = json["totals"]["types"].as_array().unwrap();
    let q4_0 = types.iter().find(|ty| ty["type"] == "Q4_0").unwrap();
    assert_eq!(q4_0["elements"], 204_288);
    assert_eq!(q4_0["bytes"], 204_288 / 32 * 18);
    let bits = json["totals"]["bits_per_weight"].as_f64().unwrap();
    assert!((bits - 262_624.0 * 8.0 / 292_800.0).abs() < 1e-12);
    let tokens = json["metadata"].as_array().unwrap().iter();
    let tokens = tokens
        .clone()
        .find(|entry| entry["key"] == "tokenizer.ggml.tokens");
    assert_eq!(tokens.unwrap()["value"].as_array().unwrap().len(), 512);
}
