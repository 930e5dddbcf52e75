//! What several commands build.

use std::path::PathBuf;

use anyhow::Result;

use crate::process::{cargo, run, target_dir};

/// The cargo profile that demo and tests share: near the speed of a release, and built quickly.
pub(crate) const PROFILE: &str = "fast";

/// Builds the command `smidgen`; returns where it lies.
///
/// # Errors
/// It does not build.
pub(crate) fn smidgen() -> Result<PathBuf> {
    let words = ["build", "--locked", "--package", "smidgen", "--profile"];
    run(cargo(words).arg(PROFILE))?;
    let name = format!("smidgen{}", std::env::consts::EXE_SUFFIX);
    Ok(target_dir().join(PROFILE).join(name))
}
