//! `cargo xtask bench convert`: time and memory of `smidgen convert`, beside a copy of the same
//! file.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

use anyhow::{Result, bail, ensure};

use super::measure::{kib, median, mib, timed};
use crate::build;
use crate::process::{shown, target_dir};

/// Resident memory beyond the mapping of the checkpoint, in bytes.
const MEMORY_LIMIT: u64 = 64 << 20;

/// Time of the conversion by that of the copy.
const TIME_LIMIT: f64 = 1.5;

const ROUNDS: usize = 5;

const DIM: u32 = 1024;
const HIDDEN: u32 = 2560;
const LAYERS: u32 = 8;
const HEADS: u32 = 16;
const VOCAB: u32 = 4096;
const CONTEXT: u32 = 256;

/// Converts a checkpoint of 400 MB and copies it, in turns. Exits with 1 beyond a limit.
///
/// # Errors
/// Something could not be run or read; there is no `/proc`.
pub(crate) fn run() -> Result<ExitCode> {
    ensure!(
        Path::new("/proc/self/smaps").exists(),
        "memory is measured by /proc/PID/smaps, which is not here"
    );
    let smidgen = build::smidgen()?;
    // Not in the system's temporary folder: that may be memory, which no copy is measured by.
    let folder = tempfile::tempdir_in(target_dir())?;
    let path = |name: &str| folder.path().join(name);
    let (model, vocab) = (path("model.bin"), path("tokenizer.bin"));
    let len = write_checkpoint(&model)?;
    write_tokenizer(&vocab)?;
    let convert = |ty: &str| {
        let mut command = Command::new(&smidgen);
        command.args(["convert", "--quiet", "--type", ty]);
        command.arg(&model).arg("--vocab").arg(&vocab);
        command.arg("-o").arg(path("out.gguf"));
        command
    };
    let copy = || {
        let mut command = Command::new("sh");
        command.args(["-c", "cp --reflink=never \"$0\" \"$1\" && sync \"$1\""]);
        command.arg(&model).arg(path("copy.bin"));
        command
    };
    println!("a checkpoint of {len} bytes in {}", folder.path().display());

    let mut times = [const { Vec::new() }; 4];
    let mut memory = Memory::default();
    for round in 0..=ROUNDS {
        let mut commands = [copy(), convert("f32"), convert("f16"), convert("bf16")];
        for turn in 0..commands.len() {
            // Nobody always comes after the same other.
            let at = (turn + round) % commands.len();
            let (command, times) = (&mut commands[at], &mut times[at]);
            let time = timed(command)?;
            // The first round warms the page cache.
            if round > 0 {
                times.push(time);
            }
            for name in ["copy.bin", "out.gguf"] {
                let _ = fs::remove_file(path(name));
            }
        }
    }
    for ty in ["f32", "f16", "bf16"] {
        memory.watch(&mut convert(ty), &model)?;
        fs::remove_file(path("out.gguf"))?;
    }

    let [copy, f32, f16, bf16] = times.map(median);
    let ratio = |time: Duration| time.as_secs_f64() / copy.as_secs_f64();
    let line = |name: &str, time: Duration, note: &str| {
        println!(
            "{name:<28} {:>7.3} s  {:>5.2}x{note}",
            time.as_secs_f64(),
            ratio(time)
        );
    };
    println!("median of {ROUNDS} rounds:");
    line("cp --reflink=never, sync", copy, "");
    line(
        "convert --type f32",
        f32,
        &format!("  (at most {TIME_LIMIT:.2}x)"),
    );
    line("convert --type f16", f16, "");
    line("convert --type bf16", bf16, "");
    println!(
        "resident beyond the mapping: {:.1} MiB (at most {} MiB; {} samples); with it {:.1} MiB",
        mib(memory.beyond),
        MEMORY_LIMIT >> 20,
        memory.samples,
        mib(memory.peak),
    );
    let good = ratio(f32) <= TIME_LIMIT && memory.beyond <= MEMORY_LIMIT;
    if !good {
        println!("beyond a limit");
    }
    Ok(ExitCode::from(u8::from(!good)))
}

