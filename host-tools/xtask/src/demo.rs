//! `cargo xtask demo`: from nothing to something to look at.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;

use crate::process::{cargo, command, root, run as run_command, target_dir};
use crate::{build, setup};

pub(crate) fn run() -> Result<ExitCode> {
    setup::setup()?;
    let smidgen = build::smidgen()?;
    let dir = target_dir().join("demo");
    fs::create_dir_all(&dir)?;

    say("A program writes a small GGUF file");
    let file = write_gguf(&dir)?;

    say("smidgen inspect shows what is in it");
    let smidgen = smidgen.to_string_lossy();
    run_command(command(&smidgen, ["inspect"]).arg(&file))?;

    say("smidgen verify checks every byte of its structure");
    run_command(command(&smidgen, ["verify"]).arg(&file))?;

    let file = relative(&file);
    println!("\nNext, the same on a model of your own:\n");
    println!(
        "    {} inspect MODEL.gguf",
        relative(Path::new(&*smidgen)).display()
    );
    println!(
        "\nThe file is {}; what wrote it, examples/write_gguf.rs.",
        file.display()
    );
    println!("`cargo xtask test` runs every check there is.");
    Ok(ExitCode::SUCCESS)
}

fn write_gguf(dir: &Path) -> Result<PathBuf> {
    let file = dir.join("small.gguf");
    let mut write = cargo(["run", "--quiet", "--locked", "--profile", build::PROFILE]);
    write.args(["--package", "smidgen-examples", "--example", "write_gguf"]);
    run_command(write.arg("--").arg(&file))?;
    Ok(file)
}

fn say(what: &str) {
    eprintln!("\n=== {what}");
}

/// As one would type it in the repository's root.
fn relative(path: &Path) -> &Path {
    path.strip_prefix(root()).unwrap_or(path)
}
