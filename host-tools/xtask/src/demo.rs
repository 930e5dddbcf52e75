//! `cargo xtask demo`: from a trained checkpoint to a story that a board tells.

use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Result, ensure};

use crate::process::{cargo, command, root, run as run_command, target_dir};
use crate::{build, setup};

/// The board that tells it.
const BOARD: &str = "mps2-an386";

/// What it takes, as `cargo xtask setup` names it.
const NEEDS: &[&str] = &["thumbv7em-none-eabihf", "qemu-system-arm"];

const PROMPT: &str = "Once upon a time";

pub(crate) fn run() -> Result<ExitCode> {
    let start = Instant::now();
    setup::only(NEEDS)?;
    let smidgen = build::smidgen()?;
    let smidgen = smidgen.to_string_lossy();
    let models = Path::new("examples/models");
    let checkpoint = models.join("smidgen-260k.bin");
    ensure!(
        root().join(&checkpoint).is_file(),
        "{} is not here",
        checkpoint.display()
    );
    let dir = target_dir().join("demo");
    fs::create_dir_all(&dir)?;
    let float = dir.join("smidgen-260k-F32.gguf");
    let small = dir.join("smidgen-260k-Q8_0.gguf");

    say("A llama2.c checkpoint becomes a GGUF file");
    let mut convert = command(&smidgen, ["convert", "--force"]);
    convert.arg(checkpoint).arg("--vocab");
    convert.arg(models.join("smidgen-260k-tokenizer.bin"));
    run_command(convert.arg("-o").arg(relative(&float)))?;

    say("Its weights get 8 bits instead of 32");
    let mut quantize = command(&smidgen, ["quantize", "--force"]);
    quantize.arg(relative(&float)).arg(relative(&small));
    run_command(quantize.arg("Q8_0"))?;

    say("Does it fit the board, a Cortex-M4?");
    let mut plan = command(&smidgen, ["plan", "--board", BOARD]);
    run_command(plan.arg(relative(&small)))?;

    say("Firmware with this model in it starts in QEMU, and tells a story");
    let mut boot = cargo(["xtask", "run", "--board", BOARD, "--prompt", PROMPT]);
    boot.args(["--temp", "0.8", "--seed", "1", "--model"]);
    run_command(boot.arg(relative(&small)))?;

    say("What it takes: memory, and instructions a token");
    for words in [&["size"][..], &["bench", "boards"]] {
        let mut measure = cargo(["xtask"]);
        measure.args(words).args(["--board", BOARD, "--model"]);
        run_command(measure.arg(relative(&small)))?;
    }

    println!(
        "\nThat took {} seconds. What next?\n",
        start.elapsed().as_secs()
    );
    let smidgen = relative(Path::new(&*smidgen)).display();
    let small = relative(&small).display();
    println!("    {smidgen} run                                  another story, on this machine");
    println!("    {smidgen} inspect {small}");
    println!("    {smidgen} plan --boards                        boards to choose from");
    println!("    cargo xtask run --board {BOARD} --seed 2 --temp 0.8 --prompt \"One day, a dog\"");
    println!("    cargo xtask test                               every check there is");
    println!("\nREADME.md tells how to bring a model of your own, and how to flash a real board.");
    Ok(ExitCode::SUCCESS)
}

fn say(what: &str) {
    eprintln!("\n=== {what}");
}

/// As one would type it in the repository's root.
fn relative(path: &Path) -> &Path {
    path.strip_prefix(root()).unwrap_or(path)
}
