//! The system's package manager: which one, what the packages are called there, how to ask it.

use std::fs;
use std::process::Command;

use anyhow::{Result, bail};

use crate::process::{command, output, run, shown, which};

/// A package manager that this module knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manager {
    /// Debian, Ubuntu and their kin.
    Apt,
    /// Fedora and its kin.
    Dnf,
    /// Arch and its kin.
    Pacman,
    /// macOS.
    Brew,
}

impl Manager {
    /// The one of this machine.
    pub(crate) fn detect() -> Option<Self> {
        [
            ("apt-get", Self::Apt),
            ("dnf", Self::Dnf),
            ("pacman", Self::Pacman),
            ("brew", Self::Brew),
        ]
        .into_iter()
        .find_map(|(program, manager)| which(program).map(|_| manager))
    }

    /// The package that holds `program`.
    pub(crate) fn package_of(self, program: &str) -> Option<&'static str> {
        Some(match (self, program) {
            (Self::Apt, "qemu-system-arm" | "qemu-system-aarch64") => "qemu-system-arm",
            (Self::Dnf, "qemu-system-arm") => "qemu-system-arm-core",
            (Self::Dnf, "qemu-system-aarch64") => "qemu-system-aarch64-core",
            (Self::Pacman, "qemu-system-arm") => "qemu-system-arm",
            (Self::Pacman, "qemu-system-aarch64") => "qemu-system-aarch64",
            (Self::Apt | Self::Dnf | Self::Pacman, "qemu-aarch64") => "qemu-user",
            (Self::Brew, "qemu-system-arm" | "qemu-system-aarch64") => "qemu",
            _ => return None,
        })
    }

    fn install_words(self) -> &'static [&'static str] {
        match self {
            Self::Apt => &["apt-get", "install", "--yes", "--no-install-recommends"],
            Self::Dnf => &["dnf", "install", "--assumeyes"],
            Self::Pacman => &["pacman", "--sync", "--needed", "--noconfirm"],
            Self::Brew => &["brew", "install"],
        }
    }
}

/// The packages that hold `programs`, each once.
pub(crate) fn packages_of(manager: Manager, programs: &[&str]) -> Result<Vec<&'static str>> {
    let mut packages = Vec::new();
    for program in programs {
        match manager.package_of(program) {
            Some(package) if !packages.contains(&package) => packages.push(package),
            Some(_) => {}
            None => bail!("install `{program}` by hand: no package of {manager:?} is known for it"),
        }
    }
    Ok(packages)
}

/// Installs the packages that hold `programs`, with sudo when not root.
///
/// # Errors
/// No known package manager, no way to become root (both say what to type), or it failed.
pub(crate) fn install(programs: &[&str]) -> Result<()> {
    let Some(manager) = Manager::detect() else {
        bail!(
            "no package manager that this knows (apt-get, dnf, pacman, brew): install {} by hand, \
             Debian calls the packages {}, then run `cargo xtask setup` again",
            programs.join(", "),
            packages_of(Manager::Apt, programs)?.join(" ")
        );
    };
    let packages = packages_of(manager, programs)?;
    let mut install = as_root(manager, &[manager.install_words(), &packages].concat())?;
    if manager != Manager::Apt {
        return run(&mut install);
    }
    // The lists may be missing or too old; refreshing them first would cost half a minute for
    // nothing where they are not.
    if !has_lists() || run(&mut install).is_err() {
        run(&mut as_root(manager, &["apt-get", "update"])?)?;
        run(&mut install)?;
    }
    Ok(())
}

fn has_lists() -> bool {
    fs::read_dir("/var/lib/apt/lists").is_ok_and(|mut entries| {
        entries
            .any(|entry| entry.is_ok_and(|e| e.file_name().to_string_lossy().contains("Packages")))
    })
}

/// `words` so that they may write to the system: Homebrew refuses root, the others want it.
fn as_root(manager: Manager, words: &[&str]) -> Result<Command> {
    let root = manager == Manager::Brew || is_root();
    let mut full: Vec<&str> = Vec::new();
    if !root {
        full.push("sudo");
    }
    if manager == Manager::Apt {
        // Through `env`, since sudo drops variables.
        full.extend(["env", "DEBIAN_FRONTEND=noninteractive"]);
    }
    full.extend(words);
    let command = command(full[0], &full[1..]);
    if !root && which("sudo").is_none() {
        bail!(
            "neither root nor sudo: run this as root, then `cargo xtask setup` again:\n  {}",
            shown(&command).trim_start_matches("sudo ")
        );
    }
    Ok(command)
}

fn is_root() -> bool {
    output(&mut command("id", ["-u"])).is_ok_and(|id| id.trim() == "0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_linux_manager_has_a_package_for_every_program() {
        let programs = ["qemu-system-arm", "qemu-system-aarch64", "qemu-aarch64"];
        for (manager, packages) in [
            (Manager::Apt, vec!["qemu-system-arm", "qemu-user"]),
            (
                Manager::Dnf,
                vec![
                    "qemu-system-arm-core",
                    "qemu-system-aarch64-core",
                    "qemu-user",
                ],
            ),
            (
                Manager::Pacman,
                vec!["qemu-system-arm", "qemu-system-aarch64", "qemu-user"],
            ),
        ] {
            assert_eq!(packages_of(manager, &programs).unwrap(), packages);
        }
        assert_eq!(
            packages_of(Manager::Brew, &programs[..2]).unwrap(),
            ["qemu"]
        );
        assert!(packages_of(Manager::Brew, &programs).is_err());
    }
}
