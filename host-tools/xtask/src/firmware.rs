//! The packages under `targets/`: one a board, each with its own target and runner.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};

use crate::process::{cargo, root, run, run_within};
use crate::test::Outcome;

/// A story takes some seconds under QEMU, also in soft float.
const LIMIT: Duration = Duration::from_secs(120);

/// A package under `targets/` that has a board of its own.
#[derive(Debug, PartialEq, Eq)]
struct Firmware {
    dir: PathBuf,
    /// Whether `cargo run` starts QEMU, and not a probe that needs the board.
    is_emulated: bool,
}

/// Builds every firmware, and runs those whose runner is QEMU: exit status 0 is a pass.
pub(crate) fn check_all() -> Result<Outcome> {
    let all = find(&root().join("targets"))?;
    if all.is_empty() {
        return Ok(Outcome::Skipped("no firmware under targets/".to_owned()));
    }
    for firmware in &all {
        let mut build = cargo(["build", "--release", "--locked"]);
        run(build.current_dir(&firmware.dir))?;
        if firmware.is_emulated {
            let mut start = cargo(["run", "--release", "--locked", "--quiet"]);
            run_within(start.current_dir(&firmware.dir), LIMIT)?;
        }
    }
    Ok(Outcome::Passed)
}

/// Every folder in `targets` with a manifest and a `.cargo/config.toml`, by name. What boards share
/// is a library without a target of its own, and has no such file.
fn find(targets: &Path) -> Result<Vec<Firmware>> {
    let mut found = Vec::new();
    let entries =
        fs::read_dir(targets).with_context(|| format!("cannot list {}", targets.display()))?;
    for entry in entries {
        let dir = entry?.path();
        let config = dir.join(".cargo/config.toml");
        if dir.join("Cargo.toml").is_file() && config.is_file() {
            let config = fs::read_to_string(&config)
                .with_context(|| format!("cannot read {}", config.display()))?;
            let is_emulated = config.lines().any(|line| {
                line.trim_start().starts_with("runner") && line.contains("qemu-system-")
            });
            found.push(Firmware { dir, is_emulated });
        }
    }
    found.sort_by(|a, b| a.dir.cmp(&b.dir));
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_with_a_target_of_their_own_are_found() {
        let targets = tempfile::tempdir().unwrap();
        let add = |name: &str, config: Option<&str>| {
            let dir = targets.path().join(name);
            fs::create_dir_all(dir.join(".cargo")).unwrap();
            fs::write(dir.join("Cargo.toml"), "").unwrap();
            if let Some(config) = config {
                fs::write(dir.join(".cargo/config.toml"), config).unwrap();
            }
            dir
        };
        add("common", None);
        let probed = add(
            "rp2350",
            Some("runner = \"probe-rs run\"\n# not qemu-system-arm\n"),
        );
        let emulated = add(
            "an386",
            Some("[target.x]\nrunner = \"qemu-system-arm -M y\"\n"),
        );
        fs::write(targets.path().join("README.md"), "").unwrap();
        assert_eq!(
            find(targets.path()).unwrap(),
            [
                Firmware {
                    dir: emulated,
                    is_emulated: true
                },
                Firmware {
                    dir: probed,
                    is_emulated: false
                },
            ]
        );
    }
}
