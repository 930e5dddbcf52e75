//! `smidgen perplexity` against llama-perplexity.

mod golden_model;

use golden_model::{golden, model};
use serde_json::Value;
use smidgen_tests::{Done, Smidgen, shared};

fn perplexity(model: &str, args: &[&str]) -> Done {
    let text = shared()
        .unwrap()
        .join("golden/stories260K/tinystories-200k.txt");
    let text = text.canonicalize().unwrap();
    let all = ["perplexity", "-m", model, "-f", text.to_str().unwrap()];
    Smidgen::new().run(all.iter().chain(args))
}

fn number(report: &Value, key: &str) -> f64 {
    report[key]
        .as_f64()
        .unwrap_or_else(|| panic!("{key} in {report}"))
}

/// The whole text, against the table of llama.cpp's measures.
#[track_caller]
fn check(ty: &str, kv: &str, allowed: impl FnOnce(f64) -> (f64, f64)) {
    let Some(model) = model(ty) else { return };
    let expected = golden("perplexity.json")["perplexity"][ty]
        .as_f64()
        .unwrap();
    let (least, most) = allowed(expected);
    let report = perplexity(&model, &["--json", "--kv", kv]);
    let report = report.expect_success().json();
    let found = number(&report, "perplexity");
    println!("{ty}, {kv} cache: {found:.4}, llama.cpp {expected}");
    assert!(
        (least..=most).contains(&found),
        "{ty}, {kv}: {found}, expected {expected}"
    );
    assert_eq!(report["n_ctx"], 512);
    // Of each chunk the second half but the last token.
    let chunks = report["chunks"].as_u64().unwrap();
    assert_eq!(report["predictions"], chunks * 255);
    assert_eq!(report["tokens"].as_u64().unwrap() / 512, chunks);
}

fn within(off: f64) -> impl FnOnce(f64) -> (f64, f64) {
    move |expected| (expected - off, expected + off)
}

/// Half a percent.
fn quantized(expected: f64) -> (f64, f64) {
    (expected * 0.995, expected * 1.005)
}

#[test]
fn f32s() {
    check("F32", "f32", within(0.002));
}

#[test]
fn f16s_and_bf16s() {
    check("F16", "f32", within(0.003));
    check("BF16", "f32", within(0.003));
}

#[test]
fn eight_and_five_bits() {
    check("Q8_0", "f32", quantized);
    check("Q5_1", "f32", quantized);
    check("Q5_0", "f32", quantized);
}

#[test]
fn four_bits() {
    check("Q4_1", "f32", quantized);
    check("Q4_0", "f32", quantized);
    check("IQ4_NL", "f32", quantized);
    check("Q4_K_M", "f32", quantized);
}

#[test]
fn an_int8_cache_costs_less_than_half_a_percent() {
    for kv in ["q8", "q8row"] {
        check("F32", kv, |expected| (expected * 0.999, expected * 1.005));
    }
}

#[test]
fn threads_and_back_ends_change_no_digit() {
    let Some(model) = model("Q5_0") else { return };
    let measure = |args: &[&str]| {
        let args = [&["--json", "--chunks", "7", "-c", "64"], args].concat();
        let mut report = perplexity(&model, &args).expect_success().json();
        report["seconds"].take();
        report
    };
    let expected = measure(&["-t", "1"]);
    assert_eq!(expected["chunks"], 7);
    assert!(number(&expected, "error") > 0.0);
    assert_eq!(measure(&["-t", "2"]), expected);
    assert_eq!(measure(&["-t", "5"]), expected);
    assert_eq!(measure(&["--backend", "scalar"]), expected);
}

#[test]
fn words_and_errors() {
    let Some(model) = model("Q8_0") else { return };
    let done = perplexity(&model, &["--chunks", "2", "-c", "128"]);
    done.expect_success()
        .expect_stdout(&["perplexity: ", " +/- ", "(2 chunks of 128 tokens)\n"]);
    done.expect_stderr(&["tokens/s"]);
    let smidgen = Smidgen::new();
    smidgen.write("short.txt", "Once upon a time");
    let base = ["perplexity", "-m", &model, "-f"];
    let run = |args: &[&str]| smidgen.run([&base[..], args].concat());
    run(&["short.txt"]).expect_error(&["short.txt", "5 tokens", "512"]);
    run(&["short.txt", "-c", "3"]).expect_error(&["3"]);
    run(&["none.txt"]).expect_error(&["none.txt"]);
    let done = smidgen.run_with_input([&base[..], &["-", "-c", "5"]].concat(), b"Once upon a time");
    done.expect_success().expect_stdout(&["1 chunk of 5"]);
}
