//! The command `smidgen`: make, inspect and run small GGUF models.

mod commands;

use std::{error::Error, io, process::ExitCode};

use clap::Parser;

/// Make, inspect and run small GGUF models.
///
/// Data goes to standard output, words and progress to standard error. The exit status is 0 when
/// the work is done, 1 when a check says no, 2 when the command line is wrong or the work failed.
#[derive(Debug, Parser)]
#[command(name = "smidgen", version, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: commands::Command,
}

fn main() -> ExitCode {
    match Cli::parse().command.run() {
        Ok(code) => code,
        // Whoever read our output has enough of it.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("smidgen: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause: &(dyn Error + 'static)| {
        cause
            .downcast_ref::<io::Error>()
            .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
    })
}
