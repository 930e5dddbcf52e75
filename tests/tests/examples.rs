//! The programs of the folder `examples`, against the command `smidgen`, which goes another way.

use std::fs::{self, OpenOptions};
use std::process::{Command, Stdio};

use serde_json::Value;
use smidgen_io::FileBytes;
use smidgen_tests::{Done, Smidgen, binary, example, models, repository};

const PROMPT: &str = "Once upon a time";

/// A file of the folder of models.
fn model(name: &str) -> String {
    let path = models().join(name);
    path.to_str().unwrap().to_owned()
}

/// What `smidgen run` tells with these arguments, when the likeliest token is always taken.
fn greedy(args: &[&str]) -> String {
    let q8_0 = model("smidgen-260k-Q8_0.gguf");
    let run = ["run", "-m", &q8_0, "--temp", "0", "-n", "100"];
    let done = Smidgen::new().run(run.iter().chain(args));
    done.expect_success().stdout().to_owned()
}

/// How many tokens a text has, with BOS.
fn count(text: &str) -> usize {
    ids(text).len()
}

fn ids(text: &str) -> Vec<u64> {
    let q8_0 = model("smidgen-260k-Q8_0.gguf");
    let done = Smidgen::new().run(["tokenize", "-m", &q8_0, "--json", "--text", text]);
    let json = done.expect_success().json();
    let ids = json["ids"].as_array().unwrap().iter();
    ids.map(|id| id.as_u64().unwrap()).collect()
}

/// Exit status 1 and one line on stderr, which begins with the program's name and holds `words`.
#[track_caller]
fn expect_failure(done: &Done, name: &str, words: &[&str]) {
    done.expect_code(1).expect_stderr(words);
    let lines: Vec<_> = done.stderr().lines().collect();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].starts_with(&format!("{name}: ")), "{lines:?}");
}

#[test]
fn generate_tells_the_story_of_the_seed() {
    for prompt in [PROMPT, "Tim and Sue, café"] {
        let told = Smidgen::new().example("generate", [prompt]);
        let q8_0 = model("smidgen-260k-Q8_0.gguf");
        let run = Smidgen::new().run([
            "run",
            "-m",
            &q8_0,
            "-p",
            prompt,
            "-n",
            "200",
            "-s",
            "1",
            "--temp",
            "0.8",
            "--top-p",
            "0.9",
            "--top-k",
            "0",
            "--min-p",
            "0",
            "--repeat-penalty",
            "1",
        ]);
        let text = run.expect_success().stdout();
        assert!(text.len() > prompt.len() + 100, "{text}");
        told.expect_success().expect_stdout_is(text);
    }
}

#[test]
fn static_buffers_tell_the_greedy_story_in_64_kib() {
    let told = Smidgen::new().example("static_buffers", [""; 0]);
    let text = greedy(&["-p", PROMPT, "--kv", "q8", "--window", "128"]);
    told.expect_success().expect_stdout_is(&text);
    let words: Vec<_> = told.stderr().split(' ').collect();
    let at = words.iter().position(|word| *word == "bytes").unwrap();
    let bytes: u32 = words[at - 1].parse().unwrap();
    assert!((10_000..65_536).contains(&bytes), "{}", told.stderr());
}

#[test]
fn an_answer_is_the_likeliest_of_those_allowed() {
    let prompt = "Lily saw a big dog. She asked her mom, \"Can I pet the dog?\" Mom said, \"";
    let answered = Smidgen::new().example("yes_no", [""; 0]);
    let answer = answered.expect_success().stdout().trim_end();

    // The same from the logits behind the prompt.
    let q8_0 = model("smidgen-260k-Q8_0.gguf");
    let ids: Vec<_> = ids(prompt).iter().map(u64::to_string).collect();
    let logits = Smidgen::new().run(["logits", "-m", &q8_0, "--ids", &ids.join(",")]);
    let bytes = logits.expect_success().stdout_bytes();
    let file = FileBytes::open(&q8_0).unwrap();
    let tokens = file.gguf().unwrap().get("tokenizer.ggml.tokens");
    let Some(smidgen_core::gguf::Value::Array(tokens)) = tokens else {
        panic!("no tokens");
    };
    let (numbers, _) = bytes.as_chunks::<4>();
    assert_eq!(numbers.len(), tokens.len());
    let begins = |piece: &&str| "Yes".starts_with(*piece) || "No".starts_with(*piece);
    let mut allowed: Vec<_> = tokens
        .strings()
        .map(|piece| std::str::from_utf8(piece).unwrap())
        .zip(
            numbers
                .iter()
                .map(|bytes| f64::from(f32::from_le_bytes(*bytes)).exp()),
        )
        .filter(|(piece, _)| !piece.is_empty() && begins(piece))
        .collect();
    let total: f64 = allowed.iter().map(|(_, weight)| weight).sum();
    let told = answered.stderr();
    assert_eq!(told.lines().count(), allowed.len());
    for ((piece, weight), line) in allowed.iter().zip(told.lines()) {
        let (percent, told) = line.trim().split_once(" % ").unwrap();
        assert_eq!(told, *piece);
        let percent: f64 = percent.parse().unwrap();
        assert!((percent - 100.0 * weight / total).abs() < 0.051, "{line}");
    }
    allowed.sort_by(|a, b| b.1.total_cmp(&a.1));
    assert!(
        ["Yes", "No"].contains(&answer) && answer.starts_with(allowed[0].0),
        "{answer}"
    );
}

