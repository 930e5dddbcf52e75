//! Makes a model answer with one of a few words, here yes or no: a sampler of one's own that leaves
//! only tokens that go on with an answer, and takes the likeliest of them.
//!
//! `cargo run -p smidgen-examples --example yes_no -- [PROMPT [MODEL.gguf]]`

use std::process::ExitCode;

use smidgen_core::Error;
use smidgen_core::gguf::Gguf;
use smidgen_core::kv_cache::KvType;
use smidgen_core::model::{Layer, Model};
use smidgen_core::sampler::SamplerSettings;
use smidgen_core::session::{Plan, Session, SessionOptions};
use smidgen_core::tokenizer::{Vocabulary, max_scratch_len};

const MODEL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/models/smidgen-260k-Q8_0.gguf");
const PROMPT: &str = "Lily saw a big dog. She asked her mom, \"Can I pet the dog?\" Mom said, \"";
const ANSWERS: [&str; 2] = ["Yes", "No"];

/// The answer that is likeliest behind `prompt`.
fn answer(file: &[u8], prompt: &str) -> Result<&'static str, Error> {
    let mut scratch = vec![0; Gguf::scratch_len(file)];
    let gguf = Gguf::parse(file, &mut scratch)?;
    let mut layers = vec![Layer::EMPTY; Model::layers_len(&gguf)];
    let model = Model::load(&[gguf], &mut layers)?;
    let mut index = vec![0; Vocabulary::index_len(&gguf)];
    let vocabulary = Vocabulary::load(&gguf, &mut index)?;
    let options = SessionOptions::new(KvType::F32, model.hyperparameters.n_ctx);
    let mut memory = vec![0; Plan::new(&model, &options).words()];
    let mut session = Session::in_memory(&model, options, &mut memory)?;

    let mut ids = vec![0; prompt.len() + 2];
    let mut scratch = vec![0; max_scratch_len(prompt.len())];
    let options = vocabulary.prompt_options();
    let count = vocabulary.encode_into(prompt.as_bytes(), options, &mut scratch, &mut ids)?;
    session.prompt(&ids[..count])?;

    // An answer may be several tokens, and begin with any of them that it begins with.
    let mut said = Vec::new();
    loop {
        let logits = session.logits_mut()?;
        for (id, logit) in (0..).zip(logits.iter_mut()) {
            let piece = vocabulary.piece(id).unwrap_or_default();
            let goes_on = |answer: &&str| {
                let rest = answer.as_bytes().strip_prefix(said.as_slice());
                rest.is_some_and(|rest| !piece.is_empty() && rest.starts_with(piece))
            };
            if !ANSWERS.iter().any(goes_on) {
                *logit = f32::NEG_INFINITY;
            }
        }
        if said.is_empty() {
            show_choice(logits, &vocabulary);
        }
        // The likeliest of what is left. `choose` takes other settings as well, and a die.
        let id = SamplerSettings::GREEDY.choose(logits, &[], &mut [], || 0.0)?;
        said.extend_from_slice(vocabulary.piece(id).unwrap_or_default());
        if let Some(answer) = ANSWERS.iter().find(|answer| answer.as_bytes() == said) {
            return Ok(answer);
        }
        session.step(id)?;
    }
}

/// How likely each first token is among those that are left.
fn show_choice(logits: &[f32], vocabulary: &Vocabulary<'_>) {
    let highest = logits.iter().copied().fold(f32::MIN, f32::max);
    let weights = logits.iter().map(|logit| (logit - highest).exp());
    let total: f32 = weights.clone().sum();
    for (id, weight) in (0..).zip(weights).filter(|(_, weight)| *weight > 0.0) {
        let piece = String::from_utf8_lossy(vocabulary.piece(id).unwrap_or_default());
        eprintln!("{:5.1} % {piece}", 100.0 * weight / total);
    }
}

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let prompt = args.next().unwrap_or_else(|| PROMPT.to_owned());
    let path = args.next().unwrap_or_else(|| MODEL.to_owned());
    let file = std::fs::read(&path).map_err(|error| error.to_string());
    let answer = file.and_then(|file| answer(&file, &prompt).map_err(|error| error.to_string()));
    match answer {
        Ok(answer) => {
            println!("{answer}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("yes_no: {path}: {error}");
            ExitCode::FAILURE
        }
    }
}
