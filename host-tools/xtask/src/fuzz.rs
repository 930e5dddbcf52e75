//! `cargo xtask fuzz`: libFuzzer over the targets of core/fuzz, seeded with the case files.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};

use crate::needs::has_toolchain;
use crate::process::{cargo_of, command, root, run as run_command, target_dir, which};

/// Arguments of `cargo xtask fuzz`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How long to feed each target.
    #[arg(long, default_value_t = 60, value_name = "N")]
    seconds: u32,
    /// The targets to feed; all when none is named.
    targets: Vec<String>,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    if !has_toolchain("nightly") {
        bail!("the fuzzer needs a nightly toolchain: run `cargo xtask setup`");
    }
    if which("cargo-fuzz").is_none() {
        eprintln!("xtask: cargo-fuzz is not here: building it, once");
        run_command(&mut command("cargo", ["install", "cargo-fuzz", "--locked"]))?;
    }
    let all = targets()?;
    if let Some(unknown) = args.targets.iter().find(|name| !all.contains(name)) {
        bail!("no fuzz target `{unknown}`; there are: {}", all.join(", "));
    }
    let chosen = if args.targets.is_empty() {
        &all
    } else {
        &args.targets
    };
    for target in chosen {
        feed(target, args.seconds)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The names of the files in `core/fuzz/fuzz_targets`.
fn targets() -> Result<Vec<String>> {
    let dir = root().join("core/fuzz/fuzz_targets");
    let mut names = Vec::new();
    for entry in fs::read_dir(&dir).with_context(|| format!("cannot list {}", dir.display()))? {
        let path = entry?.path();
        if let Some(name) = path.file_stem().and_then(|stem| stem.to_str()) {
            names.push(name.to_owned());
        }
    }
    names.sort();
    Ok(names)
}

/// What may be typed at a console; behind the first `/`, which the target takes off, come the keys.
const TYPED: &[&str] = &[
    "/Once upon a time\r",
    "//temp 0.8\r/top_p 0.5\r/seed 7\r/n 3\rThe caf\u{e9}\r",
    "//help\r/settings\r/report on\r/n 2\rA\x7f\x7fdog\x15cat\r\x1b[A\x03",
];

fn feed(target: &str, seconds: u32) -> Result<()> {
    // What the fuzzer finds interesting is kept between runs; the case files join it each time.
    let corpus = target_dir().join("fuzz").join(target);
    fs::create_dir_all(&corpus)?;
    seed(&root().join("tests/cases/files"), &corpus)?;
    if target == "console" {
        for (number, keys) in TYPED.iter().enumerate() {
            fs::write(corpus.join(format!("typed-{number}")), keys)?;
        }
    }
    let mut fuzz = cargo_of(
        "nightly",
        &["fuzz", "run", "--fuzz-dir", "core/fuzz", target],
    );
    fuzz.arg(&corpus).arg("--");
    fuzz.arg(format!("-max_total_time={seconds}"));
    // What is wrong with a long file is wrong with a short one; those are fed more often.
    run_command(fuzz.args(["-max_len=4096", "-timeout=5", "-print_final_stats=1"]))
}

/// Copies the GGUF files of all cases into `corpus`.
fn seed(cases: &Path, corpus: &Path) -> Result<()> {
    for case in fs::read_dir(cases).with_context(|| format!("cannot list {}", cases.display()))? {
        let case = case?;
        for file in fs::read_dir(case.path())? {
            let file = file?;
            if file.path().extension().is_some_and(|ext| ext == "gguf") {
                let mut name = case.file_name();
                name.push("-");
                name.push(file.file_name());
                fs::copy(file.path(), corpus.join(name))?;
            }
        }
    }
    Ok(())
}
