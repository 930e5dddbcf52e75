//! `cargo xtask flash`: console and model onto a real board, or into files to be copied there.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail, ensure};
use smidgen_plan::Image;

use super::firmware::{Firmware, Program, Source};
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
    if !board.row.firmware.has_console {
        bail!("{} is only there in QEMU: cargo xtask run", board.name);
    }
    let model = match &args.model {
        Some(model) => model.clone(),
        None => models::default(board)?,
    };
    let image = pack::image(&model)?;
    let room = board.row.memory.model.len;
    ensure!(
        image.len() as u64 <= room,
        "{}: the model takes {} bytes, {} has {room} for it",
        model.display(),
        image.len(),
        board.name
    );
    let firmware = Source::new(board, &model).build(Program::Console)?;
    let folder = args.output.clone();
    let folder = folder.unwrap_or_else(|| target_dir().join("flash").join(board.name));
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    if board.row.firmware.image == Image::Elf {
        return by_debugger(board, &firmware, &folder, &image);
    }
    for (name, bytes, words) in files(board, &firmware, image)? {
        let path = folder.join(name);
        pack::write(&path, &bytes, true)?;
        println!("{} ({} bytes): {words}", path.display(), bytes.len());
    }
    Ok(ExitCode::SUCCESS)
}

/// Files with their names, and what to do with them.
fn files(
    board: Board,
    firmware: &Firmware,
    image: Vec<u8>,
) -> Result<Vec<(&'static str, Vec<u8>, String)>> {
    let address = board.row.memory.model.origin;
    let mut all = segments(&fs::read(&firmware.elf)?)?;
    let kernel = flat(&all)?;
    all.push(Segment {
        address,
        bytes: image.clone(),
    });
    check(&mut all)?;
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

/// By probe-rs, or by what it says to type.
fn by_debugger(board: Board, firmware: &Firmware, folder: &Path, image: &[u8]) -> Result<ExitCode> {
    let path = folder.join("model.img");
    pack::write(&path, image, true)?;
    let chip = board.row.firmware.probe.context("no name for probe-rs")?;
    let address = format!("{:#x}", board.row.memory.model.origin);
    let mut model = command("probe-rs", ["download", "--chip", chip]);
    model
        .args(["--binary-format", "bin", "--base-address", &address])
        .arg(&path);
    let mut code = command("probe-rs", ["download", "--chip", chip]);
    code.arg(&firmware.elf);
    let mut reset = command("probe-rs", ["reset", "--chip", chip]);
    if which("probe-rs").is_none() {
        eprintln!("xtask: probe-rs is not here: `cargo install probe-rs-tools --locked`, then");
        for command in [&model, &code, &reset] {
            println!("{}", shown(command));
        }
        return Ok(ExitCode::from(2));
    }
    for command in [&mut model, &mut code, &mut reset] {
        run_command(command)?;
    }
    Ok(ExitCode::SUCCESS)
}
