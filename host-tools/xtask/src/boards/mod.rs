//! The boards under `targets/`: building firmware for them and running it in QEMU.

mod bench;
mod firmware;
mod models;
mod run;
mod size;
mod test;

use anyhow::{Result, bail};

pub(crate) use bench::{Args as BenchArgs, run as bench};
pub(crate) use run::{Args as RunArgs, run};
pub(crate) use size::{Args as SizeArgs, run as size};
pub(crate) use test::{Args as TestArgs, check_all, run as test};

/// A board, or one of the ways to build for it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Board {
    /// What `--board` takes.
    pub(crate) name: &'static str,
    /// The folder under `targets/`.
    package: &'static str,
    target: &'static str,
    features: &'static [&'static str],
    /// Behind those of the package.
    rustflags: Option<&'static str>,
    qemu: &'static str,
    machine: &'static [&'static str],
    cpu: &'static str,
    /// Other values of `-cpu` that the same firmware runs on.
    other_cpus: &'static [&'static str],
    /// Whether its numbers are worth a row: not if it only differs by a check that is on.
    measured: bool,
}

const VIRT: Board = Board {
    name: "aarch64-virt",
    package: "aarch64-virt",
    target: "aarch64-unknown-none",
    features: &[],
    rustflags: None,
    qemu: "qemu-system-aarch64",
    // The network card would want a file that is not always installed.
    machine: &["-M", "virt", "-m", "128", "-nic", "none"],
    cpu: "cortex-a53",
    other_cpus: &["cortex-a72"],
    measured: true,
};

const MPS2: Board = Board {
    name: "mps2-an386",
    package: "mps2",
    target: "thumbv7em-none-eabihf",
    features: &["an386"],
    rustflags: None,
    qemu: "qemu-system-arm",
    machine: &["-M", "mps2-an386"],
    cpu: "cortex-m4",
    other_cpus: &[],
    measured: true,
};

pub(crate) const BOARDS: &[Board] = &[
    VIRT,
    Board {
        name: "aarch64-virt-dotprod",
        rustflags: Some("-C target-feature=+dotprod"),
        cpu: "cortex-a76",
        other_cpus: &["max"],
        ..VIRT
    },
    Board {
        name: "aarch64-virt-aligned",
        features: &["alignment-faults"],
        rustflags: Some("-C target-feature=+strict-align"),
        other_cpus: &[],
        measured: false,
        ..VIRT
    },
    MPS2,
    Board {
        name: "mps2-an500",
        features: &["an500"],
        machine: &["-M", "mps2-an500"],
        cpu: "cortex-m7",
        ..MPS2
    },
    Board {
        name: "mps2-an505",
        features: &["an505"],
        target: "thumbv8m.main-none-eabihf",
        machine: &["-M", "mps2-an505"],
        cpu: "cortex-m33",
        ..MPS2
    },
    Board {
        name: "mps3-an547",
        package: "mps3-an547",
        features: &[],
        target: "thumbv8m.main-none-eabihf",
        machine: &["-M", "mps3-an547"],
        cpu: "cortex-m55",
        ..MPS2
    },
];

/// The board of this name.
fn find(name: &str) -> Result<&'static Board> {
    match BOARDS.iter().find(|board| board.name == name) {
        Some(board) => Ok(board),
        None => {
            let names: Vec<_> = BOARDS.iter().map(|board| board.name).collect();
            bail!("no board `{name}`; there are {}", names.join(", "))
        }
    }
}

/// The boards of these names, or all.
fn choose(names: &[String]) -> Result<Vec<&'static Board>> {
    if names.is_empty() {
        return Ok(BOARDS.iter().collect());
    }
    names.iter().map(|name| find(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::root;

    #[test]
    fn every_board_has_a_package_and_a_name_of_its_own() {
        for (at, board) in BOARDS.iter().enumerate() {
            let package = root().join("targets").join(board.package);
            assert!(package.join("Cargo.toml").is_file(), "{}", board.name);
            assert!(package.join(".cargo/config.toml").is_file());
            assert_eq!(find(board.name).unwrap(), board);
            assert!(BOARDS[..at].iter().all(|other| other.name != board.name));
        }
        let error = find("nothing").unwrap_err().to_string();
        assert!(error.contains("mps2-an386"), "{error}");
    }
}
