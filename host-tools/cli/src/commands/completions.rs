//! `smidgen completions SHELL`.

use std::process::ExitCode;

use clap::CommandFactory;

use crate::output;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The shell that the completions are for.
    shell: clap_complete::Shell,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    let mut command = crate::Cli::command();
    clap_complete::generate(args.shell, &mut command, "smidgen", &mut script);
    output::print_bytes(&script)?;
    Ok(ExitCode::SUCCESS)
}
