//! The command `smidgen`: make, inspect and run small GGUF models.

mod built_in_model;
mod commands;
mod engine;
mod ids;
mod output;
mod progress;
mod sampling;

use std::{error::Error, ffi::OsString, io, process::ExitCode};

use anstream::ColorChoice;
use clap::{Parser, ValueEnum, error::ErrorKind};

/// Make, inspect and run small GGUF models.
///
/// Data goes to standard output, words and progress to standard error. The exit status is 0 when
/// the work is done, 1 when a check says no, 2 when the command line is wrong or the work failed.
/// A file called `-` is standard input.
#[derive(Debug, Parser)]
#[command(name = "smidgen", version, propagate_version = true)]
struct Cli {
    /// When to use colors; `auto` is on terminals, unless `NO_COLOR` is set.
    #[arg(long, value_name = "WHEN", default_value = "auto", global = true)]
    color: Color,

    #[command(subcommand)]
    command: commands::Command,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Color {
    Auto,
    Always,
    Never,
}

impl From<Color> for ColorChoice {
    fn from(color: Color) -> Self {
        match color {
            Color::Auto => Self::Auto,
            Color::Always => Self::Always,
            Color::Never => Self::Never,
        }
    }
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse_from(with_dashes(std::env::args_os())) {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    ColorChoice::from(cli.color).write_global();
    match cli.command.run() {
        Ok(code) => code,
        // Whoever read our output has enough of it.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            output::error(&error);
            ExitCode::from(2)
        }
    }
}

/// The arguments with `-` for every `_` in the names of options, which llama.cpp's tools take alike.
fn with_dashes(args: impl Iterator<Item = OsString>) -> impl Iterator<Item = OsString> {
    let mut only_operands = false;
    args.map(move |arg| {
        only_operands |= arg == "--";
        match arg.to_str() {
            Some(text) if text.starts_with("--") && !only_operands => {
                let end = text.find('=').unwrap_or(text.len());
                let (name, value) = text.split_at(end);
                format!("{}{value}", name.replace('_', "-")).into()
            }
            _ => arg,
        }
    })
}

/// Help and version as clap prints them; what is wrong with the command line as one line, clap's
/// tips and the usage below.
fn usage(error: &clap::Error) -> ExitCode {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            // A closed pipe is no failure.
            let _ = error.print();
            ExitCode::SUCCESS
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let _ = error.print();
            ExitCode::from(2)
        }
        _ => {
            let text = error.to_string();
            let text = text.strip_prefix("error: ").unwrap_or(&text);
            let (cause, rest) = text.split_once("\n\n").unwrap_or((text, ""));
            let cause: Vec<_> = cause.split_whitespace().collect();
            eprintln!("smidgen: {}", cause.join(" "));
            eprintln!("{}", rest.trim_end());
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
