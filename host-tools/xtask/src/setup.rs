//! `cargo xtask setup`: adds what is missing, and does nothing when nothing is.

use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};

use crate::needs::{Kind, Need, survey};
use crate::packages;
use crate::process::{command, run as run_command, which};

pub(crate) fn run() -> Result<ExitCode> {
    setup()?;
    eprintln!("xtask: set up");
    Ok(ExitCode::SUCCESS)
}

/// Adds what is missing. Without a nightly toolchain it says what will be left out, and goes on.
///
/// # Errors
/// Something required is missing and cannot be added; the message says what to type.
pub(crate) fn setup() -> Result<()> {
    add(|_| true)
}

/// As [`setup`], but no more than the things of these names.
///
/// # Errors
/// As [`setup`].
pub(crate) fn only(names: &[&str]) -> Result<()> {
    add(|need| names.contains(&need.name))
}

fn add(is_wanted: impl Fn(&Need) -> bool) -> Result<()> {
    let mut needs = survey();
    needs.retain(&is_wanted);
    let missing = |kind| -> Vec<&'static str> {
        let of_kind = |need: &&Need| need.kind == kind && need.is_missing();
        needs.iter().filter(of_kind).map(|need| need.name).collect()
    };

    let targets = missing(Kind::Target);
    if !targets.is_empty() {
        rustup(&["target", "add"], &targets)?;
    }
    let components = missing(Kind::Component);
    if !components.is_empty() {
        rustup(&["component", "add"], &components)?;
    }
    add_nightly(&missing(Kind::Nightly));
    let programs = missing(Kind::Program);
    if !programs.is_empty() {
        packages::install(&programs)?;
    }

    if needs.iter().any(Need::is_missing) {
        let still: Vec<_> = survey()
            .into_iter()
            .filter(|need| is_wanted(need) && need.is_missing() && need.is_required())
            .map(|need| need.name)
            .collect();
        if !still.is_empty() {
            bail!(
                "still missing after the set-up: {} (see `cargo xtask doctor`)",
                still.join(", ")
            );
        }
    }
    Ok(())
}

fn add_nightly(missing: &[&str]) {
    let added = match missing {
        [] => Ok(()),
        ["nightly", ..] => rustup(
            &["toolchain", "install", "nightly", "--profile", "minimal"],
            &["--component", "miri", "--component", "rust-src"],
        ),
        parts => rustup(&["component", "add", "--toolchain", "nightly"], parts),
    };
    if let Err(error) = added {
        eprintln!("xtask: no nightly toolchain with Miri, so its checks are left out: {error:#}");
    }
}

fn rustup(words: &[&str], names: &[&str]) -> Result<()> {
    if which("rustup").is_none() {
        bail!(
            "rustup is not on the PATH; get it from https://rustup.rs, or install by hand: {}",
            names.join(", ")
        );
    }
    let mut command = command("rustup", words);
    command.args(names);
    run_command(&mut command).context("rustup failed")
}
