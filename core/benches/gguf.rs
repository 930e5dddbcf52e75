//! How long it takes to parse GGUF: a real vocabulary of 32,000 tokens, beside the Python package
//! `gguf` where `python3` has it, and how time grows with the number of tokens and of tensors;
//! `cargo bench -p smidgen-core --bench gguf`.
//!
//! Every run reads all that was parsed and compares it with what must be there. The exit status is
//! 1 when a bound is missed.

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use smidgen_core::gguf::{Array, GgmlType, Gguf, TensorInfo, Value, ValueType, Writer, keys};

/// Nanoseconds a byte of metadata, at most.
const NS_PER_BYTE: f64 = 2.0;
/// How many times faster than the Python package, at least.
const TIMES_PYTHON: f64 = 100.0;
/// How many times longer for ten times the tokens, at most.
const GROWTH: f64 = 11.0;

fn main() -> ExitCode {
    let mut missed = 0;
    let mut bound = |what: &str, holds: bool| {
        if !holds {
            eprintln!("missed: {what}");
            missed += 1;
        }
    };

    match real_vocabulary() {
        None => println!("llama32000-vocab.gguf is not here (SMIDGEN_SHARED names its folder)"),
        Some(path) => {
            let bytes = std::fs::read(&path).expect("a file that is there");
            let (time, entries) = best(&bytes, 300, 32_000);
            let metadata = metadata_len(&bytes);
            let per_byte = nanos(time) / metadata as f64;
            println!("llama32000-vocab.gguf: {entries} entries, {metadata} bytes of metadata");
            println!(
                "  smidgen  {:>12.1} us  {per_byte:.3} ns a byte",
                micros(time)
            );
            bound("2 ns a byte", per_byte < NS_PER_BYTE);
            match python(&path, entries) {
                None => println!("  gguf.py  not compared: no python3 with the package gguf"),
                Some(other) => {
                    let ratio = other.as_secs_f64() / time.as_secs_f64();
                    println!(
                        "  gguf.py  {:>12.1} us  {ratio:.0} times as long",
                        micros(other)
                    );
                    bound("100 times faster than gguf.py", ratio >= TIMES_PYTHON);
                }
            }
        }
    }

    let few = best(&vocabulary(10_000), 300, 10_000).0;
    let many = best(&vocabulary(100_000), 100, 100_000).0;
    let growth = nanos(many) / nanos(few);
    println!(
        "tokens   10,000: {:.1} us, 100,000: {:.1} us, {growth:.2} times",
        micros(few),
        micros(many)
    );
    bound("11 times for 10 times the tokens", growth <= GROWTH);

    // Names are sorted to find one that is there twice: n log n of them.
    let few = best_tensors(10_000, 30);
    let many = best_tensors(100_000, 5);
    let growth = nanos(many) / nanos(few);
    println!(
        "tensors  10,000: {:.1} us, 100,000: {:.1} us, {growth:.2} times",
        micros(few),
        micros(many)
    );
    ExitCode::from(u8::from(missed > 0))
}

/// The least time of many to parse `bytes`, whose vocabulary has `tokens`; and how many entries
/// there are. Reading them again is not timed.
fn best(bytes: &[u8], runs: u32, tokens: usize) -> (Duration, usize) {
    let mut scratch = vec![0; Gguf::scratch_len(bytes)];
    let mut least = Duration::MAX;
    let mut entries = 0;
    for _ in 0..runs {
        let start = Instant::now();
        let gguf = Gguf::parse(black_box(bytes), &mut scratch);
        least = least.min(start.elapsed());
        let gguf = gguf.expect("a good file");
        entries = gguf.metadata().count();
        assert_eq!(entries, gguf.metadata_count());
        let array = gguf.get_array(keys::TOKENIZER_GGML_TOKENS, ValueType::String);
        let array = array.expect("an array of strings").expect("a vocabulary");
        assert_eq!((array.len(), array.strings().count()), (tokens, tokens));
    }
    (least, entries)
}

