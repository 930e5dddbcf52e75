//! Tells a story with `smidgen-core` alone: of the standard library it takes the file and the heap.
//!
//! `cargo run -p smidgen-examples --example generate -- [PROMPT [MODEL.gguf]]`

use std::io::Write;
use std::ops::ControlFlow;
use std::process::ExitCode;

use smidgen_core::Error;
use smidgen_core::gguf::Gguf;
use smidgen_core::kv_cache::KvType;
use smidgen_core::model::{Layer, Model};
use smidgen_core::sampler::{Sampler, SamplerSettings};
use smidgen_core::session::{
    GenerateOptions, Generated, Generator, GeneratorBuffers, Plan, Prompt, Session, SessionOptions,
};
use smidgen_core::tokenizer::{Vocabulary, max_scratch_len};

const MODEL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/models/smidgen-260k-Q8_0.gguf");

/// Goes on with `prompt`, and prints the text as it comes.
fn generate(file: &[u8], prompt: &str) -> Result<Generated, Error> {
    // Checks the file, once. All that follows borrows from its bytes.
    let mut scratch = vec![0; Gguf::scratch_len(file)];
    let gguf = Gguf::parse(file, &mut scratch)?;
    let mut layers = vec![Layer::EMPTY; Model::layers_len(&gguf)];
    let model = Model::load(&[gguf], &mut layers)?;
    let mut index = vec![0; Vocabulary::index_len(&gguf)];
    let vocabulary = Vocabulary::load(&gguf, &mut index)?;

    // As many positions as the model was made for, and up to 16 tokens of a prompt at once.
    let options = SessionOptions {
        batch: 16,
        ..SessionOptions::new(KvType::F32, model.hyperparameters.n_ctx)
    };
    let mut memory = vec![0; Plan::new(&model, &options).words()];
    let mut session = Session::in_memory(&model, options, &mut memory)?;

    // Seed 1: the same story every time. 0.8 and 0.9 make for one that does not wander off.
    let settings = SamplerSettings {
        temperature: 0.8,
        ..SamplerSettings::LLAMA2C
    };
    let mut sampler = Sampler::new(settings, 1)?;
    let buffers = GeneratorBuffers {
        // A token is a byte at least; BOS comes first, and a space.
        ids: &mut vec![0; prompt.len() + 2],
        scratch: &mut vec![0; max_scratch_len(prompt.len())],
        ..GeneratorBuffers::default()
    };
    let options = GenerateOptions {
        max_new_tokens: 200,
        echo: true,
        ..GenerateOptions::default()
    };

    // Text comes in whole characters. Who listens no more, such as `head`, ends the story.
    let mut out = std::io::stdout().lock();
    let mut sink = |text: &[u8]| match out.write_all(text).and_then(|()| out.flush()) {
        Ok(()) => ControlFlow::Continue(()),
        Err(_) => ControlFlow::Break(()),
    };
    let generated = Generator::new(&vocabulary, &mut sampler, buffers).generate(
        &mut session,
        Prompt::Text(prompt.as_bytes()),
        &options,
        &mut sink,
    )?;
    let _ = writeln!(out);
    Ok(generated)
}

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let prompt = args.next().unwrap_or_else(|| "Once upon a time".to_owned());
    let path = args.next().unwrap_or_else(|| MODEL.to_owned());
    let file = std::fs::read(&path).map_err(|error| error.to_string());
    let generated =
        file.and_then(|file| generate(&file, &prompt).map_err(|error| error.to_string()));
    match generated {
        Ok(generated) => {
            eprintln!("{} tokens, {:?}", generated.new_tokens, generated.stop);
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("generate: {path}: {error}");
            ExitCode::FAILURE
        }
    }
}
