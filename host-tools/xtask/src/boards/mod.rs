//! The boards under `targets/`: building firmware for them and running it in QEMU.

mod bench;
mod firmware;
mod flash;
mod hex;
mod models;
mod pack;
mod run;
mod segments;
mod size;
mod talk;
mod test;
mod test_console;
mod test_files;
mod uf2;
mod wrong_models;

use anyhow::{Result, bail};
use smidgen_core::kv_cache::KvType;
use smidgen_core::session::SessionOptions;

pub(crate) use bench::{Args as BenchArgs, run as bench};
pub(crate) use flash::{Args as FlashArgs, run as flash};
pub(crate) use pack::{Args as PackArgs, run as pack};
pub(crate) use run::{Args as RunArgs, run};
pub(crate) use size::{Args as SizeArgs, run as size};
pub(crate) use talk::{Args as TalkArgs, run as talk};
pub(crate) use test::{Args as TestArgs, check_all, run as test};

/// A board, or one of the ways to build for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Board {
    /// What `--board` takes.
    pub(crate) name: &'static str,
    /// Its row in the table.
    row: &'static smidgen_plan::Board,
    /// Beside those of the row.
    features: &'static [&'static str],
    /// Behind those of the package.
    rustflags: Option<&'static str>,
    /// The value of `-cpu`.
    cpu: Option<&'static str>,
    /// Others that the same firmware runs on.
    other_cpus: &'static [&'static str],
    /// Whether its numbers are worth a row: not if it only differs by a check that is on.
    measured: bool,
}

/// All boards of the table, and other ways to build for some of them.
pub(crate) fn all() -> Vec<Board> {
    let mut boards = Vec::new();
    for row in smidgen_plan::BOARDS {
        let board = Board {
            name: row.name,
            row,
            features: &[],
            rustflags: None,
            cpu: row.qemu.and_then(|qemu| qemu.cpu),
            other_cpus: &[],
            measured: true,
        };
        if row.name == "rp2350" {
            boards.push(Board {
                name: "rp2350-staged",
                features: &["staged"],
                measured: false,
                ..board
            });
        }
        if row.name != "aarch64-virt" {
            boards.push(board);
            continue;
        }
        boards.push(Board {
            other_cpus: &["cortex-a72"],
            ..board
        });
        boards.push(Board {
            name: "aarch64-virt-dotprod",
            rustflags: Some("-C target-feature=+dotprod"),
            cpu: Some("cortex-a76"),
            other_cpus: &["max"],
            ..board
        });
        boards.push(Board {
            name: "aarch64-virt-aligned",
            features: &["alignment-faults"],
            rustflags: Some("-C target-feature=+strict-align"),
            measured: false,
            ..board
        });
    }
    boards
}

/// The board of this name.
fn find(name: &str) -> Result<Board> {
    let boards = all();
    match boards.iter().find(|board| board.name == name) {
        Some(board) => Ok(*board),
        None => {
            let names: Vec<_> = boards.iter().map(|board| board.name).collect();
            bail!("no board `{name}`; there are {}", names.join(", "))
        }
    }
}

/// How a firmware is to keep keys and values, if not as its board's row says.
#[derive(Debug, clap::Args)]
pub(crate) struct KvArgs {
    /// How keys and values are stored: f32, f16, q8, q8row [default: the board's].
    #[arg(long, value_parser = kv_type)]
    kv: Option<KvType>,
    /// Positions that are kept [default: the board's].
    #[arg(long)]
    window: Option<usize>,
    /// Go on when they are full: the oldest make room.
    #[arg(long)]
    ring: bool,
}

impl KvArgs {
    fn options(&self, board: Board) -> SessionOptions {
        let row = board.row.options;
        SessionOptions {
            kv: self.kv.unwrap_or(row.kv),
            window: self.window.unwrap_or(row.window),
            ring: self.ring || row.ring,
            ..row
        }
    }
}

fn kv_type(name: &str) -> Result<KvType, String> {
    KvType::from_name(name).ok_or_else(|| "there are f32, f16, q8, q8row".to_owned())
}

/// The boards of these names, or all.
fn choose(names: &[String]) -> Result<Vec<Board>> {
    if names.is_empty() {
        return Ok(all());
    }
    names.iter().map(|name| find(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::root;

    #[test]
    fn every_board_has_a_package_and_a_name_of_its_own() {
        let boards = all();
        for (at, board) in boards.iter().enumerate() {
            let package = root().join("targets").join(board.row.firmware.package);
            assert!(package.join("Cargo.toml").is_file(), "{}", board.name);
            assert!(package.join(".cargo/config.toml").is_file());
            assert_eq!(find(board.name).unwrap(), *board);
            assert!(boards[..at].iter().all(|other| other.name != board.name));
        }
        let error = find("nothing").unwrap_err().to_string();
        assert!(error.contains("mps2-an386"), "{error}");
    }
}