fn best_tensors(count: u32, runs: u32) -> Duration {
    let bytes = tensors(count);
    let mut scratch = vec![0; Gguf::scratch_len(&bytes)];
    let mut least = Duration::MAX;
    for _ in 0..runs {
        let start = Instant::now();
        let gguf = Gguf::parse(black_box(&bytes), &mut scratch);
        least = least.min(start.elapsed());
        let gguf = gguf.expect("a good file");
        assert_eq!(gguf.tensors().count(), count as usize);
    }
    least
}

fn metadata_len(bytes: &[u8]) -> u64 {
    let mut scratch = vec![0; Gguf::scratch_len(bytes)];
    let gguf = Gguf::parse(bytes, &mut scratch).expect("a good file");
    gguf.infos_offset() - gguf.metadata_offset()
}

/// The least time of three that the Python package takes for the file; it must find as many
/// entries.
fn python(path: &Path, entries: usize) -> Option<Duration> {
    const SCRIPT: &str = "\
import sys, time
from gguf import GGUFReader
best = 1e9
for _ in range(3):
    start = time.perf_counter()
    reader = GGUFReader(sys.argv[1])
    best = min(best, time.perf_counter() - start)
print(best, sum(not name.startswith('GGUF.') for name in reader.fields))
";
    let output = Command::new("python3")
        .args(["-c", SCRIPT])
        .arg(path)
        .output();
    let output = output.ok().filter(|output| output.status.success())?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let (seconds, found) = text.trim().split_once(' ').expect("two numbers");
    assert_eq!(found.parse(), Ok(entries), "what gguf.py finds");
    Some(Duration::from_secs_f64(seconds.parse().expect("seconds")))
}

fn real_vocabulary() -> Option<PathBuf> {
    let shared = std::env::var_os("SMIDGEN_SHARED").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared"),
        PathBuf::from,
    );
    let path = shared.join("models/llama32000-vocab.gguf");
    path.is_file().then_some(path)
}

/// A vocabulary as a converter writes it: texts, scores, types.
fn vocabulary(tokens: u32) -> Vec<u8> {
    let mut texts = Vec::new();
    for token in 0..tokens {
        let text = format!("token{token}");
        texts.extend((text.len() as u64).to_le_bytes());
        texts.extend(text.as_bytes());
    }
    let scores: Vec<u8> = (0..tokens).flat_map(|n| (n as f32).to_le_bytes()).collect();
    let types: Vec<u8> = (0..tokens).flat_map(|_| 1_i32.to_le_bytes()).collect();
    let array = |element, bytes| {
        let array = Array::new(element, tokens as usize, bytes);
        Value::Array(array.expect("as many elements"))
    };
    let entries = [
        (
            keys::TOKENIZER_GGML_TOKENS,
            array(ValueType::String, &texts),
        ),
        (keys::TOKENIZER_GGML_SCORES, array(ValueType::F32, &scores)),
        (
            keys::TOKENIZER_GGML_TOKEN_TYPE,
            array(ValueType::I32, &types),
        ),
    ];
    write(&entries, &[])
}

/// Tensors of one float each, in no order of their names.
fn tensors(count: u32) -> Vec<u8> {
    let name = |n: u32| format!("blk.{}.weight", n.wrapping_mul(2_654_435_761));
    let names: Vec<String> = (0..count).map(name).collect();
    let mut infos = Vec::new();
    for (at, name) in names.iter().enumerate() {
        let info = TensorInfo::new(name, &[1], GgmlType::F32, at as u64 * 32);
        infos.push(info.expect("one dimension"));
    }
    let mut bytes = write(&[], &infos);
    bytes.resize(bytes.len() + names.len() * 32, 0);
    bytes
}

fn write(entries: &[(&str, Value<'_>)], tensors: &[TensorInfo<'_>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let sink = |part: &[u8]| -> Result<(), ()> {
        bytes.extend_from_slice(part);
        Ok(())
    };
    let counts = (entries.len() as u64, tensors.len() as u64);
    let mut writer = Writer::new(sink, counts.0, counts.1).expect("a vector takes all");
    for (key, value) in entries {
        writer.metadata(key, value).expect("a good entry");
    }
    for info in tensors {
        writer.tensor(info).expect("a good tensor");
    }
    writer.finish(32).expect("as many as announced");
    bytes
}

fn nanos(time: Duration) -> f64 {
    time.as_secs_f64() * 1e9
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
