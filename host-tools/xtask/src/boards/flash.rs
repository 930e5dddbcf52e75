//! `cargo xtask flash`: console and model onto a real board, or into files to be copied there. Boards
//! without a console get the program that tells a story to the debugger.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail, ensure};
use smidgen_plan::Image;

use super::firmware::{Program, Source};
use super::segments::{Segment, check, flat, segments};
use super::{Board, find, hex, models, pack, uf2};
use crate::process::{command, run as run_command, shown, target_dir, which};

/// Arguments of `cargo xtask flash`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The board.
    #[arg(long, value_name = "BOARD")]
    board: String,
    /// The GGUF [default: stories260K from the shared test material, else the one that
    /// ships with the project].
    #[arg(long, value_name = "GGUF")]
    model: Option<PathBuf>,
    /// The folder for the files to be copied.
    #[arg(short, long, value_name = "FOLDER")]
    output: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let board = find(&args.board)?;
    let built_by = board.row.firmware;
    if !built_by.has_console && !built_by.has_serial {
        bail!("{} is only there in QEMU: cargo xtask run", board.name);
    }
    let model = match &args.model {
        Some(model) => model.clone(),
        None => models::default(board)?,
    };
    let source = Source::new(board, &model);
    let folder = args.output.clone();
    let folder = folder.unwrap_or_else(|| target_dir().join("flash").join(board.name));
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    if built_by.has_serial {
        let elf = fs::read(source.build(Program::Serial)?.elf)?;
        return write_files(&folder, files(board, &elf, None)?);
    }
    let image = pack::image(&model)?;
    let room = board.row.memory.model.len;
    ensure!(
        image.len() as u64 <= room,
        "{}: the model takes {} bytes, {} has {room} for it",
        model.display(),
        image.len(),
        board.name
    );
    let firmware = source.build(Program::Console)?;
    if built_by.image == Image::Elf {
        let path = folder.join("model.img");
        pack::write(&path, &image, true)?;
        return by_debugger(which("probe-rs").as_deref(), board, &firmware.elf, &path);
    }
    let elf = fs::read(&firmware.elf)?;
    write_files(&folder, files(board, &elf, Some(image))?)
}

/// Writes files and says what to do with them.
fn write_files(folder: &Path, files: Vec<(&str, Vec<u8>, String)>) -> Result<ExitCode> {
    for (name, bytes, words) in files {
        let path = folder.join(name);
        pack::write(&path, &bytes, true)?;
        println!("{} ({} bytes): {words}", path.display(), bytes.len());
    }
    Ok(ExitCode::SUCCESS)
}

/// Files with their names, and what to do with them, for a board that takes files; with the image of a
/// model where that is flashed apart.
///
/// # Errors
/// The ELF file of the firmware is none, or reaches into the model's part of the memory.
pub(super) fn files(
    board: Board,
    elf: &[u8],
    image: Option<Vec<u8>>,
) -> Result<Vec<(&'static str, Vec<u8>, String)>> {
    let address = board.row.memory.model.origin;
    let mut all = segments(elf)?;
    let kernel = flat(&all)?;
    let bytes = image.clone();
    all.extend(bytes.map(|bytes| Segment { address, bytes }));
    check(&mut all)?;
    let image = image.unwrap_or_default();
    Ok(match board.row.firmware.image {
        Image::Elf => Vec::new(),
        Image::Kernel8 => {
            let config = format!(
                "arm_64bit=1\ninit_uart_clock=48000000\ninitramfs model.img {address:#010x}\n"
            );
            let copy = "copy it to the card's boot partition".to_owned();
            vec![
                ("kernel8.img", kernel, copy.clone()),
                ("model.img", image, copy),
                (
                    "config.txt",
                    config.into_bytes(),
                    "add its lines to the config.txt that is there".to_owned(),
                ),
            ]
        }
        Image::Uf2(family) => vec![(
            "smidgen.uf2",
            uf2::uf2(&all, family)?,
            "plug the board in with BOOTSEL held, and copy it to the drive that appears".to_owned(),
        )],
        Image::Hex => vec![(
            "smidgen.hex",
            hex::hex(&all)?.into_bytes(),
            "plug the board in, and copy it to the drive that appears".to_owned(),
        )],
    })
}

/// By probe-rs: the model, the program, and a start. Without probe-rs, the commands are told.
///
/// # Errors
/// probe-rs fails.
fn by_debugger(
    probe_rs: Option<&Path>,
    board: Board,
    elf: &Path,
    image: &Path,
) -> Result<ExitCode> {
    let chip = board.row.firmware.probe.context("no name for probe-rs")?;
    let program = probe_rs.unwrap_or(Path::new("probe-rs")).to_string_lossy();
    let step = |name: &str| command(&program, [name, "--chip", chip]);
    let address = format!("{:#x}", board.row.memory.model.origin);
    let mut model = step("download");
    model.args(["--binary-format", "bin", "--base-address", &address]);
    model.arg(image);
    let mut code = step("download");
    code.arg(elf);
    let mut steps = [model, code, step("reset")];
    if probe_rs.is_none() {
        eprintln!("xtask: probe-rs is not here: `cargo install probe-rs-tools --locked`, then");
        for step in &steps {
            println!("{}", shown(step));
        }
        return Ok(ExitCode::from(2));
    }
    for step in &mut steps {
        run_command(step).context(
            "probe-rs did not do it: is the probe plugged in, and the board? \
             `probe-rs list` shows the probes",
        )?;
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// By a probe-rs that writes its arguments to a file and ends with a status.
    fn flash(board: &str, status: u8) -> (Result<ExitCode>, String) {
        let folder = tempfile::tempdir().unwrap();
        let (probe, log) = (folder.path().join("probe-rs"), folder.path().join("log"));
        let script = format!(
            "#!/bin/sh\necho \"$@\" >> '{}'\nexit {status}\n",
            log.display()
        );
        fs::write(&probe, script).unwrap();
        fs::set_permissions(&probe, fs::Permissions::from_mode(0o755)).unwrap();
        let board = find(board).unwrap();
        let done = by_debugger(
            Some(&probe),
            board,
            Path::new("a b.elf"),
            Path::new("model.img"),
        );
        (done, fs::read_to_string(log).unwrap())
    }

    #[test]
    fn a_debugger_writes_the_model_and_the_program_and_starts_it() {
        let (done, log) = flash("stm32f405", 0);
        assert_eq!(done.unwrap(), ExitCode::SUCCESS);
        let expected = [
            "download --chip STM32F405RGTx --binary-format bin --base-address 0x8040000 model.img",
            "download --chip STM32F405RGTx a b.elf",
            "reset --chip STM32F405RGTx",
        ];
        assert_eq!(log.lines().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_debugger_that_fails_ends_it_with_a_hint() {
        let (done, log) = flash("stm32f405", 1);
        let error = format!("{:#}", done.unwrap_err());
        assert_eq!(log.lines().count(), 1, "{log}");
        assert!(
            error.contains("`probe-rs list` shows the probes"),
            "{error}"
        );
    }

    #[test]
    fn without_a_debugger_the_status_is_that_of_a_failure() {
        let board = find("stm32f405").unwrap();
        let done = by_debugger(None, board, Path::new("a.elf"), Path::new("model.img"));
        assert_eq!(done.unwrap(), ExitCode::from(2));
    }
}
