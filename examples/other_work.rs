//! Tells a story from a loop that has other work to do: each turn takes the step that is under way
//! one layer further, and none waits for a whole token.
//!
//! `cargo run -p smidgen-examples --example other_work -- [PROMPT [MODEL.gguf]]`
//!
//! Where a layer takes too long as well, [`Session::with_pause`] calls back between its parts.

use std::io::Write;
use std::process::ExitCode;

use smidgen_core::Error;
use smidgen_core::gguf::Gguf;
use smidgen_core::kv_cache::KvType;
use smidgen_core::model::{Layer, Model};
use smidgen_core::sampler::SamplerSettings;
use smidgen_core::session::{Plan, Progress, Session, SessionOptions};
use smidgen_core::tokenizer::{Decoder, Vocabulary, max_scratch_len};

const MODEL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/models/smidgen-260k-Q8_0.gguf");
const NEW_TOKENS: usize = 100;

/// The other work: a lamp that changes every 64 turns. On a board it would be a sensor, a radio, a
/// watchdog.
#[derive(Default)]
struct Lamp {
    turns: u32,
    changes: u32,
}

impl Lamp {
    fn work(&mut self) {
        self.turns += 1;
        if self.turns.is_multiple_of(64) {
            self.changes += 1;
        }
    }
}

/// Goes on with `prompt`, and keeps the lamp going all the while.
fn run(file: &[u8], prompt: &str) -> Result<Lamp, Error> {
    let mut scratch = vec![0; Gguf::scratch_len(file)];
    let gguf = Gguf::parse(file, &mut scratch)?;
    let mut layers = vec![Layer::EMPTY; Model::layers_len(&gguf)];
    let model = Model::load(&[gguf], &mut layers)?;
    let mut index = vec![0; Vocabulary::index_len(&gguf)];
    let vocabulary = Vocabulary::load(&gguf, &mut index)?;
    let options = SessionOptions::new(KvType::F32, model.hyperparameters.n_ctx);
    let mut memory = vec![0; Plan::new(&model, &options).words()];
    let mut session = Session::in_memory(&model, options, &mut memory)?;

    // The tokens that are still to go through the model: those of the prompt first.
    let mut scratch = vec![0; max_scratch_len(prompt.len())];
    let mut ids = Vec::new();
    let options = vocabulary.prompt_options();
    vocabulary.encode(prompt.as_bytes(), options, &mut scratch, &mut |id| {
        ids.push(id);
    })?;
    let mut ids = ids.into_iter();
    let mut decoder = Decoder::new();
    let mut out = std::io::stdout().lock();
    let mut print = |text: &[u8]| {
        // Who does not listen misses the story, but the lamp goes on.
        let _ = out.write_all(text).and_then(|()| out.flush());
    };

    let mut lamp = Lamp::default();
    let mut new_tokens = 0;
    let mut next = ids.next();
    while let Some(id) = next {
        session.start(&[id])?;
        decoder.push(&vocabulary, id, &mut print)?;
        // The main loop of the program: a turn for the model, a turn for all else.
        while session.advance()? == Progress::Working {
            lamp.work();
        }
        next = ids.next();
        if next.is_none() && new_tokens < NEW_TOKENS {
            let id = SamplerSettings::GREEDY.choose(session.logits_mut()?, &[], &mut [], || 0.0)?;
            let ends = [vocabulary.eos(), vocabulary.bos()].contains(&Some(id));
            next = (!ends).then_some(id);
            new_tokens += 1;
        }
    }
    decoder.finish(&mut print);
    print(b"\n");
    Ok(lamp)
}

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let prompt = args.next().unwrap_or_else(|| "Once upon a time".to_owned());
    let path = args.next().unwrap_or_else(|| MODEL.to_owned());
    let file = std::fs::read(&path).map_err(|error| error.to_string());
    let lamp = file.and_then(|file| run(&file, &prompt).map_err(|error| error.to_string()));
    match lamp {
        Ok(lamp) => {
            let Lamp { turns, changes } = lamp;
            eprintln!("{turns} turns for other work, {changes} changes of the lamp");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("other_work: {path}: {error}");
            ExitCode::FAILURE
        }
    }
}
