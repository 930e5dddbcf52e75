//! `cargo xtask bench`: measurements, each beside what others need for the same.

mod convert;
mod edit;
mod engine;
mod measure;
mod shards;

use std::process::ExitCode;

use anyhow::Result;

use crate::boards;
use crate::process::{cargo, run as run_command};

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Bench {
    /// How long it takes to parse GGUF, and how that grows.
    Gguf,
    /// Time and memory of a conversion, beside a copy of the same file.
    Convert,
    /// Time and memory of looking at a file of 10 GiB and changing its metadata.
    Edit,
    /// Speed of the engine on this computer: tokens per second, and instructions per token.
    Engine(engine::Args),
    /// Time and memory of splitting and merging, beside a copy of the same file.
    Shards(shards::Args),
    /// Instructions of a step on every board; writes `targets/BENCH.md`.
    Boards(boards::BenchArgs),
}

pub(crate) fn run(which: &Bench) -> Result<ExitCode> {
    match which {
        Bench::Gguf => {
            let words = ["bench", "--package", "smidgen-core", "--bench", "gguf"];
            run_command(&mut cargo(words))?;
        }
        Bench::Convert => return convert::run(),
        Bench::Edit => return edit::run(),
        Bench::Engine(args) => engine::run(args)?,
        Bench::Shards(args) => return shards::run(args),
        Bench::Boards(args) => return boards::bench(args),
    }
    Ok(ExitCode::SUCCESS)
}
