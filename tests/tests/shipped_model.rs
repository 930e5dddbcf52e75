//! The model that ships with the project says on every back end, with any number of threads, what
//! examples/models/golden.json says; and that is right.

mod engine;

use std::num::NonZeroUsize;
use std::ops::ControlFlow;

use engine::{Run, ids, worst};
use serde_json::Value;
use smidgen_core::LogitsHash;
use smidgen_core::gguf::Gguf;
use smidgen_core::kernels::Backend;
use smidgen_core::kv_cache::KvType;
use smidgen_core::ops::Parallel;
use smidgen_core::sampler::{Sampler, SamplerSettings};
use smidgen_core::session::{GenerateOptions, Generator, GeneratorBuffers, Prompt};
use smidgen_core::tokenizer::Vocabulary;
use smidgen_io::Threads;
use smidgen_llama2c::{Checkpoint, Options, convert};
use smidgen_tests::models;

const F32: &str = "smidgen-260k-F32.gguf";

fn json(name: &str) -> Value {
    let text = std::fs::read(models().join(name)).unwrap();
    serde_json::from_slice(&text).unwrap()
}

/// A model of golden.json: a file that ships, or the checkpoint converted.
fn read(name: &str) -> Vec<u8> {
    let read = |name: &str| std::fs::read(models().join(name)).unwrap();
    if name != F32 {
        return read(name);
    }
    let checkpoint = read("smidgen-260k.bin");
    let checkpoint = Checkpoint::parse(&checkpoint).unwrap();
    let tokens = read("smidgen-260k-tokenizer.bin");
    let vocab_size = checkpoint.config().vocab_size();
    let tokens = smidgen_llama2c::Vocabulary::read(&tokens, vocab_size).unwrap();
    let mut conversion = convert(&checkpoint, &tokens, &Options::default()).unwrap();
    let mut bytes = Vec::new();
    conversion.write_to(&mut bytes).unwrap();
    bytes
}

fn parse(bytes: &[u8]) -> Gguf<'_> {
    Gguf::parse(bytes, &mut vec![0; Gguf::scratch_len(bytes)]).unwrap()
}

/// The story and the hash of the logits that its tokens were chosen from.
fn story(
    run: &Run<'_>,
    prompt: &str,
    settings: SamplerSettings,
    seed: u64,
    n: usize,
) -> (String, String) {
    let mut index = vec![0; Vocabulary::index_len(&run.gguf)];
    let vocabulary = Vocabulary::load(&run.gguf, &mut index).unwrap();
    let mut sampler = Sampler::new(settings, seed).unwrap();
    let mut prompt_ids = vec![0; 64];
    let mut scratch = vec![0; 1024];
    let buffers = GeneratorBuffers {
        ids: &mut prompt_ids,
        scratch: &mut scratch,
        recent: &mut [],
        held: &mut [],
    };
    let mut hash = LogitsHash::new();
    let mut hashed = |logits: &mut [f32]| hash.update(logits);
    let options = GenerateOptions {
        max_new_tokens: n,
        echo: true,
        ..GenerateOptions::default()
    };
    let mut text = Vec::new();
    run.with_session(|mut session| {
        Generator::new(&vocabulary, &mut sampler, buffers)
            .with_mask(&mut hashed)
            .generate(
                &mut session,
                Prompt::Text(prompt.as_bytes()),
                &options,
                &mut |bytes| {
                    text.extend_from_slice(bytes);
                    ControlFlow::Continue(())
                },
            )
            .unwrap();
    });
    // The command ends with a newline.
    text.push(b'\n');
    let text = String::from_utf8(text).unwrap();
    (text, format!("{:016x}", hash.value()))
}

#[test]
fn stories_and_hashes_are_those_of_the_golden_file() {
    let golden = json("golden.json");
    let (greedy, seeded) = (&golden["greedy"], &golden["seeded"]);
    let number = |value: &Value| value.as_f64().unwrap() as f32;
    let likeliest = SamplerSettings {
        temperature: 0.0,
        ..SamplerSettings::LLAMA2C
    };
    let by_chance = SamplerSettings {
        temperature: number(&seeded["temperature"]),
        top_p: number(&seeded["top_p"]),
        ..SamplerSettings::LLAMA2C
    };
    let prompt = greedy["prompt"].as_str().unwrap();
    let tokens = greedy["tokens"].as_u64().unwrap().try_into().unwrap();
    let seed = seeded["seed"].as_u64().unwrap();
    let threads = Threads::new(NonZeroUsize::new(3).unwrap()).unwrap();

    let models = golden["models"].as_object().unwrap();
    assert_eq!(models.len(), 3);
    for (name, expected) in models {
        let bytes = read(name);
        for backend in Backend::available() {
            for parallel in [None, Some(&threads as &dyn Parallel)] {
                let mut run = Run::of(parse(&bytes), KvType::F32, 512, 32);
                run.backend = backend;
                run.parallel = parallel;
                let told = [
                    ("greedy", story(&run, prompt, likeliest, 1, tokens)),
                    ("seeded", story(&run, "", by_chance, seed, usize::MAX)),
                ];
                for (which, (text, hash)) in told {
                    let place = format!("{name}, {which}, {}", backend.name());
                    assert_eq!(text, expected[which]["text"], "{place}");
                    assert_eq!(hash, expected[which]["logits_hash"], "{place}");
                }
            }
        }
    }
}

/// What examples/train/export.py computed with `NumPy`.
#[test]
fn logits_of_f32_are_those_of_float64() {
    let golden = json("smidgen-260k-logits.json");
    let ids = ids(&golden["ids"]);
    let bytes = read(F32);
    let run = Run::of(parse(&bytes), KvType::F32, 512, 32);
    let mut rows = Vec::new();
    run.with_session(|mut session| {
        let each = |_, logits: &[f32]| rows.push(logits.to_vec());
        session.prompt_each(&ids, each).unwrap();
    });
    let expected = golden["expected"].as_array().unwrap();
    assert!(expected.len() >= 3);
    for row in expected {
        let position = row["position"].as_u64().unwrap();
        let logits = row["logits"].as_array().unwrap().iter();
        let logits: Vec<_> = logits.map(|x| x.as_f64().unwrap() as f32).collect();
        let off = worst(&rows[usize::try_from(position).unwrap()], &logits);
        assert!(off < 1e-4, "position {position}: {off}");
    }
}
