//! `cargo xtask doctor`: what is here, what is missing, and what for.

use std::process::ExitCode;

use anyhow::Result;

use crate::needs::survey;

pub(crate) fn run() -> Result<ExitCode> {
    let needs = survey();
    let mut missing = 0;
    for need in &needs {
        let mark = match (&need.found, need.is_required()) {
            (Some(_), _) => "ok",
            (None, true) => "MISSING",
            (None, false) => "absent",
        };
        let found = need.found.as_deref().unwrap_or("-");
        println!("{mark:<8} {:<31} {}", need.name, need.purpose);
        if need.found.as_deref() != Some("installed") {
            println!("{:<8} {:<31} {found}", "", "");
        }
        missing += usize::from(need.is_missing() && need.is_required());
    }
    if missing == 0 {
        println!("\nNothing that is needed is missing.");
        return Ok(ExitCode::SUCCESS);
    }
    println!("\n{missing} missing: run `cargo xtask setup`.");
    Ok(ExitCode::from(1))
}
