//! Splitting and merging where the disk is too small: nothing is lost, and with room the same
//! command ends the work. Deleting shards on the way needs no more room than it says.
#![cfg(target_os = "linux")]

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use smidgen_core::gguf::GgmlType;
use smidgen_io::GgufBuilder;
use smidgen_tests::Smidgen;

/// A model of eight tensors of 1 MB and what belongs to it; its shards have two tensors each.
fn model() -> Vec<u8> {
    let mut builder = GgufBuilder::new();
    builder.set("general.name", "large");
    for number in 0_u32..8 {
        let value = |i: u32| (i.wrapping_mul(2_654_435_761) >> 13) as u8;
        let bytes: Vec<_> = (0..1 << 20).map(|i| value(i + number)).collect();
        let name = format!("t.{number}");
        let added = builder.tensor(&name, &[1 << 18], GgmlType::F32, bytes);
        added.expect("a tensor");
    }
    let mut bytes = Vec::new();
    builder.write_to(&mut bytes).expect("a model");
    bytes
}

const SPLIT: [&str; 5] = ["split", "--split-max-tensors", "2", "model.gguf", "m"];
const FIRST: &str = "m-00001-of-00004.gguf";

/// A folder with the model and its shards.
fn prepare() -> Smidgen {
    let smidgen = Smidgen::new();
    smidgen.write("model.gguf", model());
    smidgen.run(SPLIT).expect_success();
    smidgen
}

/// Runs a shell script in which `$SMIDGEN` is the command and `$FROM` the prepared folder, and in
/// which file systems can be mounted that go away with it; `None` where that is not allowed.
fn in_own_mounts(smidgen: &Smidgen, script: &str) -> Option<Output> {
    let own = |rest: &[&str]| {
        let mut command = Command::new("unshare");
        command
            .args(["--user", "--map-root-user", "--mount"])
            .args(rest);
        command.env("SMIDGEN", smidgen.command().get_program());
        command.env("FROM", smidgen.dir());
        command.output()
    };
    let disk = smidgen.path("disk");
    fs::create_dir_all(&disk).expect("a folder");
    let disk = disk.to_str().expect("UTF-8");
    let allowed = own(&["mount", "-t", "tmpfs", "none", disk]);
    if !allowed.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: no file system can be mounted here");
        return None;
    }
    let script = format!("cd {disk}\n{script}");
    Some(own(&["sh", "-euc", &script]).expect("unshare has run"))
}

/// Shell functions: a disk of so many bytes with the shards on it, and what must hold.
const FUNCTIONS: &str = r#"
disk() {
    cd / && umount "$FROM/disk" 2>/dev/null || true
    mount -t tmpfs -o size="$1" none "$FROM/disk" && cd "$FROM/disk"
}
fails() {
    if "$@" 2>words; then echo "did not fail: $*"; exit 1; else test $? = 2; fi
    grep -q "$expected" words || { cat words; exit 1; }
    rm words
}
expected="No space left on device"
"#;

