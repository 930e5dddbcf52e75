//! The program that tells a story.

use embedded_io::Write as _;
use smidgen_core::LogitsHash;
use smidgen_core::gguf::Gguf;
use smidgen_core::model::Model;
use smidgen_core::sampler::Sampler;
use smidgen_core::session::Session;
use smidgen_core::tokenizer::{Decoder, Vocabulary};

use crate::program::say;
use crate::{Board, Failure, Linked, Memory, Request};

/// Tells a story, and behind it what was asked for and how deep the stack was.
///
/// # Errors
/// A model that cannot be run, a prompt that cannot be encoded, no room.
pub fn story<B: Board>(
    board: &mut B,
    linked: &Linked,
    memory: Memory<'_>,
    request: &Request<'static>,
) -> Result<(), Failure> {
    let gguf = Gguf::parse_small(linked.model)?;
    let vocabulary = Vocabulary::load(&gguf, memory.index)?;
    let model = Model::load(&[gguf], memory.layers)?;
    let session = Session::new(&model, linked.options, memory.buffers)?;
    let mut session = session.with_backend(request.backend);
    let mut sampler = Sampler::new(request.settings, request.seed)?;
    let mut decoder = Decoder::new();
    let mut hash = LogitsHash::new();

    let options = vocabulary.encode_options();
    let console = board.console();
    let mut done: Result<(), Failure> = Ok(());
    let prompt = request.prompt.as_bytes();
    vocabulary.encode(prompt, options, memory.scratch, &mut |id| {
        let show = &mut |text: &[u8]| drop(console.write_all(text));
        if done.is_ok() {
            done = session.step(id).map(drop).map_err(Failure::from);
        }
        if done.is_ok() {
            done = decoder.push(&vocabulary, id, show).map_err(Failure::from);
        }
    })?;
    done?;
    for _ in 0..request.tokens {
        hash.update(session.logits()?);
        let id = sampler.sample(session.logits_mut()?, &[], &mut [])?;
        if Some(id) == vocabulary.eos() || Some(id) == vocabulary.bos() {
            break;
        }
        decoder.push(&vocabulary, id, &mut |text| {
            let _ = console.write_all(text);
        })?;
        session.step(id)?;
    }
    decoder.finish(&mut |text| {
        let _ = console.write_all(text);
    });
    say(console, format_args!("\n"));
    if request.logits_hash {
        say(console, format_args!("logits-hash: {:016x}\n", hash.value()));
    }
    let stack = board.stack();
    let (used, size) = (stack.high_water(), stack.size());
    say(board.console(), format_args!("stack: {used} of {size} bytes\n"));
    Ok(())
}