#[test]
fn a_uart_gets_the_text_and_a_broken_line_is_told() {
    let told = Smidgen::new().example("uart", [PROMPT]);
    let text = greedy(&["-p", PROMPT, "--kv", "q8"]);
    told.expect_success()
        .expect_stdout_is(text.trim_end_matches('\n'));

    // A device that is always full.
    let Ok(full) = OpenOptions::new().write(true).open("/dev/full") else {
        return;
    };
    let mut command = Command::new(example("uart"));
    let broken = command
        .stdout(full)
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    assert_eq!(broken.status.code(), Some(1));
    let words = String::from_utf8(broken.stderr).unwrap();
    assert!(words.starts_with("uart: the line: "), "{words}");
}

#[test]
fn other_work_gets_a_turn_for_every_layer() {
    let told = Smidgen::new().example("other_work", [PROMPT]);
    let text = greedy(&["-p", PROMPT]);
    told.expect_success().expect_stdout_is(&text);
    let steps = count(PROMPT) + 100;
    let q8_0 = FileBytes::open(model("smidgen-260k-Q8_0.gguf")).unwrap();
    let layers = q8_0.gguf().unwrap().get_u64("llama.block_count").unwrap();
    let turns = steps * usize::try_from(layers.unwrap()).unwrap();
    let words = format!("{turns} turns for other work, {} changes", turns / 64);
    told.expect_stderr(&[&words]);
}

