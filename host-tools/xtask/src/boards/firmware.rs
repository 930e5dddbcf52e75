//! One firmware: built for a board with a model, and run in QEMU.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result};
use smidgen_core::gguf::Gguf;
use smidgen_core::quant::activation_kind;
use smidgen_core::session::SessionOptions;
use smidgen_plan::Image;

use super::Board;
use super::segments::{flat, segments};
use crate::process::{self, cargo, end_within, output_within, root, shown};

/// A story takes some seconds in QEMU, on a machine with other work several times as many.
const LIMIT: Duration = Duration::from_secs(120);

/// A program under `targets/*/src/bin`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Program {
    Story,
    SelfTest,
    Bench,
    /// A story on the serial port, which then is silent.
    Serial,
    /// Without an end; the model is flashed apart.
    Console,
}

impl Program {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Story => "story",
            Self::SelfTest => "self-test",
            Self::Bench => "bench",
            Self::Serial => "serial",
            Self::Console => "console",
        }
    }
}

impl Program {
    /// The feature that it needs where a board has both ways to talk.
    fn feature(self) -> &'static str {
        match self {
            Self::Console => "console",
            Self::Serial => "serial",
            Self::Story | Self::SelfTest | Self::Bench => "semihosting",
        }
    }
}

/// What a firmware is built from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Source<'a> {
    pub(super) board: Board,
    pub(super) model: &'a Path,
    pub(super) options: SessionOptions,
    /// The only back end of a story.
    pub(super) backend: Option<&'a str>,
}

/// A built firmware.
#[derive(Clone, Debug)]
pub(super) struct Firmware {
    board: Board,
    pub(super) elf: PathBuf,
}

impl<'a> Source<'a> {
    /// Run as the board's row says.
    pub(super) fn new(board: Board, model: &'a Path) -> Self {
        Self {
            board,
            model,
            options: board.row.options,
            backend: board.row.firmware.backend,
        }
    }

    /// With a back end of this name in the story, or if none is given, the board's own.
    pub(super) fn with_backend(self, name: Option<&'a str>) -> Self {
        Self {
            backend: self.backend.map(|own| name.unwrap_or(own)),
            ..self
        }
    }

    /// Builds a program; it lies where the next build does not overwrite it.
    ///
    /// # Errors
    /// It does not build, also because model and cache do not fit the board.
    pub(super) fn build(&self, program: Program) -> Result<Firmware> {
        self.build_with(program, &[])
    }

    /// Builds a program with features beside those of the board.
    ///
    /// # Errors
    /// As for [`build`](Self::build).
    pub(super) fn build_with(&self, program: Program, features: &[&str]) -> Result<Firmware> {
        let board = self.board;
        let built_by = board.row.firmware;
        let name = program.name();
        let dir = root().join("targets").join(built_by.package);
        let mut build = cargo(["build", "--quiet", "--release", "--locked"]);
        build.args(["--target", built_by.target, "--bin", name]);
        let of_board = built_by.features.iter().chain(board.features);
        for feature in of_board.chain(features) {
            build.args(["--features", feature]);
        }
        if built_by.has_console {
            build.args(["--features", program.feature()]);
        }
        if built_by.has_serial {
            build.args(["--no-default-features", "--features", program.feature()]);
        }
        let SessionOptions {
            kv, window, ring, ..
        } = self.options;
        let types = weight_types(self.model)?.join(",");
        build.env("SMIDGEN_TYPES", &types);
        build.env("SMIDGEN_KV_TYPES", kv.name());
        // Other programs compare the back ends, or may be asked for each.
        let tells = matches!(program, Program::Story | Program::Serial);
        let backend = self.backend.filter(|_| tells);
        build.env("SMIDGEN_BACKEND", backend.unwrap_or_default());
        // Core is another for each set of types: a folder for each keeps what is built.
        let folder = process::target_dir().join("firmware");
        let of_core = [types.replace(',', "-"), kv.name().to_owned()];
        let of_core = of_core.into_iter().chain(backend.map(str::to_owned));
        let of_core: Vec<_> = of_core.collect();
        let target_dir = folder.join(of_core.join("-"));
        build.arg("--target-dir").arg(&target_dir);
        build.env("SMIDGEN_MODEL", self.model.canonicalize()?);
        build.env("SMIDGEN_KV", kv.name());
        build.env("SMIDGEN_WINDOW", window.to_string());
        build.env("SMIDGEN_RING", if ring { "1" } else { "0" });
        if let Some(flags) = board.rustflags {
            let target = built_by.target.to_uppercase().replace(['-', '.'], "_");
            build.env(format!("CARGO_TARGET_{target}_RUSTFLAGS"), flags);
        }
        let limit = Duration::from_secs(1200);
        output_within(build.current_dir(dir), limit).with_context(|| shown(&build))?;

        let built = target_dir.join(built_by.target).join("release").join(name);
        let model = self.model.file_stem().unwrap_or_default();
        let model = model.to_string_lossy();
        let kv = kv.name();
        let mut file = format!("{}-{name}", board.name);
        let parts = [&*model, kv].into_iter().chain(backend);
        for part in features.iter().copied().chain(parts) {
            file += &format!("-{part}");
        }
        let elf = folder.join(file + ".elf");
        fs::copy(&built, &elf).with_context(|| format!("cannot copy {}", built.display()))?;
        Ok(Firmware { board, elf })
    }
}

