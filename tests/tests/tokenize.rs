//! `smidgen tokenize` and `smidgen detokenize` from the outside.

mod golden_model;

use golden_model::{golden, model};
use serde_json::{Value, json};
use smidgen_tests::{Smidgen, cases, shared};

/// The bytes of base64 with padding.
fn base64(text: &str) -> Vec<u8> {
    let (mut bytes, mut bits, mut count) = (Vec::new(), 0_u32, 0);
    let digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for c in text.chars().filter(|c| *c != '=') {
        bits = bits << 6 | u32::try_from(digits.find(c).unwrap()).unwrap();
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    bytes
}

fn list(ids: &Value) -> String {
    let ids = ids.as_array().unwrap().iter().map(Value::to_string);
    format!("--ids={}", ids.collect::<Vec<_>>().join(","))
}

#[test]
fn ids_are_those_of_llama_cpp_and_lead_back() {
    let Some(of_512) = model("F32") else { return };
    let of_32000 = shared().unwrap().join("models/llama32000-vocab.gguf");
    let of_32000 = of_32000.canonicalize().unwrap();
    let of_32000 = of_32000.to_str().unwrap();
    let smidgen = Smidgen::new();
    let texts = golden("tokenize.json");
    let texts = texts.as_array().unwrap();
    assert!(texts.len() > 10);
    for entry in texts {
        let text = base64(entry["bytes_b64"].as_str().unwrap());
        for (model, key) in [
            (&*of_512, "stories260K_llama_cpp"),
            (of_32000, "llama32000_llama_cpp"),
        ] {
            let args = ["tokenize", "-m", model, "--json", "-"];
            let done = smidgen.run_with_input(args, &text);
            let found = done.expect_success().json();
            assert_eq!(found["ids"], entry[key], "{}", entry["text"]);
            let ids = found["ids"].as_array().unwrap().len();
            assert_eq!(found["pieces"].as_array().unwrap().len(), ids);
            assert_eq!(found.as_object().unwrap().len(), 2);

            let back = smidgen.run(["detokenize", "-m", model, &list(&found["ids"])]);
            let back = back.expect_success().stdout_bytes();
            match std::str::from_utf8(&text) {
                Ok(text) => assert_eq!(back, text.replace('\u{2581}', " ").as_bytes()),
                Err(_) => assert_eq!(back.len(), text.len()),
            }
        }
    }
}

#[test]
fn pieces_stand_beside_ids() {
    let Some(model) = model("Q4_0") else { return };
    let smidgen = Smidgen::new();
    let base = ["tokenize", "-m", &model];
    let run = |args: &[&str]| smidgen.run([&base[..], args].concat());
    run(&["--text", "Once upon\n"])
        .expect_success()
        .expect_stdout_is("  1  <s>\n403  \u{2581}Once\n407  \u{2581}upon\n 13  <0x0A>\n");
    let done = run(&["--text", "Once", "--no-bos", "--json"]);
    assert_eq!(
        done.json(),
        json!({ "ids": [403], "pieces": ["\u{2581}Once"] })
    );
    // The text of special tokens is text, unless told otherwise.
    let plain = run(&["--text", "</s>", "--json"]).json();
    assert!(plain["ids"].as_array().unwrap().len() > 2, "{plain}");
    let special = run(&["--text", "</s>", "--special", "--json"]).json();
    assert_eq!(special, json!({ "ids": [1, 2], "pieces": ["<s>", "</s>"] }));
    run(&["--text", "", "--no-bos", "--json"]).expect_stdout(&["\"ids\": []"]);

    smidgen.write("text", "Once upon\n");
    run(&["text"])
        .expect_success()
        .expect_stdout(&["upon", "<0x0A>"]);
    run(&[]).expect_error(&["FILE"]);
    run(&["text", "--text", "a"]).expect_error(&["--text"]);
    run(&["none"]).expect_error(&["none"]);
}

#[test]
fn bytes_come_back_as_they_were() {
    let case = cases::named("emb_vocab");
    let smidgen = Smidgen::new();
    let file = case.file().to_str().unwrap();
    let run = |ids: &str| smidgen.run(["detokenize", "-m", file, ids]);
    // Byte tokens: 3 is <0x00>. A file without weights will do.
    for (ids, bytes) in [
        ("--ids=1,3,258,13", &b"\0\xff\n"[..]),
        ("--ids=", b""),
        ("--ids=2", b""),
        ("--ids=227,175,131", b"\xe0\xac\x80"),
    ] {
        assert_eq!(run(ids).expect_success().stdout_bytes(), bytes, "{ids}");
    }
    run("--ids=1,293").expect_error(&["293"]);
    run("--ids=1,,2").expect_error(&["--ids"]);
    run("--ids=-1").expect_error(&["-1"]);
    run("--ids=x").expect_error(&["\"x\""]);
}
