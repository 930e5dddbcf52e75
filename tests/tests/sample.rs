//! `smidgen sample` from the outside.

use serde_json::{Value, json};
use smidgen_tests::{Done, Smidgen, cases, cases::Expectation};

fn sample(input: &Value, args: &[&str]) -> Done {
    let args = ["sample", "-"].iter().chain(args);
    Smidgen::new().run_with_input(args, input.to_string().as_bytes())
}

#[test]
fn every_case_gets_its_verdict() {
    for case in cases::of("sampler", "sample") {
        let done = Smidgen::new().run(["sample", case.file().to_str().unwrap()]);
        let word = match case.reason.as_deref() {
            Some("nan") if case.id == "smp_two_pos_inf" => "inf",
            Some("nan") => "NaN",
            Some("argument") if case.id == "smp_seed_0" => "seed 0",
            Some("argument") => "top-p",
            reason => reason.unwrap_or_default(),
        };
        if case.expectation == Expectation::Reject {
            done.expect_error(&["sample.json", word]);
            continue;
        }
        let mut words = done.expect_success().stdout().split_whitespace();
        if let Some(draws) = case.facts["u32"].as_array() {
            let words: Vec<_> = words.collect();
            assert_eq!(words.len(), 10);
            for (at, draw) in draws.iter().enumerate() {
                assert_eq!(words[2 * at], draw.to_string(), "{}", case.id);
                if let Some(float) = case.facts["f32"].get(at) {
                    assert_eq!(words[2 * at + 1], float.as_str().unwrap());
                }
            }
            continue;
        }
        // Top-p 0 is off, as in run.c, so that coin 0 takes the first token.
        let expected = match case.id.as_str() {
            "smp_p_zero" => "0".to_owned(),
            _ => case.facts["token"].to_string(),
        };
        assert_eq!(words.next(), Some(&*expected), "{}", case.id);
    }
}

#[test]
fn the_command_line_wins_over_the_file() {
    let file = json!({ "logits": [1.0, 3.0, "2.5", "-inf"], "temperature": 1, "coin": 0.0 });
    sample(&file, &[]).expect_success().expect_stdout_is("0\n");
    sample(&file, &["--temp", "0"]).expect_stdout_is("1\n");
    let args = ["--top-k", "1", "--json"];
    assert_eq!(sample(&file, &args).json(), json!({ "id": 1 }));
    sample(&file, &["--min-p", "0.9"]).expect_stdout_is("1\n");
    let file = json!({ "logits": [1, 3, 2], "temperature": 0, "recent": [1], "repeat_penalty": 2 });
    sample(&file, &[]).expect_stdout_is("2\n");
    sample(&file, &["--repeat-penalty", "1"]).expect_stdout_is("1\n");
}

#[test]
fn a_seed_decides_as_its_first_draw_would() {
    // The first draw of seed 1 is 0.28: of two equal tokens the first, of four the second.
    let with = |logits: &[f32]| json!({ "logits": logits, "seed": "1" });
    sample(&with(&[0.0; 2]), &[]).expect_stdout_is("0\n");
    sample(&with(&[0.0; 4]), &[]).expect_stdout_is("1\n");
    // The first draw of seed 2^64 - 1 is 0.97.
    sample(&with(&[0.0; 4]), &["-s", "18446744073709551615"]).expect_stdout_is("3\n");
    let draws = sample(&json!({ "seed": 1 }), &["--json"]).json();
    assert_eq!(draws["u32"][0], 1_206_177_355);
    assert_eq!(draws["f32"].as_array().unwrap().len(), 5);
}

#[test]
fn bit_patterns_count_before_numbers() {
    let bits = ["7fc00000", "3f800000"];
    let file = json!({ "logits": [5, 1], "logits_bits": bits, "temperature": 0 });
    sample(&file, &[]).expect_error(&["token 0 is NaN"]);
}

#[test]
fn files_that_are_not_in_the_form_are_named() {
    for (file, word) in [
        (json!([1, 2]), "object"),
        (json!({}), "neither logits nor a seed"),
        (json!({ "logits": "1" }), "logits must be an array"),
        (json!({ "logits": [1, "x"] }), "logits must be an array"),
        (json!({ "logits": [] , "temperature": 0 }), "no logits"),
        (json!({ "logits_bits": ["3f8"] }), "8 hexadecimal digits"),
        (json!({ "logits": [1, 2] }), "neither coin nor seed"),
        (json!({ "logits": [1, 2], "coin": 1.5 }), "coin"),
        (json!({ "logits": [1, 2], "seed": -1 }), "seed"),
        (json!({ "logits": [1, 2], "seed": 0 }), "seed 0"),
        (
            json!({ "logits": [1, 2], "temperature": "hot", "coin": 0 }),
            "temperature",
        ),
        (json!({ "logits": [1, 2], "top_k": -1, "coin": 0 }), "top_k"),
    ] {
        sample(&file, &[]).expect_error(&["-: ", word]);
    }
    let done = Smidgen::new().run_with_input(["sample", "-"], b"{\"logits\": [1, ");
    done.expect_error(&["-: ", "line 1"]);
}