#[track_caller]
fn check(output: &Output) {
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn a_full_disk_stops_split_and_merge_without_a_trace() {
    let smidgen = prepare();
    let script = r#"
for room in 0 500 3000 6000; do
    disk $((8192 + 64 + room))k
    cp "$FROM/model.gguf" .
    fails "$SMIDGEN" split --split-max-tensors 2 model.gguf m
    test "$(ls -A)" = model.gguf
    cmp model.gguf "$FROM/model.gguf"

    disk $((8192 + 128 + room))k
    cp "$FROM"/m-*.gguf .
    before="$(ls -A)"
    fails "$SMIDGEN" merge m-00001-of-00004.gguf out.gguf
    test "$(ls -A)" = "$before"
done
"#;
    let script = format!("{FUNCTIONS}{script}");
    if let Some(output) = in_own_mounts(&smidgen, &script) {
        check(&output);
    }
}

#[test]
fn a_full_disk_stops_a_merge_that_deletes_and_it_goes_on() {
    let smidgen = prepare();
    // Room besides the shards, in steps from none to more than the 2 MB that are needed.
    let script = r#"
failed=0
for room in 0 60 200 700 1000 1300 1900 2100; do
    disk $((8192 + 64 + room))k
    cp "$FROM"/m-*.gguf .
    if ! "$SMIDGEN" merge --delete-splits m-00001-of-00004.gguf out.gguf 2>/dev/null; then
        failed=$((failed + 1))
        test ! -e out.gguf
        mount -o remount,size=20000k "$FROM/disk"
        "$SMIDGEN" merge --delete-splits m-00001-of-00004.gguf out.gguf
    fi
    test "$(ls -A)" = out.gguf
    cmp out.gguf "$FROM/model.gguf"
done
test $failed -ge 6
"#;
    let script = format!("{FUNCTIONS}{script}");
    if let Some(output) = in_own_mounts(&smidgen, &script) {
        check(&output);
    }
}

#[test]
fn deleting_needs_the_room_that_the_dry_run_says() {
    let smidgen = prepare();
    let merge = [
        "merge",
        "--delete-splits",
        "--dry-run",
        "--json",
        FIRST,
        "o",
    ];
    let report = smidgen.run(merge).json();
    let peak = report["peak_bytes"].as_u64().expect("a peak");
    let bytes = |name: &str| fs::metadata(smidgen.path(name)).expect("a file").len();
    let largest = (1..=4)
        .map(|n| bytes(&format!("m-{n:05}-of-00004.gguf")))
        .max();
    let output = bytes("model.gguf");
    // The heads of the other shards come on top of output and largest shard.
    let promised = output + largest.expect("shards");
    assert!(
        peak >= output && peak <= promised + 4096,
        "{peak} of {promised}"
    );

    // A block for each of the files that are there at once, and the folder.
    let script = format!(
        r#"
disk $(({peak} + 4096 * 8))
cp "$FROM"/m-*.gguf .
"$SMIDGEN" merge --delete-splits {FIRST} out.gguf
cmp out.gguf "$FROM/model.gguf"
"#
    );
    let script = format!("{FUNCTIONS}{script}");
    if let Some(output) = in_own_mounts(&smidgen, &script) {
        check(&output);
    }
}

/// The largest file that a process may write is another way to be told no, and one that anybody can
/// set.
#[test]
fn a_file_that_may_not_grow_stops_the_work_and_it_goes_on() {
    let smidgen = prepare();
    let limited = |blocks: u32, words: &[&str]| {
        let mut command = Command::new("sh");
        let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" \"$@\"");
        command
            .args(["-c", &script])
            .arg(smidgen.command().get_program());
        let output = command.args(words).current_dir(smidgen.dir()).output();
        output.expect("sh has run")
    };
    let model = fs::read(smidgen.path("model.gguf")).expect("the model");
    let before = smidgen.files();
    // Blocks are 512 bytes in POSIX's sh: 1 MB here, 3 MB there, where a shard has 2 and all have 8.
    for (blocks, words) in [
        (
            2_000,
            &["split", "--split-max-tensors", "2", "model.gguf", "x"][..],
        ),
        (6_000, &["merge", FIRST, "out.gguf"]),
    ] {
        let output = limited(blocks, words);
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains("File too large"), "{text}");
        assert_eq!(smidgen.files(), before, "{text}");
    }
    let words = ["merge", "--delete-splits", FIRST, "out.gguf"];
    let output = limited(6_000, &words);
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(
        text.contains("File too large") && text.contains("nothing is lost"),
        "{text}"
    );
    assert!(!exists(&smidgen.path(FIRST)) && !exists(&smidgen.path("out.gguf")));
    smidgen
        .run(words)
        .expect_success()
        .expect_stderr(&["1 of them merged before"]);
    assert!(fs::read(smidgen.path("out.gguf")).expect("the output") == model);
    assert_eq!(smidgen.files(), ["model.gguf", "out.gguf"]);
}

fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}
