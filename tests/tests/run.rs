//! `smidgen run` from the outside.

mod golden_model;

use std::io::Read;
use std::path::Path;
use std::process::Stdio;

use golden_model::{golden, model};
use smidgen_io::{FileBytes, GgufBuilder, Overwrite};
use smidgen_tests::{Done, Smidgen, cases, shared};

fn run(model: &str, args: &[&str]) -> Done {
    let all = ["run", "-m", model];
    Smidgen::new().run(all.iter().chain(args))
}

fn both<'a>(some: &[&'a str], others: &[&'a str]) -> Vec<&'a str> {
    [some, others].concat()
}

/// The value of a line `name: value` on stderr.
fn told<'d>(done: &'d Done, name: &str) -> &'d str {
    let mut lines = done.stderr().lines();
    lines
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
        .unwrap_or_else(|| panic!("no {name} in {}", done.stderr()))
}

#[test]
fn seeds_tell_the_stories_of_llama2c() {
    let Some(model) = model("F32") else { return };
    let stories = golden("sampled_llama2c.json");
    let stories = stories.as_array().unwrap();
    assert_eq!(stories.len(), 5);
    for story in stories {
        let text = |key: &str| story[key].to_string();
        let prompt = story["prompt"].as_str().unwrap_or_default();
        // llama2.c counts the tokens of the prompt but BOS.
        let ids = Smidgen::new().run([
            "tokenize", "-m", &model, "--no-bos", "--json", "--text", prompt,
        ]);
        let ids = ids.expect_success().json()["ids"].as_array().unwrap().len();
        let n = story["n"].as_u64().unwrap() - ids as u64;
        let (temp, top_p, seed, n) = (
            text("temperature"),
            text("top_p"),
            text("seed"),
            n.to_string(),
        );
        let args = [
            "--temp",
            &temp,
            "--top-p",
            &top_p,
            "-s",
            &seed,
            "-n",
            &n,
            "-p",
            prompt,
            "--top-k",
            "0",
            "--min-p",
            "0",
            "--repeat-penalty",
            "1",
            "-c",
            "512",
        ];
        let done = run(&model, &args);
        done.expect_success()
            .expect_stdout_is(story["text"].as_str().unwrap());
    }
}

#[test]
fn greedy_stories_go_on_as_those_of_float64() {
    let Some(model) = model("F32") else { return };
    for story in golden("greedy.json").as_array().unwrap() {
        let prompt = story["prompt"].as_str().unwrap();
        let text = story["greedy_text"].as_str().unwrap();
        let len = |key: &str| story[key].as_array().unwrap().len();
        let n = (len("greedy_ids") - len("prompt_ids")).to_string();
        let args = ["--temp", "0", "-c", "512", "-n", &n, "-p", prompt];
        run(&model, &args)
            .expect_success()
            .expect_stdout_is(&format!("{text}\n"));
        let rest = text.strip_prefix(prompt).unwrap();
        let args = [&args[..], &["--no-display-prompt"]].concat();
        run(&model, &args)
            .expect_success()
            .expect_stdout_is(&format!("{rest}\n"));
    }
}

#[test]
fn a_prompt_comes_from_anywhere_as_it_is() {
    let Some(model) = model("Q8_0") else { return };
    let prompt = "One day,\n\\n \"Lily\" saw\t\u{1f600} -x";
    let smidgen = Smidgen::new();
    smidgen.write("prompt.txt", prompt);
    let base = ["run", "-m", &model, "--temp", "0", "-n", "12"];
    let expected = smidgen.run(both(&base, &["-p", prompt]));
    assert!(expected.expect_success().stdout().starts_with(prompt));
    let prompt = prompt.as_bytes();
    for done in [
        smidgen.run(both(&base, &["-f", "prompt.txt"])),
        smidgen.run_with_input(both(&base, &["-f", "-"]), prompt),
        smidgen.run_with_input(both(&base, &["-"]), prompt),
    ] {
        done.expect_success().expect_stdout_is(expected.stdout());
    }
    // Nothing at all is a prompt, too.
    let nothing = smidgen.run(both(&base, &[]));
    nothing
        .expect_success()
        .expect_stdout(&["Once upon a time"]);
    for args in [
        &["-p", "a", "-f", "prompt.txt"][..],
        &["-p", "a", "-"],
        &["other"],
    ] {
        smidgen.run(both(&base, args)).expect_error(&[]);
    }
    smidgen
        .run(both(&base, &["-f", "none"]))
        .expect_error(&["none"]);
}

