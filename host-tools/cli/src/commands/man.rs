//! `smidgen man [COMMAND]`.

use std::process::ExitCode;

use clap::CommandFactory;

use crate::output;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The subcommand that the page is about; the command itself without.
    command: Option<String>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let mut root = crate::Cli::command().disable_help_subcommand(true);
    root.build();
    let command = match &args.command {
        None => root,
        Some(name) => {
            let found = root.find_subcommand(name);
            let found = found.ok_or_else(|| anyhow::anyhow!("no command {name}"))?;
            found.clone()
        }
    };
    let mut page = Vec::new();
    clap_mangen::Man::new(command).render(&mut page)?;
    output::print_bytes(&page)?;
    Ok(ExitCode::SUCCESS)
}
