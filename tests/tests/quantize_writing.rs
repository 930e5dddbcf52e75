//! What `smidgen quantize` leaves behind: whole files or none, whatever happens.

#![cfg(unix)] // Signals, limits and mounts.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use smidgen_core::gguf::GgmlType;
use smidgen_io::{GgufBuilder, Overwrite};
use smidgen_tests::Smidgen;

/// Tensors of 1 MiB each.
const TENSORS: usize = 12;

const LINE: [&str; 4] = ["quantize", "in.gguf", "out.gguf", "Q8_0"];

/// Writes a model of random numbers to `in.gguf`; with `fault`, the last number of all is one that
/// no block can hold.
fn write_model(smidgen: &Smidgen, fault: Option<f32>) {
    let mut state = 7_u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 24) as f32 - 0.5
    };
    let mut builder = GgufBuilder::new();
    builder.set("general.architecture", "llama");
    for layer in 0..TENSORS {
        let mut numbers: Vec<f32> = std::iter::repeat_with(&mut next).take(1 << 18).collect();
        if let (Some(fault), true) = (fault, layer + 1 == TENSORS) {
            numbers[(1 << 18) - 1] = fault;
        }
        let bytes: Vec<u8> = numbers.iter().flat_map(|x| x.to_le_bytes()).collect();
        let name = format!("blk.{layer}.ffn_gate.weight");
        let added = builder.tensor(&name, &[512, 512], GgmlType::F32, bytes);
        added.unwrap();
    }
    let path = smidgen.path("in.gguf");
    builder.write_file(path, Overwrite::Replace).unwrap();
}

type Files = BTreeMap<String, Vec<u8>>;

/// Files besides the inputs.
fn left(smidgen: &Smidgen) -> Files {
    let names = smidgen.files().into_iter();
    let outputs = names.filter(|name| !name.starts_with("in"));
    let read = |name: String| {
        let bytes = fs::read(smidgen.path(&name)).unwrap();
        (name, bytes)
    };
    outputs.map(read).collect()
}

/// What a process that was killed may leave: nothing that looks like a model.
fn is_part(name: &str) -> bool {
    name.starts_with(".out") && name.ends_with(".part")
}

/// Kills the command at moments all over its run, until that has hit `most` times; under final names
/// there must be whole files only, and if `last` is there, all of them.
fn kill_often(smidgen: &Smidgen, line: &[&str], last: &str, most: usize) {
    let start = Instant::now();
    smidgen.run(line).expect_success();
    let mut longest = start.elapsed();
    let whole = left(smidgen);
    assert!(whole.contains_key(last));
    let mut hits = 0;
    for attempt in 0_u32.. {
        assert!(attempt < 1000, "only {hits} kills hit");
        if hits == most {
            break;
        }
        for name in left(smidgen).keys() {
            fs::remove_file(smidgen.path(name)).unwrap();
        }
        let mut command = smidgen.command();
        command.args(line).stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        // Moments that are spread evenly, whatever their number: the golden ratio's multiples.
        let at = (f64::from(attempt) * 0.618_034).fract();
        std::thread::sleep(longest.mul_f64(at));
        child.kill().unwrap();
        if child.wait().unwrap().signal() != Some(9) {
            longest = longest.mul_f64(0.9);
            continue;
        }
        longest = longest.mul_f64(1.05).min(Duration::from_secs(5));
        hits += 1;
        let found = left(smidgen);
        for (name, bytes) in found.iter().filter(|(name, _)| !is_part(name)) {
            assert!(whole.get(name) == Some(bytes), "{name} is not whole");
        }
        if found.contains_key(last) {
            let has = |name| found.contains_key(name);
            assert!(whole.keys().all(has), "{:?}", found.keys());
        }
    }
    // What is left is in nobody's way, but for the shards that have their names.
    let line = line.iter().chain(&["--force"]);
    smidgen.run(line).expect_success();
    let mut found = left(smidgen);
    found.retain(|name, _| !is_part(name));
    assert!(found == whole);
}

#[test]
fn killed_at_any_moment_it_leaves_no_file_that_is_not_whole() {
    let smidgen = Smidgen::in_memory();
    write_model(&smidgen, None);
    kill_often(&smidgen, &LINE, "out.gguf", 25);
}

#[test]
fn killed_at_any_moment_it_leaves_no_set_that_is_not_whole() {
    let smidgen = Smidgen::in_memory();
    write_model(&smidgen, None);
    let split = ["split", "--split-max-tensors", "4", "in.gguf", "in"];
    smidgen.run(split).expect_success();
    let first = "in-00001-of-00003.gguf";
    let line = ["quantize", first, "out.gguf", "Q8_0", "--keep-split"];
    kill_often(&smidgen, &line, "out-00001-of-00003.gguf", 25);
}

