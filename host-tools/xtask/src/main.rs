//! Set-up, tests, benchmarks and boards of this repository: `cargo xtask`.

mod bench;
mod boards;
mod build;
mod demo;
mod doctor;
mod fuzz;
mod models;
mod needs;
mod packages;
mod picture;
mod process;
mod readme;
mod setup;
mod test;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Set-up, tests, benchmarks and boards of Smidgen.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Add what is missing on this machine: Rust targets and components, QEMU. Nothing to do: no
    /// network, no time.
    Setup,
    /// List what is here and what is missing, and what each thing is for.
    Doctor,
    /// Set up, then run every check there is.
    Test(test::Args),
    /// Set up, build, and show what Smidgen does.
    Demo,
    /// Feed the parsers with mutated files (needs a nightly toolchain).
    Fuzz(fuzz::Args),
    /// Make the models in examples/models again from their checkpoint, and compare.
    Models(models::Args),
    /// Tell a story on a board, in QEMU.
    Run(boards::RunArgs),
    /// Type at a board's console, in QEMU.
    Talk(boards::TalkArgs),
    /// Test the firmware of the boards, in QEMU.
    TestBoards(boards::TestArgs),
    /// Put console and model onto a real board, or into files to be copied there.
    Flash(boards::FlashArgs),
    /// Put a model behind the header with which a board finds it in flash.
    Pack(boards::PackArgs),
    /// Draw the terminal of README.md: the commands are run, what they print is drawn.
    Picture(picture::Args),
    /// List flash and RAM of a board's firmware by part.
    Size(boards::SizeArgs),
    /// Measure one thing, beside what others need for it.
    #[command(subcommand)]
    Bench(bench::Bench),
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Setup => setup::run(),
        Command::Doctor => doctor::run(),
        Command::Test(args) => test::run(&args),
        Command::Demo => demo::run(),
        Command::Fuzz(args) => fuzz::run(&args),
        Command::Models(args) => models::run(&args),
        Command::Run(args) => boards::run(&args),
        Command::Talk(args) => boards::talk(&args),
        Command::TestBoards(args) => boards::test(&args),
        Command::Flash(args) => boards::flash(&args),
        Command::Pack(args) => boards::pack(&args),
        Command::Picture(args) => picture::run(&args),
        Command::Size(args) => boards::size(&args),
        Command::Bench(which) => bench::run(&which),
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::from(2)
        }
    }
}