/// The types of the matrices in a GGUF file. None are found in one that is no GGUF, which then is
/// for the firmware to say.
///
/// # Errors
/// It cannot be read.
fn weight_types(model: &Path) -> Result<Vec<String>> {
    let bytes = fs::read(model).with_context(|| model.display().to_string())?;
    let mut scratch = vec![0; Gguf::scratch_len(&bytes)];
    let gguf = Gguf::parse(&bytes, &mut scratch).ok();
    let tensors = gguf.iter().flat_map(Gguf::tensors);
    let matrices = tensors.filter(|tensor| tensor.dims().len() > 1);
    let multiplied = matrices.filter(|matrix| activation_kind(matrix.ty()).is_some());
    let mut types: Vec<_> = multiplied.map(|matrix| matrix.ty().to_string()).collect();
    types.sort();
    types.dedup();
    Ok(types)
}

impl Firmware {
    /// The command that starts it in QEMU; `words` are the program's arguments. Every instruction
    /// takes a nanosecond of the board's time.
    ///
    /// # Errors
    /// QEMU has no such board.
    pub(super) fn command(&self, cpu: Option<&str>, words: &[&str]) -> Result<Command> {
        let mut qemu = self.qemu(cpu)?;
        qemu.args(["-serial", "none", "-chardev", "stdio,id=console"]);
        let mut semihosting = "enable=on,target=native,chardev=console,arg=smidgen".to_owned();
        for word in words {
            semihosting += ",arg=";
            semihosting += &word.replace(',', ",,");
        }
        qemu.args(["-semihosting-config", &semihosting]);
        qemu.arg("-kernel").arg(&self.elf);
        Ok(qemu)
    }

    /// The command that starts it in QEMU with its serial port on stdin and stdout.
    ///
    /// # Errors
    /// QEMU has no such board.
    pub(super) fn serial_command(&self) -> Result<Command> {
        let mut qemu = self.qemu(None)?;
        qemu.args(["-serial", "stdio"])
            .arg("-kernel")
            .arg(&self.elf);
        Ok(qemu)
    }

    /// The command that starts a console in QEMU, on the serial port that `-serial` names, with the
    /// bytes of a file in the model's flash.
    ///
    /// # Errors
    /// QEMU has no such board.
    pub(super) fn console_command(&self, image: &Path, serial: &str) -> Result<Command> {
        let mut qemu = self.qemu(None)?;
        qemu.args(["-serial", serial]).arg("-kernel");
        if self.board.row.firmware.image == Image::Kernel8 {
            // As the boot loader starts it.
            let kernel = self.elf.with_extension("img");
            fs::write(&kernel, flat(&segments(&fs::read(&self.elf)?)?)?)?;
            qemu.arg(kernel);
        } else {
            qemu.arg(&self.elf);
        }
        let mut loader = OsString::from("loader,file=");
        loader.push(image);
        let address = self.board.row.memory.model.origin;
        loader.push(format!(",addr={address:#x},force-raw=on"));
        qemu.arg("-device").arg(loader);
        Ok(qemu)
    }

    fn qemu(&self, cpu: Option<&str>) -> Result<Command> {
        let board = self.board;
        let machine = board.row.qemu;
        let machine = machine.with_context(|| {
            let name = board.name;
            format!(
                "QEMU has no {name}; for a real one there is `cargo xtask flash --board {name}`"
            )
        })?;
        let mut qemu = process::command(machine.program, machine.machine);
        if let Some(cpu) = cpu.or(board.cpu) {
            qemu.args(["-cpu", cpu]);
        }
        qemu.args(["-display", "none", "-monitor", "none", "-icount", "shift=0"]);
        Ok(qemu)
    }

    /// The same with other bytes, which lie beside it under a name of their own.
    ///
    /// # Errors
    /// They cannot be written.
    pub(super) fn with_bytes(&self, name: &str, bytes: &[u8]) -> Result<Self> {
        let elf = self.elf.with_extension(format!("{name}.elf"));
        fs::write(&elf, bytes).with_context(|| format!("cannot write {}", elf.display()))?;
        Ok(Self {
            board: self.board,
            elf,
        })
    }

    /// The exit status, and what it prints.
    ///
    /// # Errors
    /// It does not end in time, or is ended by a signal; with what it printed.
    pub(super) fn ends(&self) -> Result<(i32, String)> {
        let mut command = self.command(None, &[])?;
        let (status, text) = end_within(&mut command, LIMIT).with_context(|| shown(&command))?;
        let code = status.code();
        Ok((code.with_context(|| format!("{status}\n{text}"))?, text))
    }

    /// What it prints.
    ///
    /// # Errors
    /// It does not end in time, or with another exit status than 0; with what it printed.
    pub(super) fn output(&self, cpu: Option<&str>, words: &[&str]) -> Result<String> {
        let mut command = self.command(cpu, words)?;
        output_within(&mut command, LIMIT).with_context(|| shown(&command))
    }
}
