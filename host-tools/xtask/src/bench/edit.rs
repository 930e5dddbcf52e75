//! `cargo xtask bench edit`: time and memory of the commands that look at a large file or change
//! it. The file has 10 GiB, almost all of them holes.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use super::measure::{kib, median, mib, timed};
use crate::build;
use crate::process::target_dir;

/// Time of `meta get` on a file that is in the page cache.
const TIME_LIMIT: Duration = Duration::from_millis(50);

/// Resident memory of `meta get`, in bytes.
const MEMORY_LIMIT: u64 = 32 << 20;

const ROUNDS: usize = 21;

const TENSORS: u64 = 160;
const TENSOR_BYTES: u64 = 64 << 20;
const TOKENS: u64 = 32_000;

/// Measures the commands one after the other. Exits with 1 beyond a limit.
///
/// # Errors
/// Something could not be run or read; there is no `/proc`.
pub(crate) fn run() -> Result<ExitCode> {
    ensure!(
        Path::new("/proc/self/status").exists(),
        "memory is measured by /proc/PID/status, which is not here"
    );
    let smidgen = build::smidgen()?;
    let folder = tempfile::tempdir_in(target_dir())?;
    let path = folder.path().join("large.gguf");
    write_model(&path).with_context(|| format!("cannot write {}", path.display()))?;
    println!("{} of {} bytes", path.display(), fs::metadata(&path)?.len());

    let command = |words: &[&str]| {
        let mut command = Command::new(&smidgen);
        let (head, tail) = words.split_at(words.len().min(2));
        command.args(head).arg(&path).args(tail);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command
    };
    let mut get_time = Duration::ZERO;
    for words in [
        &["meta", "get", "general.name"][..],
        &["inspect", "--no-tensors"],
        &["verify", "--json"],
        &["meta", "set", "general.name", "small", "--patch"],
        &["meta", "set", "general.name", "a longer name"],
        &["tensors", "rename", "t.*=u.*"],
    ] {
        // What changes the file changes it once.
        let reads = words[1] != "set" && words[1] != "rename";
        let mut times = Vec::new();
        for _ in 0..if reads { ROUNDS } else { 1 } {
            times.push(timed(&mut command(words))?);
        }
        let time = median(times);
        if words[1] == "get" {
            get_time = time;
        }
        println!(
            "{:<56} {:>6.1} ms",
            words.join(" "),
            time.as_secs_f64() * 1e3
        );
    }

    let memory = peak(&mut command(&["meta", "get", "tokenizer.ggml.tokens"]))?;
    println!(
        "meta get tokenizer.ggml.tokens, resident at most {:>12.1} MiB",
        mib(memory)
    );
    let good = get_time < TIME_LIMIT && memory < MEMORY_LIMIT;
    if !good {
        println!("limits: {TIME_LIMIT:?}, {} MiB", mib(MEMORY_LIMIT));
    }
    Ok(ExitCode::from(u8::from(!good)))
}

/// The most memory that a command has had when it has printed more than a pipe holds: it waits
/// while this is looked at.
fn peak(command: &mut Command) -> Result<u64> {
    let mut child = command.stdout(Stdio::piped()).spawn()?;
    let mut stdout = child.stdout.take().context("no pipe")?;
    stdout.read_exact(&mut [0])?;
    let status = fs::read_to_string(format!("/proc/{}/status", child.id()))?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let printed = io::copy(&mut stdout, &mut io::sink())?;
    ensure!(child.wait()?.success(), "meta get fails");
    ensure!(printed > 1 << 18, "a pipe may have held all of it");
    Ok(kib(peak.context("no VmHWM")?))
}

/// A file of version 3 with a name, a vocabulary, and large tensors of zeros.
fn write_model(path: &Path) -> io::Result<()> {
    let mut head = Vec::new();
    let string = |head: &mut Vec<u8>, text: &str| {
        head.extend((text.len() as u64).to_le_bytes());
        head.extend(text.as_bytes());
    };
    head.extend(b"GGUF");
    head.extend(3_u32.to_le_bytes());
    head.extend(TENSORS.to_le_bytes());
    head.extend(2_u64.to_le_bytes());
    string(&mut head, "general.name");
    head.extend(8_u32.to_le_bytes());
    string(&mut head, "large");
    string(&mut head, "tokenizer.ggml.tokens");
    head.extend(9_u32.to_le_bytes());
    head.extend(8_u32.to_le_bytes());
    head.extend(TOKENS.to_le_bytes());
    for id in 0..TOKENS {
        string(&mut head, &format!("token {id}"));
    }
    for at in 0..TENSORS {
        string(&mut head, &format!("t.{at}"));
        head.extend(1_u32.to_le_bytes());
        // A row of i8, which has the number 24.
        head.extend(TENSOR_BYTES.to_le_bytes());
        head.extend(24_u32.to_le_bytes());
        head.extend((at * TENSOR_BYTES).to_le_bytes());
    }
    head.resize(head.len().next_multiple_of(32), 0);
    let mut file = File::create(path)?;
    file.write_all(&head)?;
    let end = head.len() as u64 + TENSORS * TENSOR_BYTES;
    // Some data here and there, so that not all is one hole.
    for at in (head.len() as u64..end).step_by(1 << 30) {
        file.seek(SeekFrom::Start(at))?;
        file.write_all(b"data")?;
    }
    file.set_len(end)
}
