//! `smidgen completions SHELL`.

use std::{
    io::{self, Write},
    process::ExitCode,
};

use clap::CommandFactory;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The shell that the completions are for.
    shell: clap_complete::Shell,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    let mut command = crate::Cli::command();
    clap_complete::generate(args.shell, &mut command, "smidgen", &mut script);
    io::stdout().write_all(&script)?;
    Ok(ExitCode::SUCCESS)
}
