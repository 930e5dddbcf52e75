//! `cargo xtask demo`: from nothing to something to look at.

use std::process::ExitCode;

use anyhow::Result;

use crate::process::{command, run as run_command};
use crate::{build, setup};

pub(crate) fn run() -> Result<ExitCode> {
    setup::setup()?;
    let smidgen = build::smidgen()?;
    let smidgen = smidgen.to_string_lossy();
    run_command(&mut command(&smidgen, [""; 0]))?;
    println!("\nThe command is {smidgen}. Next: `cargo xtask test`.");
    Ok(ExitCode::SUCCESS)
}
