//! The subcommands, one file each: its arguments and what it does.

use std::process::ExitCode;

use clap::Subcommand;

mod completions;
mod convert;

#[derive(Debug, Subcommand)]
#[allow(clippy::large_enum_variant)] // There is one.
pub(crate) enum Command {
    /// Make a GGUF of a llama2.c checkpoint.
    Convert(convert::Args),
    /// Print completions for a shell.
    Completions(completions::Args),
}

impl Command {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        match self {
            Self::Convert(args) => convert::run(&args),
            Self::Completions(args) => completions::run(&args),
        }
    }
}