#[test]
fn the_same_seed_tells_the_same_story() {
    let Some(model) = model("Q4_0") else { return };
    let first = run(&model, &["-n", "40"]);
    let seed = told(first.expect_success(), "seed");
    let again = run(&model, &["-n", "40", "-s", seed]);
    again.expect_success().expect_stdout_is(first.stdout());
    assert!(!again.stderr().contains("seed"));
    let other = run(&model, &["-n", "40"]);
    assert_ne!(told(other.expect_success(), "seed"), seed);
    run(&model, &["-s", "0"]).expect_error(&["seed 0"]);
}

#[test]
fn threads_back_ends_and_windows_change_no_bit() {
    let Some(model) = model("Q5_0") else { return };
    let hash = |args: &[&str]| {
        let base = ["--temp", "0", "-n", "64", "--logits-hash", "-p", "Once"];
        let done = run(&model, &[&base[..], args].concat());
        let text = done.expect_success().stdout().to_owned();
        (told(&done, "logits hash").to_owned(), text)
    };
    let expected = hash(&[]);
    assert!(expected.0.ends_with(" (64 positions)"), "{}", expected.0);
    for args in [
        &["-t", "1"][..],
        &["-t", "2"],
        &["-t", "3"],
        &["--backend", "scalar"],
        &["-c", "300"],
        &["--window", "100"],
    ] {
        assert_eq!(hash(args), expected, "{args:?}");
    }
    for kv in ["f16", "q8", "q8row"] {
        let (other, text) = hash(&["--kv", kv]);
        assert_ne!(other, expected.0);
        assert!(text.starts_with("Once upon a time"), "{kv}: {text}");
    }
    run(&model, &["--backend", "mmx"]).expect_error(&["mmx", "scalar"]);
    run(&model, &["-t", "0"]).expect_error(&["0"]);
    run(&model, &["-t", "100000"]).expect_error(&["100000"]);
    run(&model, &["--kv", "q3"]).expect_error(&["q3"]);
}

#[test]
fn a_full_context_ends_the_story_with_a_note() {
    let Some(model) = model("Q8_0") else { return };
    // The file says 128 positions; the last has an answer as well.
    let done = run(&model, &["--temp", "0", "--ignore-eos", "--stats"]);
    done.expect_success()
        .expect_stderr(&["the context is full: 128 positions", "128 tokens"]);
    let done = run(
        &model,
        &["--temp", "0", "--ignore-eos", "-c", "20", "-n", "30"],
    );
    done.expect_success()
        .expect_stderr(&["the context is full: 20 positions", "new: 20 tokens"]);
    let done = run(
        &model,
        &["--temp", "0", "--ignore-eos", "-c", "20", "-n", "20"],
    );
    assert!(done.expect_success().stderr().contains("new: 20 tokens"));

    // A larger context works, with a warning; a ring goes on.
    let long = ["--temp", "0", "--ignore-eos", "-n", "200"];
    let large = run(&model, &[&long[..], &["-c", "256"]].concat());
    large
        .expect_success()
        .expect_stderr(&["warning", "256", "128", "new: 200 tokens"]);
    let ring = run(&model, &[&long[..], &["--window", "128"]].concat());
    ring.expect_success().expect_stderr(&["new: 200 tokens"]);
    assert!(!ring.stderr().contains("full"));
    let same = large.stdout().bytes().zip(ring.stdout().bytes());
    assert!(same.take_while(|(a, b)| a == b).count() > 300);
    let bounded = run(
        &model,
        &[&long[..], &["--window", "64", "-c", "100"]].concat(),
    );
    bounded
        .expect_success()
        .expect_stderr(&["the context is full: 100 positions"]);
}

#[test]
fn a_prompt_longer_than_the_context_is_an_error_with_both_numbers() {
    let Some(model) = model("Q8_0") else { return };
    let words = "one day ".repeat(30);
    let ids = Smidgen::new().run(["tokenize", "-m", &model, "--json", "--text", &words]);
    let count = ids.json()["ids"].as_array().unwrap().len();
    assert!(count > 40);
    let numbers = [&*format!("{count} tokens"), " 40"];
    run(&model, &["-c", "40", "-p", &words]).expect_error(&numbers);
    run(&model, &["-c", "40", "--window", "20", "-p", &words]).expect_error(&numbers);
    // One that fills it to the last has an answer.
    let exact = count.to_string();
    let done = run(
        &model,
        &["-c", &exact, "-p", &words, "--temp", "0", "--ignore-eos"],
    );
    done.expect_success().expect_stderr(&["new: 1 token,"]);
    // A ring takes what it is given.
    let done = run(&model, &["--window", "20", "-p", &words, "-n", "5"]);
    assert!(done.expect_success().stdout().starts_with(&words));
}

