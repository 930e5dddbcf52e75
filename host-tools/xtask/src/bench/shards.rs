//! `cargo xtask bench shards`: time and memory of `smidgen split` and `smidgen merge`, beside a copy
//! of the same file.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use anyhow::{Result, ensure};

use super::measure::{kib, median, mib, timed};
use crate::build;
use crate::process::{shown, target_dir};

/// Resident memory, the mapping of the input included, in bytes.
const MEMORY_LIMIT: u64 = 32_000_000;

/// Time of a split or a merge by that of the copy.
const TIME_LIMIT: f64 = 1.15;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Bytes of the model that is split, in millions.
    #[arg(long, default_value_t = 4000, value_parser = clap::value_parser!(u64).range(16..))]
    megabytes: u64,

    /// How often each is measured; the one in the middle counts.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
}

/// Splits and merges a model of 10,000 tensors and one of 10, and copies the first, in turns. Exits
/// with 1 beyond a limit.
///
/// # Errors
/// Something could not be run or read; there is no `/proc`.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    ensure!(
        Path::new("/proc/self/status").exists(),
        "memory is measured by /proc/PID/status, which is not here"
    );
    let smidgen = build::smidgen()?;
    // Not in the system's temporary folder: that may be memory, which no copy is measured by.
    let folder = tempfile::tempdir_in(target_dir())?;
    let path = |name: &str| folder.path().join(name);
    let model = path("model.gguf");
    let len = write_model(&model, 10_000, args.megabytes * 1_000_000)?;
    println!("a model of {len} bytes in {}", folder.path().display());

    let copy = || {
        let mut command = Command::new("sh");
        command.args(["-c", "cp --reflink=never \"$0\" \"$1\" && sync \"$1\""]);
        command.arg(&model).arg(path("copy.gguf"));
        command
    };
    let split = |model: &Path| {
        let mut command = Command::new(&smidgen);
        command
            .args(["split", "--split-max-size", "500M"])
            .arg(model);
        command.arg(path("shards/")).stderr(Stdio::null());
        command
    };
    let merge = || {
        let mut command = Command::new(&smidgen);
        command.arg("merge").arg(path("shards"));
        command.arg(path("merged.gguf")).stderr(Stdio::null());
        command
    };
    let mut times = [const { Vec::new() }; 3];
    for _ in 0..args.rounds {
        for (times, mut command) in times.iter_mut().zip([copy(), split(&model), merge()]) {
            times.push(timed(&mut command)?);
            let _ = fs::remove_file(path("copy.gguf"));
        }
        let same = Command::new("cmp")
            .arg(&model)
            .arg(path("merged.gguf"))
            .status()?;
        ensure!(same.success(), "merging did not give the model again");
        fs::remove_file(path("merged.gguf"))?;
        fs::remove_dir_all(path("shards"))?;
    }
    let [copy, split_time, merge_time] = times.map(median);
    let mut good = true;
    println!("median of {} rounds:", args.rounds);
    for (name, time, limit) in [
        ("cp --reflink=never, sync", copy, None),
        ("split --split-max-size 500M", split_time, Some(TIME_LIMIT)),
        ("merge", merge_time, Some(TIME_LIMIT)),
    ] {
        let ratio = ratio(time, copy);
        let note = limit.map_or(String::new(), |limit| format!("  (at most {limit:.2}x)"));
        println!(
            "{name:<28} {:>7.3} s  {ratio:>5.2}x{note}",
            time.as_secs_f64()
        );
        good &= limit.is_none_or(|limit| ratio <= limit);
    }

    for tensors in [10, 10_000] {
        if tensors == 10 {
            write_model(&model, tensors, args.megabytes * 1_000_000 / 8)?;
        } else {
            write_model(&model, tensors, 160_000_000)?;
        }
        let splitting = peak_memory(&mut split(&model))?;
        let merging = peak_memory(&mut merge())?;
        fs::remove_file(path("merged.gguf"))?;
        let mut deleting = merge();
        deleting.arg("--delete-splits");
        let deleting = peak_memory(&mut deleting)?;
        fs::remove_file(path("merged.gguf"))?;
        fs::remove_dir_all(path("shards"))?;
        println!(
            "resident at {tensors} tensors: split {:.1} MiB, merge {:.1} MiB, merge \
             --delete-splits {:.1} MiB (at most {:.1} MiB)",
            mib(splitting),
            mib(merging),
            mib(deleting),
            mib(MEMORY_LIMIT)
        );
        good &= splitting.max(merging).max(deleting) <= MEMORY_LIMIT;
    }
    if !good {
        println!("beyond a limit");
    }
    Ok(ExitCode::from(u8::from(!good)))
}

fn ratio(time: Duration, by: Duration) -> f64 {
    time.as_secs_f64() / by.as_secs_f64()
}

/// The most memory that a command had resident, as the kernel keeps it; what it took after the last
/// look is not in it.
fn peak_memory(command: &mut Command) -> Result<u64> {
    let mut child = command.stdin(Stdio::null()).spawn()?;
    let status = Path::new("/proc")
        .join(child.id().to_string())
        .join("status");
    let mut peak = 0;
    let ended = loop {
        if let Some(ended) = child.try_wait()? {
            break ended;
        }
        let text = fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        peak = peak.max(line.map_or(0, kib));
        std::thread::sleep(Duration::from_micros(300));
    };
    ensure!(ended.success(), "`{}`: {ended}", shown(command));
    ensure!(
        peak > 0,
        "the command was gone before it could be looked at"
    );
    Ok(peak)
}

/// Writes a model of so many `F32` tensors and about so many bytes, none of them in holes, and tells
/// its length.
fn write_model(path: &Path, tensors: u64, bytes: u64) -> Result<u64> {
    // Rows that are no multiple of the alignment, so that there is padding to be made.
    let elements = bytes / tensors / 4 + 1;
    let padded = (elements * 4).next_multiple_of(32);
    let mut head = b"GGUF\x03\0\0\0".to_vec();
    head.extend(tensors.to_le_bytes());
    head.extend(0_u64.to_le_bytes());
    for number in 0..tensors {
        let name = format!("blk.{number}.ffn_down.weight");
        head.extend(u64::try_from(name.len())?.to_le_bytes());
        head.extend(name.as_bytes());
        head.extend(1_u32.to_le_bytes());
        head.extend(elements.to_le_bytes());
        head.extend(0_u32.to_le_bytes());
        head.extend((number * padded).to_le_bytes());
    }
    head.resize(head.len().next_multiple_of(32), 0);

    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut noise = Vec::with_capacity(1 << 20);
    while noise.len() < 1 << 20 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        noise.extend(state.to_le_bytes());
    }
    let mut file = BufWriter::with_capacity(1 << 20, File::create(path)?);
    file.write_all(&head)?;
    for _ in 0..tensors {
        let mut left = usize::try_from(elements * 4)?;
        while left > 0 {
            let part = &noise[..left.min(noise.len())];
            file.write_all(part)?;
            left -= part.len();
        }
        let padding = usize::try_from(padded - elements * 4)?;
        file.write_all(&[0; 32][..padding])?;
    }
    let file = file.into_inner()?;
    file.sync_all()?;
    Ok(file.metadata()?.len())
}
