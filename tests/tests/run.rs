//! `smidgen run` from the outside.

use std::io::Read;
use std::path::PathBuf;
use std::process::Stdio;

use serde_json::Value;
use smidgen_core::gguf::GgmlType;
use smidgen_io::{GgufBuilder, Overwrite};
use smidgen_tests::{Done, Smidgen, shared};

/// stories260K as llama.cpp converts and quantizes it.
fn model(ty: &str) -> Option<String> {
    let path = shared()?.join(format!("golden/stories260K/gguf/stories260K-{ty}.gguf"));
    Some(path.to_str().unwrap().to_owned())
}

fn golden(name: &str) -> Value {
    let path = shared().unwrap().join("golden/stories260K").join(name);
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn run(model: &str, args: &[&str]) -> Done {
    Smidgen::new().run(["run", "-m", model].iter().chain(args))
}

const GREEDY: [&str; 2] = ["--temp", "0"];
const LLAMA2C: [&str; 8] = [
    "--top-k",
    "0",
    "--min-p",
    "0",
    "--repeat-penalty",
    "1",
    "-c",
    "512",
];

#[test]
fn seeds_tell_the_stories_of_llama2c() {
    let Some(model) = model("F32") else { return };
    let stories = golden("sampled_llama2c.json");
    let stories = stories.as_array().unwrap();
    assert_eq!(stories.len(), 5);
    for story in stories {
        let text = |key: &str| story[key].to_string();
        let (temp, top_p, seed) = (text("temperature"), text("top_p"), text("seed"));
        let mut args = vec!["--temp", &temp, "--top-p", &top_p, "-s", &seed];
        args.extend(LLAMA2C);
        let prompt = story["prompt"].as_str();
        args.extend(prompt.iter().flat_map(|prompt| ["-p", prompt]));
        // llama2.c counts the tokens of the prompt but BOS.
        let words = prompt.unwrap_or_default();
        let ids = Smidgen::new().run([
            "tokenize", "-m", &model, "--no-bos", "--json", "--text", words,
        ]);
        let ids: Value = serde_json::from_str(ids.stdout()).unwrap();
        let n = story["n"].as_u64().unwrap() - ids["ids"].as_array().unwrap().len() as u64;
        let n = n.to_string();
        args.extend(["-n", &n]);
        run(&model, &args)
            .expect_success()
            .expect_stdout_is(story["text"].as_str().unwrap());
    }
}

#[test]
fn greedy_stories_go_on_as_float64_has_them() {
    let Some(model) = model("F32") else { return };
    for story in golden("greedy.json").as_array().unwrap() {
        let prompt = story["prompt"].as_str().unwrap();
        let len = |key: &str| story[key].as_array().unwrap().len();
        let n = (len("greedy_ids") - len("prompt_ids")).to_string();
        let ids: Vec<String> = story["greedy_ids"]
            .as_array()
            .unwrap()
            .iter()
            .map(Value::to_string)
            .collect();
        let text = Smidgen::new().run([
            "detokenize",
            "-m",
            &model,
            &format!("--ids={}", ids.join(",")),
        ]);
        let done = run(
            &model,
            &["--temp", "0", "-c", "512", "-n", &n, "-p", prompt],
        );
        done.expect_success()
            .expect_stdout_is(&format!("{}\n", text.stdout()));
        assert!(text.stdout().starts_with(prompt));
    }
}
