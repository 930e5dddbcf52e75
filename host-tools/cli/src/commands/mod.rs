//! The subcommands, one file each: its arguments and what it does.

use std::process::ExitCode;

use clap::Subcommand;

mod completions;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Print completions for a shell.
    Completions(completions::Args),
}

impl Command {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        match self {
            Self::Completions(args) => completions::run(&args),
        }
    }
}
