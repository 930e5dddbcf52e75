//! Tokens per second and instructions per token of whole steps, greedy, one thread.
//!
//! `cargo bench -p smidgen-tests --bench engine [-- MODEL…]`. Without models those of the shared
//! folder are taken. With `-- --once BACKEND KV MODEL TOKENS` a model makes that many tokens once
//! and nothing is timed, so that a tool that counts instructions can watch; `cargo xtask bench
//! engine` does so.

use std::hint::black_box;
use std::time::{Duration, Instant};

use smidgen_core::LogitsHash;
use smidgen_core::kernels::Backend;
use smidgen_core::kv_cache::KvType;
use smidgen_core::model::{Layer, Model};
use smidgen_core::session::{Plan, Session, SessionOptions};
use smidgen_io::{FileBytes, SessionMemory};

/// New tokens of a story.
const TOKENS: usize = 256;
/// Tokens of a prompt.
const PROMPT: usize = 128;

fn main() {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    args.retain(|arg| arg != "--bench");
    if args.first().is_some_and(|arg| arg == "--once") {
        let [_, backend, kv, model, tokens] = &args[..] else {
            panic!("--once BACKEND KV MODEL TOKENS");
        };
        let backend = Backend::from_name(backend).expect("a back end of this processor");
        let tokens = tokens.parse().expect("a number of tokens");
        let hash = with_session(model, kv_type(kv), 1, backend, |session| {
            story(session, tokens)
        });
        println!("{:016x}", hash.value());
        return;
    }
    if args.is_empty() {
        let Some(shared) = smidgen_tests::shared() else {
            return;
        };
        for ty in ["Q8_0", "Q4_0", "F16", "F32"] {
            let name = format!("golden/stories260K/gguf/stories260K-{ty}.gguf");
            args.push(shared.join(name).to_string_lossy().into_owned());
        }
    }
    println!("| model | back end | KV | tg{TOKENS} t/s | pp{PROMPT} t/s | logits hash |");
    println!("|---|---|---|---:|---:|---|");
    for model in &args {
        for kv in ["f32", "f16", "q8"] {
            let mut expected = None;
            for backend in Backend::available() {
                let (decode, hash) = with_session(model, kv_type(kv), 1, backend, |session| {
                    let hash = story(session, TOKENS);
                    (
                        best(|| {
                            black_box(story(session, TOKENS));
                        }),
                        hash,
                    )
                });
                assert_eq!(*expected.get_or_insert(hash), hash, "{}", backend.name());
                let prompt = with_session(model, kv_type(kv), 32, backend, |session| {
                    let tokens: Vec<u32> = (0..PROMPT as u32).map(|n| 1 + n * 7 % 500).collect();
                    best(|| {
                        session.reset();
                        black_box(session.prompt(&tokens).unwrap());
                    })
                });
                let name = model.rsplit('/').next().unwrap();
                let rate = |tokens: usize, time: Duration| tokens as f64 / time.as_secs_f64();
                println!(
                    "| {name} | {} | {kv} | {:.0} | {:.0} | {:016x} |",
                    backend.name(),
                    rate(TOKENS, decode),
                    rate(PROMPT, prompt),
                    hash.value()
                );
            }
        }
    }
}

fn kv_type(name: &str) -> KvType {
    match name {
        "f32" => KvType::F32,
        "f16" => KvType::F16,
        "q8" => KvType::Q8,
        other => panic!("unknown type of KV cache {other}"),
    }
}

/// The shortest time of many runs, over a second at most.
fn best(mut job: impl FnMut()) -> Duration {
    let begin = Instant::now();
    let mut best = Duration::MAX;
    for _ in 0..200 {
        let start = Instant::now();
        job();
        best = best.min(start.elapsed());
        if begin.elapsed() > Duration::from_secs(1) {
            break;
        }
    }
    best
}

/// Greedy tokens from BOS on, and a hash of the logits of every 16th.
fn story(session: &mut Session<'_>, tokens: usize) -> LogitsHash {
    session.reset();
    let mut hash = LogitsHash::new();
    let mut token = 1;
    for step in 0..tokens {
        let logits = session.step(token).unwrap();
        if step % 16 == 0 {
            hash.update(logits);
        }
        token = argmax(logits);
    }
    hash
}

fn argmax(logits: &[f32]) -> u32 {
    let largest = logits.iter().fold(f32::NEG_INFINITY, |a, &b| a.max(b));
    let at = logits.iter().position(|&logit| logit == largest);
    at.unwrap().try_into().unwrap()
}

fn with_session<T>(
    path: &str,
    kv: KvType,
    batch: usize,
    backend: Backend,
    job: impl FnOnce(&mut Session<'_>) -> T,
) -> T {
    let file = FileBytes::open(path).unwrap();
    let gguf = file.gguf().unwrap();
    let mut layers = vec![Layer::EMPTY; Model::layers_len(&gguf)];
    let model = Model::load(&[gguf], &mut layers).unwrap();
    let options = SessionOptions {
        kv,
        window: TOKENS,
        ring: false,
        batch,
    };
    let plan = Plan::new(&model, &options);
    let mut memory = SessionMemory::new(&plan, &options);
    let session = Session::new(&model, options, memory.buffers()).unwrap();
    job(&mut session.with_backend(backend))
}