/// What was seen of a process's resident memory, in bytes.
#[derive(Debug, Default)]
struct Memory {
    /// The most without the pages of the mapped input.
    beyond: u64,
    /// The most with them, as the kernel keeps it.
    peak: u64,
    samples: u32,
}

impl Memory {
    /// Runs `command` to its end and looks at it every millisecond.
    fn watch(&mut self, command: &mut Command, input: &Path) -> Result<()> {
        let mut child = command.stdin(Stdio::null()).spawn()?;
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break status;
            }
            self.sample(&child, input);
            std::thread::sleep(Duration::from_millis(1));
        };
        ensure!(status.success(), "`{}`: {status}", shown(command));
        ensure!(
            self.samples > 0,
            "the command was gone before it could be looked at"
        );
        Ok(())
    }

    /// Adds one look; a process that has just ended adds nothing.
    fn sample(&mut self, child: &Child, input: &Path) {
        let proc = Path::new("/proc").join(child.id().to_string());
        let read = |name| fs::read_to_string(proc.join(name)).unwrap_or_default();
        let (maps, status) = (read("smaps"), read("status"));
        let mut of_input = false;
        let mut beyond = 0;
        for line in maps.lines() {
            let kib = line.strip_prefix("Rss:").map(kib);
            match kib {
                Some(kib) if !of_input => beyond += kib,
                Some(_) => {}
                // The first line of an entry ends in the path; the others begin with a name.
                None if !line.split(' ').next().is_some_and(|w| w.ends_with(':')) => {
                    of_input = line.ends_with(&*input.to_string_lossy());
                }
                None => {}
            }
        }
        if beyond > 0 {
            self.samples += 1;
        }
        self.beyond = self.beyond.max(beyond);
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        self.peak = self.peak.max(peak.map_or(0, kib));
    }
}

/// Writes a legacy checkpoint with a shared classifier and returns its length.
fn write_checkpoint(path: &Path) -> Result<u64> {
    let mut file = BufWriter::with_capacity(1 << 20, File::create(path)?);
    for field in [DIM, HIDDEN, LAYERS, HEADS, HEADS, VOCAB, CONTEXT] {
        file.write_all(&field.to_le_bytes())?;
    }
    let [dim, hidden, layers, heads, vocab, context] =
        [DIM, HIDDEN, LAYERS, HEADS, VOCAB, CONTEXT].map(u64::from);
    let layer = 4 * dim * dim + 3 * dim * hidden + 2 * dim;
    let floats = vocab * dim + layers * layer + dim + context * (dim / heads);
    // Any numbers below 1 will do; these do not compress.
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    for _ in 0..floats {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let [a, b, c, ..] = state.to_le_bytes();
        file.write_all(&[a, b, c & 0x7f, 0x3d])?;
    }
    let file = file.into_inner()?;
    file.sync_all()?;
    let len = file.metadata()?.len();
    if len != 28 + 4 * floats {
        bail!("{} has {len} bytes", path.display());
    }
    Ok(len)
}

/// Writes a `tokenizer.bin` for it.
fn write_tokenizer(path: &Path) -> Result<()> {
    let mut bytes = 16_u32.to_le_bytes().to_vec();
    for id in 0..VOCAB {
        let text = match id {
            0 => "<unk>".to_owned(),
            1 => "\n<s>\n".to_owned(),
            2 => "\n</s>\n".to_owned(),
            3..259 => format!("<0x{:02X}>", id - 3),
            _ => format!(" word{id}"),
        };
        bytes.extend(0_f32.to_le_bytes());
        bytes.extend(u32::try_from(text.len())?.to_le_bytes());
        bytes.extend(text.as_bytes());
    }
    Ok(fs::write(path, bytes)?)
}
