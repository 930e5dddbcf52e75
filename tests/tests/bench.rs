//! `smidgen bench` from the outside.

mod golden_model;

use golden_model::model;
use smidgen_tests::Smidgen;

#[test]
fn rows_are_those_of_llama_bench() {
    let Some(model) = model("Q8_0") else { return };
    let smidgen = Smidgen::new();
    let base = [
        "bench", "-m", &model, "-p", "24", "-n", "16", "-r", "3", "-t", "1",
    ];
    let run = |args: &[&str]| smidgen.run([&base[..], args].concat());

    let report = run(&["--json"]).expect_success().json();
    let tests = report["tests"].as_array().unwrap();
    assert_eq!(tests.len(), 2);
    for (test, name) in tests.iter().zip(["pp24", "tg16"]) {
        assert_eq!(test["test"], name);
        assert_eq!(test["model"], "stories260K-Q8_0");
        // The classifier is stored a second time.
        assert_eq!(test["model_n_params"], 260_032 + 512 * 64);
        assert_eq!(test["n_threads"], 1);
        let samples = test["samples_ns"].as_array().unwrap();
        assert_eq!(samples.len(), 3);
        let tokens = test["n_prompt"].as_f64().unwrap() + test["n_gen"].as_f64().unwrap();
        let speeds = samples.iter().map(|ns| tokens * 1e9 / ns.as_f64().unwrap());
        let mean = speeds.sum::<f64>() / 3.0;
        assert!((test["avg_ts"].as_f64().unwrap() / mean - 1.0).abs() < 1e-9);
    }

    for args in [&[][..], &["--md"]] {
        let done = run(args);
        let lines: Vec<_> = done.expect_success().stdout().lines().collect();
        assert_eq!(lines.len(), 4, "{}", done.stdout());
        assert!(lines.iter().all(|line| line.matches('|').count() == 8));
        assert!(lines[2].contains(" pp24 |") && lines[3].contains(" tg16 |"));
        assert!(lines[2].contains("±"));
    }

    let done = run(&["--csv", "--backend", "scalar", "--kv", "q8"]);
    let lines: Vec<_> = done.expect_success().stdout().lines().collect();
    let columns = |line: &str| line.split(',').count();
    assert_eq!(lines.len(), 3);
    assert!(lines.iter().all(|line| columns(line) == columns(lines[0])));
    assert!(lines[1].contains("\"scalar\"") && lines[1].contains("\"q8\""));
}

#[test]
fn tests_can_be_left_out_and_models_added() {
    let (Some(first), Some(second)) = (model("Q8_0"), model("F16")) else {
        return;
    };
    let smidgen = Smidgen::new();
    let args = [
        "bench", "-m", &first, "-m", &second, "-p", "0", "-n", "2", "-r", "1", "--json",
    ];
    let report = smidgen.run(args).expect_success().json();
    let names: Vec<_> = report["tests"].as_array().unwrap().iter().collect();
    assert_eq!(names.len(), 2);
    assert_eq!(names[1]["model"], "stories260K-F16");
    assert_eq!(names[1]["test"], "tg2");
    smidgen
        .run(["bench", "-m", &first, "-p", "0", "-n", "0"])
        .expect_error(&["nothing"]);
    smidgen
        .run(["bench", "-m", &first, "-r", "0"])
        .expect_error(&["0"]);
    smidgen
        .run(["bench", "-m", "none.gguf"])
        .expect_error(&["none.gguf"]);
    smidgen
        .run(["bench", "-m", &first, "--json", "--csv"])
        .expect_error(&["--csv"]);
}
