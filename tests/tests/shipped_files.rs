//! What ships in examples/models is what `cargo xtask models` makes from the checkpoint there.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use smidgen_core::kernels::Backend;
use smidgen_tests::{Smidgen, models, repository};

/// `cargo xtask models` on a folder, with the command that is tested.
fn make(smidgen: &Smidgen, folder: &Path, args: &[&str]) -> Output {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["xtask", "models", "--folder"]);
    command.arg(folder).args(args).current_dir(repository());
    command.env("SMIDGEN_BIN", smidgen.command().get_program());
    command.output().unwrap()
}

fn lines(output: &Output) -> Vec<&str> {
    std::str::from_utf8(&output.stdout)
        .unwrap()
        .lines()
        .collect()
}

#[test]
fn the_checkpoint_gives_the_files_byte_for_byte() {
    let smidgen = Smidgen::new();
    let folder = smidgen.dir();
    for entry in fs::read_dir(models()).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, folder.join(path.file_name().unwrap())).unwrap();
    }
    // What is not so is told, and written only if one asks for it.
    let q8_0 = folder.join("smidgen-260k-Q8_0.gguf");
    let mut changed = fs::read(&q8_0).unwrap();
    *changed.last_mut().unwrap() ^= 1;
    fs::write(&q8_0, &changed).unwrap();
    fs::remove_file(folder.join("golden.json")).unwrap();
    let output = make(&smidgen, folder, &["--threads", "1"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let told = lines(&output);
    assert_eq!(told.len(), 3, "{told:?}");
    assert!(told[0].ends_with("smidgen-260k-Q8_0.gguf: is not what the checkpoint gives"));
    assert!(
        told[1].ends_with(" as made from the checkpoint"),
        "{told:?}"
    );
    assert!(told[2].ends_with("golden.json: is missing"), "{told:?}");
    assert_eq!(fs::read(&q8_0).unwrap(), changed);

    let output = make(&smidgen, folder, &["--threads", "3", "--overwrite"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let mut count = 0;
    for entry in fs::read_dir(models()).unwrap() {
        let name = entry.unwrap().file_name();
        let shipped = fs::read(models().join(&name)).unwrap();
        assert!(fs::read(folder.join(&name)).unwrap() == shipped, "{name:?}");
        count += 1;
    }
    assert_eq!(smidgen.files().len(), count);
}

#[test]
fn files_fit_where_they_are_to_fit() {
    let len = |name: &str| fs::metadata(models().join(name)).unwrap().len();
    assert!(len("smidgen-260k-Q5_0.gguf") <= 200_000);
    let all = fs::read_dir(models())
        .unwrap()
        .map(|entry| entry.unwrap().metadata().unwrap().len());
    assert!(all.sum::<u64>() < 2_000_000);
}

#[test]
fn perplexities_are_those_of_the_golden_file() {
    let golden = fs::read(models().join("golden.json")).unwrap();
    let golden: Value = serde_json::from_slice(&golden).unwrap();
    let measured = &golden["perplexity"];
    let text = models().join(measured["text"].as_str().unwrap());
    let ctx_size = measured["ctx_size"].to_string();
    for name in ["smidgen-260k-Q8_0.gguf", "smidgen-260k-Q5_0.gguf"] {
        for (at, backend) in Backend::available().enumerate() {
            let mut words = vec!["perplexity", "--json", "-c", &ctx_size];
            words.extend(["--backend", backend.name(), "-t", ["1", "2", "3"][at % 3]]);
            let smidgen = Smidgen::new();
            let (model, text) = (models().join(name), &text);
            words.extend(["-m", model.to_str().unwrap(), "-f", text.to_str().unwrap()]);
            let report = smidgen.run(words).expect_success().json();
            let expected = &golden["models"][name]["perplexity"];
            assert_eq!(
                &report["perplexity"],
                expected,
                "{name}, {}",
                backend.name()
            );
        }
    }
}
