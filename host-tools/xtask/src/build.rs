//! What several commands build.

use std::path::PathBuf;
use std::sync::OnceLock;

use anyhow::Result;

use crate::process::{cargo, run, target_dir};

/// The cargo profile that demo and tests share: near the speed of a release, and built quickly.
pub(crate) const PROFILE: &str = "fast";

/// Builds the command `smidgen`, once; returns where it lies.
///
/// # Errors
/// It does not build.
pub(crate) fn smidgen() -> Result<PathBuf> {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    if let Some(path) = BUILT.get() {
        return Ok(path.clone());
    }
    let words = ["build", "--locked", "--package", "smidgen", "--profile"];
    run(cargo(words).arg(PROFILE))?;
    let name = format!("smidgen{}", std::env::consts::EXE_SUFFIX);
    let path = target_dir().join(PROFILE).join(name);
    Ok(BUILT.get_or_init(|| path).clone())
}
