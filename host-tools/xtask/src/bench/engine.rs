//! `cargo xtask bench engine`: tokens per second of the engine on one core, and instructions per
//! token under valgrind, which do not depend on what else the machine is doing.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use crate::build;
use crate::process::{cargo, command, output, root, run as run_command, which};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Models to measure [default: stories260K in four types, made from the shared folder's
    /// checkpoint].
    models: Vec<PathBuf>,
}

/// Tokens over which instructions are counted.
const TOKENS: u64 = 256;

/// Measures every model with every back end and type of KV cache.
///
/// # Errors
/// Something does not build or run, or back ends do not agree.
pub(crate) fn run(args: &Args) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let models = if args.models.is_empty() {
        stories(folder.path())?
    } else {
        args.models.clone()
    };
    let words = [
        "bench",
        "--package",
        "smidgen-tests",
        "--bench",
        "engine",
        "--",
    ];
    run_command(cargo(words).args(&models))?;

    if which("valgrind").is_none() {
        println!("instructions are not counted: no valgrind");
        return Ok(());
    }
    let bench = executable()?;
    println!("| model | back end | KV | instructions per token, mean over {TOKENS} |");
    println!("|---|---|---|---:|");
    for model in &models {
        let name = model.file_name().unwrap_or_default().to_string_lossy();
        for kv in ["f32", "q8"] {
            // valgrind shows its programs a processor of its own, without AVX-VNNI.
            for backend in ["scalar", "avx2"] {
                if backend == "avx2" && !cfg!(target_arch = "x86_64") {
                    continue;
                }
                let count = |tokens| instructions(&bench, backend, kv, model, tokens);
                let mean = (count(TOKENS)? - count(0)?) / TOKENS;
                println!("| {name} | {backend} | {kv} | {mean} |");
            }
        }
    }
    Ok(())
}

/// stories260K as our tools convert and quantize it.
fn stories(folder: &Path) -> Result<Vec<PathBuf>> {
    let shared = match std::env::var_os("SMIDGEN_SHARED") {
        Some(shared) => PathBuf::from(shared),
        None => root().join("../shared"),
    };
    let models = shared.join("models");
    if !models.is_dir() {
        bail!("no folder {}: name models to measure", models.display());
    }
    let smidgen = build::smidgen()?;
    let smidgen = smidgen.to_string_lossy();
    let f32 = folder.join("stories260K-F32.gguf");
    let mut convert = command(&smidgen, ["convert", "--quiet"]);
    convert.arg(models.join("stories260K.bin"));
    convert.arg("--vocab").arg(models.join("tok512.bin"));
    run_command(convert.arg("-o").arg(&f32))?;
    let mut made = Vec::new();
    for ty in ["Q8_0", "Q5_0", "Q4_0"] {
        let path = folder.join(format!("stories260K-{ty}.gguf"));
        let mut quantize = command(&smidgen, ["quantize", "--pure"]);
        run_command(quantize.arg(&f32).arg(&path).arg(ty))?;
        made.push(path);
    }
    made.push(f32);
    Ok(made)
}

/// Where cargo has put the benchmark.
fn executable() -> Result<PathBuf> {
    let words = ["bench", "--package", "smidgen-tests", "--bench", "engine"];
    let mut build = cargo(words);
    build.args(["--no-run", "--message-format", "json"]);
    let messages = output(&mut build)?;
    let path = messages.lines().rev().find_map(|line| {
        let (_, rest) = line.split_once("\"executable\":\"")?;
        let (path, _) = rest.split_once('"')?;
        Some(PathBuf::from(path))
    });
    path.context("cargo named no executable for the benchmark")
}

/// Instructions of a run of the benchmark that makes `tokens` tokens once.
fn instructions(bench: &Path, backend: &str, kv: &str, model: &Path, tokens: u64) -> Result<u64> {
    let file = tempfile::NamedTempFile::new()?;
    let mut valgrind = command("valgrind", ["--tool=callgrind", "--quiet"]);
    valgrind.arg(format!("--callgrind-out-file={}", file.path().display()));
    valgrind.arg(bench).args(["--once", backend, kv]).arg(model);
    output(valgrind.arg(tokens.to_string()))?;
    let profile = std::fs::read_to_string(file.path())?;
    let total = profile
        .lines()
        .find_map(|line| line.strip_prefix("summary: "));
    let total = total.and_then(|total| total.trim().parse().ok());
    total.context("callgrind gave no summary")
}