#[test]
fn stop_texts_end_the_story() {
    let Some(model) = model("F32") else { return };
    let args = ["--temp", "0", "-p", "Once upon a time", "--stats"];
    let whole = run(&model, &args);
    let done = run(
        &model,
        &[&args[..], &["--stop", "never", "--stop", "go to"]].concat(),
    );
    let done = done.expect_success();
    let text = whole.stdout().split("go to").next().unwrap();
    done.expect_stdout_is(&format!("{text}\n"))
        .expect_stderr(&["a stop text"]);
    assert!(text.len() > 50);
    run(&model, &["--stop", ""]).expect_error(&["stop text is empty"]);
}

#[test]
fn defaults_come_from_the_model_and_flags_win() {
    let Some(model) = model("F32") else { return };
    let file = FileBytes::open(&model).unwrap();
    let smidgen = Smidgen::new();
    let with = |name: &str, change: &dyn Fn(&mut GgufBuilder<'_>)| {
        let gguf = file.gguf().unwrap();
        let mut builder = GgufBuilder::from_gguf(&gguf).unwrap();
        change(&mut builder);
        builder
            .write_file(smidgen.path(name), Overwrite::Refuse)
            .unwrap();
    };
    with("greedy.gguf", &|builder| {
        builder.set("smidgen.run.temp", 0.0_f32);
    });
    let greedy = run(&model, &["--temp", "0", "-n", "30"]);
    let done = smidgen.run(["run", "-m", "greedy.gguf", "-n", "30"]);
    done.expect_success().expect_stdout_is(greedy.stdout());
    let args = ["-n", "30", "--temp", "1.5", "-s", "3"];
    let warm = smidgen.run(["run", "-m", "greedy.gguf"].iter().chain(&args));
    let expected = run(&model, &args);
    warm.expect_success()
        .expect_stdout_is(expected.expect_success().stdout());
    assert_ne!(expected.stdout(), greedy.stdout());

    with("all.gguf", &|builder| {
        builder.set("smidgen.run.top_k", 3_u32);
        builder.set("smidgen.run.top_p", 0.5_f32);
        builder.set("smidgen.run.min_p", 0.25_f32);
        builder.set("smidgen.run.repeat_penalty", 1.25_f32);
    });
    let done = smidgen.run(["run", "-m", "all.gguf", "-n", "3", "--stats"]);
    let all = "temp 0.8, top-k 3, top-p 0.5, min-p 0.25, repeat penalty 1.25";
    done.expect_success().expect_stderr(&[all]);
    let done = run(&model, &["-n", "3", "--stats"]);
    let all = "temp 0.8, top-k 40, top-p 0.95, min-p 0.05, repeat penalty 1";
    done.expect_success().expect_stderr(&[all]);

    with("mistyped.gguf", &|builder| {
        builder.set("smidgen.run.temp", "warm");
    });
    let done = smidgen.run(["run", "-m", "mistyped.gguf"]);
    done.expect_error(&["mistyped.gguf", "smidgen.run.temp"]);
}

#[test]
fn settings_without_sense_are_refused() {
    let Some(model) = model("Q8_0") else { return };
    for (args, word) in [
        (["--temp", "-1"], "temperature"),
        (["--temp", "nan"], "temperature"),
        (["--top-p", "1.5"], "top-p"),
        (["--min-p", "-0.1"], "min-p"),
        (["--repeat-penalty", "0"], "repeat penalty"),
        (["--top-k", "-3"], "--top-k"),
        (["-n", "-2"], "-2"),
        (["-c", "0"], "0"),
        (["--window", "0"], "0"),
        (["--window", "-5"], "-5"),
        (["-c", "4000000000"], "4000000000"),
    ] {
        run(&model, &args).expect_error(&[word]);
    }
}

#[test]
fn what_is_no_model_is_refused() {
    let smidgen = Smidgen::new();
    smidgen.write("text.gguf", "Once upon a time");
    smidgen
        .run(["run", "-m", "text.gguf"])
        .expect_error(&["text.gguf", "magic"]);
    smidgen
        .run(["run", "-m", "none.gguf"])
        .expect_error(&["none.gguf"]);
    smidgen.write("m.gguf", cases::named("emb_vocab").bytes());
    smidgen
        .run(["run", "-m", "m.gguf"])
        .expect_error(&["m.gguf", "token_embd.weight"]);
}

