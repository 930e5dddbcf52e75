//! What the measurements of commands share.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use crate::process::shown;

/// How long a command takes.
///
/// # Errors
/// It cannot be started, or fails.
pub(super) fn timed(command: &mut Command) -> Result<Duration> {
    let start = Instant::now();
    let status = command.status();
    let time = start.elapsed();
    let status = status.with_context(|| format!("cannot start `{}`", shown(command)))?;
    ensure!(status.success(), "`{}`: {status}", shown(command));
    Ok(time)
}

/// The one in the middle.
pub(super) fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// The bytes in a number with ` kB` behind it, as `/proc` has them.
pub(super) fn kib(text: &str) -> u64 {
    let number = text.trim().trim_end_matches(" kB").parse::<u64>();
    number.unwrap_or(0) * 1024
}

#[allow(clippy::cast_precision_loss)]
pub(super) fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