#[test]
fn a_fault_found_at_the_end_keeps_what_was_there() {
    let smidgen = Smidgen::new();
    for (fault, word) in [(f32::NAN, "NaN"), (f32::NEG_INFINITY, "inf")] {
        write_model(&smidgen, Some(fault));
        for ty in ["Q8_0", "Q4_K", "F16"] {
            let line = ["quantize", "in.gguf", "out.gguf", ty];
            smidgen
                .run(line)
                .expect_error(&["blk.11.ffn_gate.weight", word, "262143"]);
            assert!(left(&smidgen).is_empty());
            smidgen.write("out.gguf", "kept");
            smidgen
                .run(line.iter().chain(&["--force"]))
                .expect_error(&["blk.11.ffn_gate.weight"]);
            assert_eq!(left(&smidgen)["out.gguf"], b"kept");
            assert_eq!(left(&smidgen).len(), 1);
            fs::remove_file(smidgen.path("out.gguf")).unwrap();
        }
    }
}

/// Runs [`LINE`] in a shell, behind `before`.
fn in_shell(smidgen: &Smidgen, before: &str) -> Output {
    let mut command = Command::new("sh");
    let script = format!("{before}; exec \"$0\" \"$@\"");
    command.current_dir(smidgen.dir()).arg("-c").arg(script);
    command.arg(smidgen.command().get_program()).args(LINE);
    command.output().unwrap()
}

#[test]
fn a_file_that_may_not_grow_is_taken_away() {
    let smidgen = Smidgen::new();
    write_model(&smidgen, None);
    // 1 MiB in blocks of 512 bytes; without the signal the write fails with EFBIG.
    let output = in_shell(&smidgen, "trap '' XFSZ; ulimit -f 2048");
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(
        stderr.starts_with("smidgen: cannot write out.gguf: "),
        "{stderr}"
    );
    assert!(left(&smidgen).is_empty());
}

/// A tensor of 192 MiB, whose blocks are 51 MiB, with 24 MiB for everything but mapped files.
#[test]
#[cfg(target_os = "linux")]
fn memory_is_bounded_by_rows_and_not_by_tensors() {
    let smidgen = Smidgen::new();
    let rows = 192 << 8;
    let mut builder = GgufBuilder::new();
    builder.set("general.architecture", "llama");
    let name = "blk.0.ffn_gate.weight";
    // Zeros, which take no room on most disks.
    let added = builder.tensor(
        name,
        &[1024, rows],
        GgmlType::F32,
        vec![0; 4096 * rows as usize],
    );
    added.unwrap();
    let path = smidgen.path("in.gguf");
    builder.write_file(path, Overwrite::Refuse).unwrap();
    for threads in ["1", "2"] {
        let mut command = Command::new("sh");
        let script = "ulimit -d 24576; exec \"$0\" \"$@\" --force -t ";
        command
            .current_dir(smidgen.dir())
            .arg("-c")
            .arg(script.to_owned() + threads);
        let program = smidgen.command().get_program().to_owned();
        let output = command.arg(program).args(LINE).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{stderr}");
        let len = fs::metadata(smidgen.path("out.gguf")).unwrap().len();
        assert!(len > rows * 1024 / 32 * 34);
    }
}

/// Needs a mount of its own, and says so where that is not to be had.
#[test]
fn a_full_disk_leaves_nothing() {
    let smidgen = Smidgen::new();
    write_model(&smidgen, None);
    let split = ["split", "--split-max-tensors", "4", "in.gguf", "in"];
    smidgen.run(split).expect_success();
    fs::create_dir(smidgen.path("disk")).unwrap();
    // Room for none of it, for one shard, and for nearly all of the 3.3 MB.
    let script = "\
for room in 64k 1300k 3100k; do
    mount -t tmpfs -o size=$room none disk || exit 77
    \"$0\" quantize in.gguf disk/out.gguf Q8_0 && exit 3
    \"$0\" quantize --keep-split in-00001-of-00003.gguf disk/out.gguf Q8_0 && exit 4
    ls -A disk
    umount disk
done";
    let mut unshare = Command::new("unshare");
    unshare.args(["--map-root-user", "--mount", "sh", "-c", script]);
    let unshare = unshare.arg(smidgen.command().get_program());
    let output = match unshare.current_dir(smidgen.dir()).output() {
        Ok(output) if output.status.code() != Some(77) && output.status.code() != Some(1) => output,
        no_mount => {
            eprintln!("skipped: no mount namespace here ({no_mount:?})");
            return;
        }
    };
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    assert_eq!(stderr.matches("No space left").count(), 6, "{stderr}");
    assert_eq!(output.stdout, b"", "left on the disk");
}
