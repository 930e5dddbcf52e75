//! The command killed at random moments while it splits and merges: what is left must be whole, and
//! the same command must end the work.
#![cfg(unix)]

use std::{
    collections::BTreeMap,
    fs,
    os::unix::process::ExitStatusExt as _,
    path::Path,
    process::Stdio,
    time::{Duration, Instant},
};

use smidgen_core::gguf::GgmlType;
use smidgen_io::GgufBuilder;
use smidgen_tests::Smidgen;

/// Kills that hit a running process, for each of three kinds of work: more than 200 in all. Most of
/// them in memory, where no time goes by in waiting for the disk and a kill hits the rest.
const KILLS_IN_MEMORY: usize = 60;
const KILLS_ON_DISK: usize = 10;

const SPLIT: [&str; 5] = ["split", "--split-max-tensors", "12", "model.gguf", "m"];
const MERGE: [&str; 3] = ["merge", FIRST, "model.gguf"];
const DELETE: [&str; 4] = ["merge", "--delete-splits", FIRST, "model.gguf"];
const FIRST: &str = "m-00001-of-00010.gguf";

type Files = BTreeMap<String, Vec<u8>>;

/// A generator of random numbers (xorshift), so that a failure can be had again.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit.max(1)
    }
}

/// A model of 120 tensors and 2 MB.
fn model() -> Vec<u8> {
    let mut random = Random(7);
    let mut builder = GgufBuilder::new();
    builder.set("general.name", "killed");
    builder.set("general.alignment", 64_u32);
    for number in 0..120 {
        let len = 1 + random.below(8_000);
        let bytes: Vec<_> = (0..len * 4).map(|_| random.below(256) as u8).collect();
        let added = builder.tensor(&format!("t.{number}"), &[len], GgmlType::F32, bytes);
        added.expect("a tensor");
    }
    let mut bytes = Vec::new();
    builder.write_to(&mut bytes).expect("a model");
    bytes
}

fn contents(folder: &Path) -> Files {
    let entries = fs::read_dir(folder).expect("the folder");
    let read = |entry: fs::DirEntry| {
        let name = entry.file_name().into_string().expect("UTF-8");
        (name, fs::read(entry.path()).expect("a file"))
    };
    entries
        .map(|entry| read(entry.expect("an entry")))
        .collect()
}

/// Leaves exactly these files in the folder.
fn reset(folder: &Path, files: &Files) {
    for entry in fs::read_dir(folder).expect("the folder") {
        fs::remove_file(entry.expect("an entry").path()).expect("removing a file");
    }
    for (name, bytes) in files {
        fs::write(folder.join(name), bytes).expect("writing a file");
    }
}

/// The model alone, and its shards alone.
fn model_and_shards() -> (Files, Files) {
    let smidgen = Smidgen::new();
    let whole = Files::from([("model.gguf".to_owned(), model())]);
    reset(smidgen.dir(), &whole);
    smidgen.run(SPLIT).expect_success();
    let mut shards = contents(smidgen.dir());
    shards.remove("model.gguf");
    assert_eq!(shards.len(), 10);
    (whole, shards)
}

/// Starts the command and kills it after `delay`; whether it was still running.
fn kill(smidgen: &Smidgen, words: &[&str], delay: Duration) -> bool {
    let mut command = smidgen.command();
    command.args(words).stdin(Stdio::null());
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().expect("the command starts");
    std::thread::sleep(delay);
    child.kill().expect("it can be killed");
    child.wait().expect("it has ended").signal().is_some()
}

/// A command that makes `after` of `before`, and what must hold whenever it is killed.
struct Work<'a> {
    words: &'a [&'a str],
    before: &'a Files,
    after: &'a Files,
    check: &'a dyn Fn(&Files),
}

/// Kills a command again and again.
fn kill_often(seed: u64, work: &Work<'_>) {
    let mut random = Random(seed);
    kill_in(&Smidgen::in_memory(), KILLS_IN_MEMORY, &mut random, work);
    kill_in(&Smidgen::new(), KILLS_ON_DISK, &mut random, work);
}

fn kill_in(smidgen: &Smidgen, most: usize, random: &mut Random, work: &Work<'_>) {
    let Work {
        words,
        before,
        after,
        check,
    } = *work;
    reset(smidgen.dir(), before);
    let start = Instant::now();
    smidgen.run(words).expect_success();
    // Delays are up to this: longer while kills hit, shorter when they come too late, so that the
    // pace of the machine does not matter.
    let mut longest = start.elapsed();
    assert!(&contents(smidgen.dir()) == after);

    let (mut kills, mut resumed) = (0, 0);
    for attempt in 0.. {
        assert!(
            attempt < 50 * most,
            "only {kills} of {attempt} kills hit, and {resumed} runs were there to be ended"
        );
        if kills >= most && resumed > most / 3 {
            break;
        }
        reset(smidgen.dir(), before);
        // Some runs are killed more than once before they may end.
        loop {
            let delay = random.below(longest.as_micros() as u64);
            if !kill(smidgen, words, Duration::from_micros(delay)) {
                longest = longest * 4 / 5;
                break;
            }
            longest = longest * 11 / 10;
            kills += 1;
            check(&contents(smidgen.dir()));
            if random.below(3) > 0 {
                break;
            }
        }
        if &contents(smidgen.dir()) == after {
            continue;
        }
        smidgen.run(words).expect_success();
        resumed += 1;
        let found = contents(smidgen.dir());
        let names: Vec<_> = found.keys().collect();
        assert!(&found == after, "attempt {attempt}: {names:?}");
    }
}

#[test]
fn a_killed_split_leaves_no_set_that_is_not_whole() {
    let (whole, shards) = model_and_shards();
    let mut both = whole.clone();
    both.extend(shards.clone());
    let check = |left: &Files| {
        assert!(left["model.gguf"] == whole["model.gguf"]);
        // Under a final name there are only whole shards, and the first after all others.
        for (name, bytes) in left.iter().filter(|(name, _)| name.starts_with("m-")) {
            assert!(bytes == &shards[name], "{name}");
        }
        assert!(!left.contains_key(FIRST) || left == &both);
    };
    let work = Work {
        words: &SPLIT,
        before: &whole,
        after: &both,
        check: &check,
    };
    kill_often(1, &work);
}

#[test]
fn a_killed_merge_leaves_the_shards() {
    let (whole, shards) = model_and_shards();
    let mut both = whole.clone();
    both.extend(shards.clone());
    let check = |left: &Files| {
        assert!(shards.iter().all(|(name, bytes)| &left[name] == bytes));
        let output = left.get("model.gguf");
        assert!(output.is_none_or(|output| output == &whole["model.gguf"]));
    };
    let work = Work {
        words: &MERGE,
        before: &shards,
        after: &both,
        check: &check,
    };
    kill_often(2, &work);
}

#[test]
fn a_killed_merge_that_deletes_loses_nothing() {
    let (whole, shards) = model_and_shards();
    let check = |left: &Files| {
        for (name, bytes) in left.iter().filter(|(name, _)| name.starts_with("m-")) {
            assert!(bytes == &shards[name], "{name}");
        }
        let all_there = shards.keys().all(|name| left.contains_key(name));
        let journal = left.contains_key(".model.gguf.merge-journal");
        match left.get("model.gguf") {
            Some(output) => assert!(output == &whole["model.gguf"]),
            None => assert!(all_there || journal, "{:?}", left.keys()),
        }
    };
    let work = Work {
        words: &DELETE,
        before: &shards,
        after: &whole,
        check: &check,
    };
    kill_often(3, &work);
}