#[test]
fn metadata_lists_what_inspect_lists() {
    let q8_0 = model("smidgen-260k-Q8_0.gguf");
    let listed = Smidgen::new().example("metadata", [""; 0]);
    let lines: Vec<_> = listed.expect_success().stdout().lines().collect();
    let inspected = Smidgen::new().run(["inspect", "--json", &q8_0]);
    let inspected = inspected.expect_success().json();
    assert_eq!(lines[0], "architecture: llama");

    let listed = |title: &str| {
        let from = lines.iter().position(|line| line.ends_with(title)).unwrap();
        let lines = lines[from + 1..].iter().take_while(|line| !line.is_empty());
        lines.map(|line| line.trim()).collect::<Vec<_>>()
    };
    let keys = inspected["metadata"].as_array().unwrap();
    let listed_keys = listed(" keys");
    assert_eq!(listed_keys.len(), keys.len());
    for (line, entry) in listed_keys.iter().zip(keys) {
        let (key, value) = line.split_once(" = ").unwrap();
        assert_eq!(key, entry["key"]);
        match &entry["value"] {
            Value::Number(number) => {
                let (told, expected): (f64, f64) =
                    (value.parse().unwrap(), number.as_f64().unwrap());
                assert!((told - expected).abs() <= 1e-7 * expected.abs(), "{line}");
            }
            Value::Bool(expected) => assert_eq!(value, expected.to_string()),
            Value::String(expected) => assert_eq!(value, format!("{expected:?}")),
            _ => {
                let start = format!("{} of {}: [", entry["count"], text(&entry["element"]));
                assert!(value.starts_with(&start), "{line}");
            }
        }
    }

    let tensors = inspected["tensors"].as_array().unwrap();
    let expected: Vec<_> = tensors
        .iter()
        .map(|tensor| {
            let dims: Vec<_> = tensor["dims"].as_array().unwrap().iter().collect();
            let dims: Vec<_> = dims.iter().map(|n| n.to_string()).collect();
            format!(
                "{} {} [{}], {} bytes",
                text(&tensor["name"]),
                text(&tensor["type"]),
                dims.join(", "),
                tensor["bytes"]
            )
        })
        .collect();
    assert_eq!(listed(" tensors"), expected);
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[test]
fn converting_and_quantizing_in_one_go_gives_the_bytes_of_the_commands() {
    let smidgen = Smidgen::new();
    let (checkpoint, tokenizer) = (
        model("smidgen-260k.bin"),
        model("smidgen-260k-tokenizer.bin"),
    );
    let f32s = [
        "convert",
        &checkpoint,
        "--vocab",
        &tokenizer,
        "--name",
        "A small model",
    ];
    let done = smidgen.run(f32s.iter().chain(&["-o", "f32.gguf"]));
    done.expect_success();
    for ty in ["Q4_0", "Q8_0"] {
        let expected = format!("{ty}.gguf");
        smidgen
            .run(["quantize", "f32.gguf", &expected, ty])
            .expect_success();
        let out = smidgen.path("out.gguf");
        let made = smidgen.example("convert_and_quantize", [out.to_str().unwrap(), ty]);
        let bytes = fs::read(&out).unwrap();
        assert!(bytes == fs::read(smidgen.path(&expected)).unwrap(), "{ty}");
        made.expect_success();
        made.expect_stdout(&[&format!("bytes became {}", bytes.len())]);
    }
    let done = smidgen.example("convert_and_quantize", ["out.gguf", "Q9_9"]);
    expect_failure(&done, "convert_and_quantize", &["no type Q9_9", "Q8_0"]);
    let done = smidgen.example(
        "convert_and_quantize",
        ["o", "Q8_0", "none.bin", "none.bin"],
    );
    expect_failure(&done, "convert_and_quantize", &["none.bin"]);
}

#[test]
fn a_written_file_is_a_gguf_without_faults() {
    let smidgen = Smidgen::new();
    smidgen.example("write_gguf", ["out.gguf"]).expect_success();
    smidgen.run(["verify", "out.gguf"]).expect_success();
    let name = smidgen.run(["meta", "get", "out.gguf", "general.name"]);
    name.expect_success().expect_stdout(&["A small example"]);
}

#[test]
fn the_script_prints_what_compare_finds() {
    let smidgen = Smidgen::new();
    let python = Command::new("python3").arg("--version").output();
    if python.is_err() {
        let required = std::env::var_os("SMIDGEN_REQUIRE_SHARED").is_some_and(|v| v == "1");
        assert!(!required, "no python3, and SMIDGEN_REQUIRE_SHARED=1");
        eprintln!("skipped: no python3");
        return;
    }
    let script = repository().join("examples/compare_types.py");
    let mut command = Command::new("python3");
    command.arg(&script).env("SMIDGEN", binary());
    let table = Done::of(command, b"");
    let rows: Vec<Vec<_>> = table
        .expect_success()
        .stdout()
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    let names: Vec<_> = rows.iter().map(|row| row[0]).collect();
    assert_eq!(names, ["type", "original", "Q8_0", "Q5_0", "Q4_0"]);

    let (checkpoint, tokenizer) = (
        model("smidgen-260k.bin"),
        model("smidgen-260k-tokenizer.bin"),
    );
    let convert = [
        "convert",
        &checkpoint,
        "--vocab",
        &tokenizer,
        "-o",
        "a.gguf",
    ];
    smidgen.run(convert).expect_success();
    smidgen
        .run(["quantize", "a.gguf", "b.gguf", "Q4_0"])
        .expect_success();
    let found = smidgen.run([
        "compare",
        "--json",
        "-f",
        &model("stories.txt"),
        "a.gguf",
        "b.gguf",
    ]);
    let found = found.expect_success().json();
    let row = |model: &Value, agreement: f64| {
        let perplexity = model["perplexity"].as_f64().unwrap();
        [
            model["bytes"].to_string(),
            format!("{perplexity:.4}"),
            format!("{:.2}%", 100.0 * agreement),
        ]
    };
    assert_eq!(rows[1][1..], row(&found["a"], 1.0));
    assert_eq!(
        rows[4][1..],
        row(&found["b"], found["agreement"].as_f64().unwrap())
    );

    // Its failures are those of the command, and its own is one line.
    let mut command = Command::new("python3");
    command.args([script.to_str().unwrap(), "none.gguf"]);
    let done = Done::of(command, b"");
    assert_ne!(done.code(), 0);
    let mut command = Command::new("python3");
    command.arg(&script).env("SMIDGEN", "no/such/command");
    let done = Done::of(command, b"");
    expect_failure(&done, "compare_types.py", &["no/such/command", "SMIDGEN"]);
}

#[test]
fn programs_say_which_file_is_no_model() {
    let smidgen = Smidgen::new();
    smidgen.write("words.gguf", "These are words and no model.");
    for name in ["generate", "yes_no", "uart", "other_work"] {
        let done = smidgen.example(name, [PROMPT, "none.gguf"]);
        expect_failure(&done, name, &["none.gguf"]);
        let done = smidgen.example(name, [PROMPT, "words.gguf"]);
        expect_failure(&done, name, &["words.gguf", "magic"]);
    }
    let done = smidgen.example("metadata", ["words.gguf"]);
    expect_failure(&done, "metadata", &["words.gguf", "magic"]);
}