#[test]
fn the_first_shard_brings_the_others() {
    let Some(whole) = model("Q4_0") else { return };
    let folder = shared().unwrap().join("golden/shards");
    let file = |name: &str| folder.join(name).canonicalize().unwrap();
    let text = |model: &Path| {
        let args = ["--temp", "0", "-n", "40", "--logits-hash"];
        let done = run(model.to_str().unwrap(), &args);
        let hash = told(done.expect_success(), "logits hash").to_owned();
        (hash, done.stdout().to_owned())
    };
    let expected = text(Path::new(&whole));
    // A merged file keeps the keys of a shard.
    for name in [
        "max10-00001-of-00005.gguf",
        "first16-00001-of-00004.gguf",
        "merged-max10.gguf",
    ] {
        assert_eq!(text(&file(name)), expected, "{name}");
    }
    let second = file("max10-00002-of-00005.gguf");
    run(second.to_str().unwrap(), &[]).expect_error(&["max10-00001-of-00005.gguf"]);
    let smidgen = Smidgen::new();
    let first = std::fs::read(file("max10-00001-of-00005.gguf")).unwrap();
    smidgen.write("max10-00001-of-00005.gguf", first);
    smidgen
        .run(["run", "-m", "max10-00001-of-00005.gguf"])
        .expect_error(&["max10-00002-of-00005.gguf"]);
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let Some(model) = model("Q8_0") else { return };
    let smidgen = Smidgen::new();
    let mut command = smidgen.command();
    command.args([
        "run",
        "-m",
        &model,
        "--window",
        "64",
        "-n",
        "-1",
        "--ignore-eos",
    ]);
    // Without a reader this story has no end.
    let (mut reader, writer) = std::io::pipe().unwrap();
    let mut child = command
        .stdout(writer)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    drop(command);
    let mut start = [0; 100];
    reader.read_exact(&mut start).unwrap();
    drop(reader);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn statistics_name_what_was_used() {
    let Some(model) = model("Q8_0") else { return };
    let done = run(
        &model,
        &[
            "-n",
            "5",
            "--stats",
            "-t",
            "2",
            "--kv",
            "q8",
            "--backend",
            "scalar",
        ],
    );
    done.expect_success().expect_stderr(&[
        "370.3 KiB",
        "KV cache",
        "50.0 KiB  q8",
        "activations",
        "scalar",
        "threads",
        "tokens/s",
    ]);
}

#[test]
fn json_says_the_same() {
    let Some(model) = model("Q8_0") else { return };
    let args = ["-p", "One day", "-s", "5", "-n", "20", "--logits-hash"];
    let told = run(&model, &args);
    let (text, words) = (told.expect_success().stdout(), told.stderr());
    let json = run(&model, &both(&args, &["--json"]));
    assert_eq!(json.expect_success().stderr(), "");
    let json = json.json();
    let begin = json["prompt"].as_str().unwrap().to_owned();
    assert_eq!(begin + json["text"].as_str().unwrap() + "\n", text);
    let hash = json["logits_hash"].as_str().unwrap();
    assert!(
        words.contains(&format!("logits hash: {hash} (20 positions)")),
        "{words}"
    );
    assert_eq!(json["hashed_positions"], 20);
    assert_eq!(json["stop"], "length");
    assert_eq!(json["seed"], 5);
    assert_eq!(json["new_tokens"], 20);
    assert_eq!(json["schema"], 1);
    assert_eq!(json["model"], *model);
    let full = run(&model, &["-s", "5", "-c", "8", "--ignore-eos", "--json"]);
    assert_eq!(full.expect_success().json()["stop"], "context_full");
}

/// The file from which the command was built.
fn shipped() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let path = root.join("examples/models/smidgen-260k-Q8_0.gguf");
    path.to_str().unwrap().to_owned()
}

#[test]
fn without_a_model_it_is_the_one_that_is_built_in() {
    // In an empty folder, where no file can be meant.
    let alone = Smidgen::new();
    let args = ["-s", "3", "-n", "40", "--logits-hash"];
    let told = run(&shipped(), &args);
    let built_in = alone.run(both(&["run"], &args));
    built_in
        .expect_success()
        .expect_stdout_is(told.expect_success().stdout());
    let hash = |done: &Done| {
        done.stderr()
            .lines()
            .find(|line| line.contains("hash"))
            .map(str::to_owned)
    };
    assert!(hash(&told).is_some());
    assert_eq!(hash(&built_in), hash(&told));
    let note = "model: smidgen-260k-Q8_0.gguf (built in; -m takes another)";
    assert_eq!(built_in.stderr().lines().next(), Some(note));
    assert!(!told.stderr().contains("built in"));

    let ids = alone.run(["tokenize", "--json", "--text", "One day"]);
    let same = Smidgen::new().run(["tokenize", "-m", &shipped(), "--json", "--text", "One day"]);
    ids.expect_success()
        .expect_stdout_is(same.expect_success().stdout());
    assert!(alone.files().is_empty());
}
