//! `cargo xtask talk`: a board's console in QEMU, and typing at it by program.

use std::fs;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitCode, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use super::firmware::{Firmware, Program, Source};
use super::{find, models, pack};
use crate::process::{shown, target_dir};

/// Arguments of `cargo xtask talk`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The board: one with a console.
    #[arg(long, value_name = "BOARD")]
    board: String,
    /// The GGUF [default: stories260K from the shared test material, else the one that
    /// ships with the project].
    #[arg(long, value_name = "GGUF")]
    model: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let board = find(&args.board)?;
    if !board.row.firmware.has_console {
        bail!(
            "{name} has no console: cargo xtask run --board {name}",
            name = board.name
        );
    }
    let model = match &args.model {
        Some(model) => model.clone(),
        None => models::default(board)?,
    };
    let firmware = Source::new(board, &model).build(Program::Console)?;
    let name = format!("{}.img", board.name);
    let image = write_image(&target_dir().join("models"), &name, &pack::image(&model)?)?;
    // Ctrl-C is for the board; Ctrl-A is QEMU's.
    let mut command = firmware.console_command(&image, "mon:stdio")?;
    eprintln!("$ {}\nCtrl-A X ends it", shown(&command));
    let status = command.status();
    let status = status.with_context(|| format!("cannot start `{}`", shown(&command)))?;
    Ok(if status.success() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(2)
    })
}

/// A story takes some seconds in QEMU, on a machine with other work several times as many.
const LIMIT: Duration = Duration::from_secs(120);

/// A board whose serial port is ours. QEMU ends with it.
#[derive(Debug)]
pub(super) struct Talk {
    qemu: Child,
    keys: ChildStdin,
    screen: Arc<Screen>,
    /// Bytes of the screen that have been looked at.
    seen: usize,
}

/// What the board has sent.
#[derive(Debug, Default)]
struct Screen {
    text: Mutex<(Vec<u8>, bool)>,
    grown: Condvar,
}

impl Talk {
    /// Starts a console firmware with `image` in the model's flash.
    ///
    /// # Errors
    /// QEMU cannot be started.
    pub(super) fn start(firmware: &Firmware, image: &Path) -> Result<Self> {
        Self::with(firmware.console_command(image, "stdio")?)
    }

    /// Listens to the serial port of a firmware.
    ///
    /// # Errors
    /// QEMU cannot be started.
    pub(super) fn listen(firmware: &Firmware) -> Result<Self> {
        Self::with(firmware.serial_command()?)
    }

    fn with(mut command: Command) -> Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut qemu = command
            .spawn()
            .with_context(|| format!("cannot start `{}`", shown(&command)))?;
        let keys = qemu.stdin.take().context("no stdin")?;
        let mut out = qemu.stdout.take().context("no stdout")?;
        let screen = Arc::new(Screen::default());
        let shared = Arc::clone(&screen);
        std::thread::spawn(move || {
            let mut bytes = [0; 1024];
            loop {
                let read = out.read(&mut bytes).unwrap_or(0);
                let Ok(mut text) = shared.text.lock() else {
                    return;
                };
                text.0.extend_from_slice(&bytes[..read]);
                text.1 = read == 0;
                shared.grown.notify_all();
                if read == 0 {
                    return;
                }
            }
        });
        Ok(Self {
            qemu,
            keys,
            screen,
            seen: 0,
        })
    }

    /// Types.
    ///
    /// # Errors
    /// QEMU has ended.
    pub(super) fn keys(&mut self, keys: &[u8]) -> Result<()> {
        self.keys.write_all(keys)?;
        Ok(self.keys.flush()?)
    }

    /// Waits until `words` are shown, and gives what was shown up to their end since the last call,
    /// with LF for CR LF.
    ///
    /// # Errors
    /// They do not come in time, or QEMU ends before; with what came.
    pub(super) fn wait(&mut self, words: &str) -> Result<String> {
        let start = Instant::now();
        let mut text = self.screen.text.lock().ok().context("a thread panicked")?;
        loop {
            let new = text.0.get(self.seen..).unwrap_or_default();
            let found = new.windows(words.len()).position(|w| w == words.as_bytes());
            let shown = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace("\r\n", "\n");
            if let Some(at) = found {
                let end = at + words.len();
                self.seen += end;
                return Ok(shown(&new[..end]));
            }
            let left = LIMIT.saturating_sub(start.elapsed());
            if text.1 || left.is_zero() {
                let why = if text.1 { "QEMU ended" } else { "too long" };
                bail!("{why}: no `{words}` in\n{}", shown(new));
            }
            let waited = self.screen.grown.wait_timeout(text, left);
            text = waited.ok().context("a thread panicked")?.0;
        }
    }

    /// Types a line, and gives what is shown behind its echo up to the next prompt.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    pub(super) fn line(&mut self, line: &str) -> Result<String> {
        self.keys(line.as_bytes())?;
        self.keys(b"\r")?;
        self.wait(&format!("{line}\r\n"))?;
        let answer = self.wait("\r\n> ")?;
        Ok(answer.strip_suffix("> ").unwrap_or(&answer).to_owned())
    }
}

impl Drop for Talk {
    fn drop(&mut self) {
        let _ = self.qemu.kill();
        let _ = self.qemu.wait();
    }
}

/// Writes an image for a board, which may be wrong on purpose.
pub(super) fn write_image(folder: &Path, name: &str, bytes: &[u8]) -> Result<PathBuf> {
    fs::create_dir_all(folder)?;
    let path = folder.join(name);
    fs::write(&path, bytes).with_context(|| path.display().to_string())?;
    Ok(path)
}
