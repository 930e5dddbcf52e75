//! The engine area of the cases: from a checkpoint to text, by the command.

use serde_json::Value;
use smidgen_tests::{Done, Smidgen, cases, cases::Case};

/// The case's checkpoint as GGUF, in a folder of its own.
fn converted(case: &Case) -> Smidgen {
    let smidgen = Smidgen::new();
    let path = |at: usize| case.files[at].to_str().unwrap();
    let args = ["convert", path(0), "--vocab", path(1), "-o", "m.gguf"];
    smidgen.run(args).expect_success();
    smidgen
}

/// The bytes of the prompt, by a file.
fn run(case: &Case, smidgen: &Smidgen, args: &[&str]) -> Done {
    let hex = case.args["prompt_hex"].as_str().unwrap().as_bytes();
    let digits = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    let prompt: Vec<u8> = hex.chunks(2).map(digits).collect();
    smidgen.write("prompt", prompt);
    let base = [
        "run", "-m", "m.gguf", "-f", "prompt", "--temp", "0", "--stats",
    ];
    smidgen.run(base.iter().chain(args))
}

fn list(ids: &Value) -> String {
    let ids = ids.as_array().unwrap().iter().map(Value::to_string);
    ids.collect::<Vec<_>>().join(",")
}

fn logits(smidgen: &Smidgen, ids: &str) -> Vec<f32> {
    let done = smidgen.run(["logits", "-m", "m.gguf", "--ids", ids]);
    let bytes = done.expect_success().stdout_bytes().as_chunks::<4>().0;
    bytes.iter().map(|&word| f32::from_le_bytes(word)).collect()
}

/// Ids and logits of llama2.c.
fn check_greedy(case: &Case) {
    let (id, facts) = (&case.id, &case.facts);
    let smidgen = converted(case);
    let logits = logits(&smidgen, "1");
    let argmax = facts["logits_pos0_argmax"].as_u64().unwrap() as usize;
    assert!(logits.iter().all(|logit| *logit <= logits[argmax]), "{id}");
    let tolerance = facts["tolerance"].as_f64().unwrap();
    let first = facts["logits_pos0_first8"].as_array().unwrap();
    assert_eq!(first.len(), 8);
    for (found, expected) in logits.iter().zip(first) {
        let off = f64::from(*found) - expected.as_f64().unwrap();
        assert!(off.abs() < tolerance, "{id}: {off}");
    }

    let (prompt, greedy) = (&facts["prompt_ids"], &facts["greedy_ids"]);
    let len = |list: &Value| list.as_array().unwrap().len();
    let n = (len(greedy) - len(prompt)).to_string();
    let done = run(case, &smidgen, &["-n", &n]);
    let ids = smidgen.run(["tokenize", "-m", "m.gguf", "--json", "prompt"]);
    assert_eq!(&ids.expect_success().json()["ids"], prompt, "{id}");
    let text = smidgen.run(["detokenize", "-m", "m.gguf", "--ids", &list(greedy)]);
    let expected = [text.expect_success().stdout_bytes(), b"\n"].concat();
    assert_eq!(done.expect_success().stdout_bytes(), expected, "{id}");
}

#[test]
fn every_case_gets_its_verdict() {
    for case in cases::of("engine", "run") {
        match case.id.as_str() {
            "run_tied" | "run_mha" | "run_empty_prompt" => check_greedy(&case),
            "run_all_zero" => {
                let smidgen = converted(&case);
                assert!(logits(&smidgen, "1,5").iter().all(|logit| *logit == 0.0));
                // The lowest of equal ids is <unk>, which has no text.
                let done = run(&case, &smidgen, &["-n", "4"]);
                done.expect_success().expect_stdout_is("a\n");
                done.expect_stderr(&["4 tokens"]);
            }
            // Without -n the context is the end: the prompt is in it, and the last position has
            // an answer.
            "run_steps_0" => {
                let done = run(&case, &converted(&case), &["--ignore-eos"]);
                done.expect_success()
                    .expect_stderr(&["the context is full: 8 positions"]);
            }
            "run_prompt_fits" | "run_seq_1" => {
                let positions = case.facts["max_positions"].as_u64().unwrap();
                let done = run(&case, &converted(&case), &["--ignore-eos"]);
                let note = format!("the context is full: {positions} position");
                done.expect_success().expect_stderr(&[&note, "1 token,"]);
            }
            "run_prompt_2000" => {
                let done = run(&case, &converted(&case), &[]);
                done.expect_error(&["the prompt has ", " tokens, the context has room for "]);
            }
            // There is no shift of the context but the ring, which always drops one position: what
            // could go wrong is a window of nothing.
            "run_shift_negative" | "run_shift_keep_all" => {
                let smidgen = converted(&case);
                for window in ["-5", "0"] {
                    run(&case, &smidgen, &["--window", window]).expect_error(&[window]);
                }
                let done = run(
                    &case,
                    &smidgen,
                    &["--window", "1", "-n", "40", "--ignore-eos"],
                );
                done.expect_success().expect_stderr(&["40 tokens"]);
            }
            // Groups that run across rows are converted exactly, so there is nothing to refuse.
            "runq_hidden_mod" => {
                let smidgen = converted(&case);
                assert!(
                    logits(&smidgen, "1,5")
                        .iter()
                        .all(|logit| logit.is_finite())
                );
                run(&case, &smidgen, &["-n", "6"]).expect_success();
            }
            // A character without a token is the unknown one.
            "run_vocab_16" => {
                let smidgen = converted(&case);
                let done = run(&case, &smidgen, &["-n", "4"]);
                done.expect_success();
                let ids = smidgen.run(["tokenize", "-m", "m.gguf", "--json", "--text", "a"]);
                let ids = ids.expect_success().json();
                let ids = ids["ids"].as_array().unwrap();
                assert!(ids.iter().all(|id| id.as_u64().unwrap() < 16), "{ids:?}");
                assert_eq!(ids.last().unwrap(), 0);
            }
            other => panic!("a case that this test does not know: {other}"),
        }
    }
}
