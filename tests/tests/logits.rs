//! `smidgen logits` from the outside.

mod engine;
mod golden_model;

use engine::{f32s, golden as folder, ids, read_f32, worst};
use golden_model::{golden, model};
use smidgen_tests::Smidgen;

fn list(ids: &[u32]) -> String {
    let ids: Vec<_> = ids.iter().map(u32::to_string).collect();
    ids.join(",")
}

#[test]
fn all_positions_and_the_last_are_those_of_float64() {
    let Some(model) = model("F32") else { return };
    let folder = folder().unwrap().join("stories260K");
    let smidgen = Smidgen::new();
    for prompt in golden("greedy.json").as_array().unwrap() {
        let file = |key: &str| folder.join(prompt[key].as_str().unwrap());
        let prompt_ids = list(&ids(&prompt["prompt_ids"]));
        let args = ["logits", "-m", &model, "--ids", &prompt_ids];
        let all = smidgen.run(args.iter().chain(&["--all"]));
        let all = f32s(all.expect_success().stdout_bytes());
        assert!(worst(&all, &read_f32(&file("logits"))) < 1e-4);
        let last = smidgen.run(args);
        let last = f32s(last.expect_success().stdout_bytes());
        assert_eq!(last, all[all.len() - 512..]);

        // More ids than the file's context length: a warning, and the right numbers.
        let greedy = ids(&prompt["greedy_ids"]);
        assert!(greedy.len() > 128);
        let done = smidgen.run(["logits", "-m", &model, "--ids", &list(&greedy)]);
        done.expect_success().expect_stderr(&["warning", "128"]);
        let found = f32s(done.stdout_bytes());
        assert!(worst(&found, &read_f32(&file("last_logits"))) < 1e-4);
    }
}

#[test]
fn the_same_bits_however_they_are_computed() {
    let Some(model) = model("Q8_0") else { return };
    let smidgen = Smidgen::new();
    let base = [
        "logits",
        "-m",
        &model,
        "--ids",
        "1,403,407,261,378",
        "--all",
    ];
    let run = |args: &[&str]| {
        let done = smidgen.run([&base[..], args].concat());
        done.expect_success().stdout_bytes().to_vec()
    };
    let expected = run(&[]);
    assert_eq!(expected.len(), 5 * 512 * 4);
    for args in [&["-t", "1"][..], &["-t", "3"], &["--backend", "scalar"]] {
        assert!(run(args) == expected, "{args:?}");
    }
    assert!(run(&["--kv", "q8"]) != expected);
}

#[test]
fn a_file_is_written_whole_or_not_at_all() {
    let Some(model) = model("Q8_0") else { return };
    let smidgen = Smidgen::new();
    let base = ["logits", "-m", &model, "-o", "out.f32", "--ids"];
    let run = |args: &[&str]| smidgen.run([&base[..], args].concat());
    for (ids, word) in [("1,512", "512"), ("", "empty"), ("1,x", "x")] {
        run(&[ids]).expect_error(&[word]);
    }
    assert_eq!(smidgen.files(), [""; 0]);
    run(&["1,2"]).expect_success().expect_stdout_is("");
    assert_eq!(std::fs::read(smidgen.path("out.f32")).unwrap().len(), 2048);
    run(&["1,2"]).expect_error(&["out.f32", "--force"]);
    run(&["1,2,3", "--all", "--force"]).expect_success();
    assert_eq!(
        std::fs::read(smidgen.path("out.f32")).unwrap().len(),
        3 * 2048
    );
    assert_eq!(smidgen.files(), ["out.f32"]);
}
