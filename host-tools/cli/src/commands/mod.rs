//! The subcommands, one file each: its arguments and what it does.

use std::process::ExitCode;

use clap::Subcommand;

mod completions;
mod convert;
mod inspect;
mod man;
mod run;
mod verify;

#[derive(Debug, Subcommand)]
#[allow(clippy::large_enum_variant)] // There is one of each.
pub(crate) enum Command {
    /// Make a GGUF of a llama2.c checkpoint.
    Convert(convert::Args),
    /// Show what is in a GGUF file.
    Inspect(inspect::Args),
    /// Check GGUF files for everything that is wrong with them.
    Verify(verify::Args),
    /// Tell a story: continue a text.
    Run(run::Args),
    /// Print completions for a shell.
    Completions(completions::Args),
    /// Print a page of the manual.
    #[command(hide = true)]
    Man(man::Args),
}

impl Command {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        match self {
            Self::Convert(args) => convert::run(&args),
            Self::Inspect(args) => inspect::run(&args),
            Self::Verify(args) => verify::run(&args),
            Self::Run(args) => run::run(args),
            Self::Completions(args) => completions::run(&args),
            Self::Man(args) => man::run(&args),
        }
    }
}
