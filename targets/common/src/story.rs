//! The program that tells a story.

use core::ops::ControlFlow;

use embedded_io::Write as _;
use smidgen_core::LogitsHash;
use smidgen_core::gguf::Gguf;
use smidgen_core::model::Model;
use smidgen_core::sampler::Sampler;
use smidgen_core::session::{GenerateOptions, Generator, GeneratorBuffers, Prompt, Session};
use smidgen_core::tokenizer::Vocabulary;

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
    let buffers = GeneratorBuffers {
        ids: memory.ids,
        scratch: memory.scratch,
        ..GeneratorBuffers::default()
    };
    let mut hash = LogitsHash::new();
    let mut hashed = 0_usize;
    let mut mask = |logits: &mut [f32]| {
        if request.logits_hash {
            hash.update(logits);
            hashed += 1;
        }
    };
    let options = GenerateOptions {
        max_new_tokens: request.tokens,
        echo: true,
        ..GenerateOptions::default()
    };
    let prompt = Prompt::Text(request.prompt.as_bytes());
    let console = board.console();
    let mut sink = |text: &[u8]| match console.write_all(text) {
        Ok(()) => ControlFlow::Continue(()),
        Err(_) => ControlFlow::Break(()),
    };
    Generator::new(&vocabulary, &mut sampler, buffers)
        .with_mask(&mut mask)
        .generate(&mut session, prompt, &options, &mut sink)?;
    say(console, format_args!("\n"));
    if request.logits_hash {
        let hash = hash.value();
        say(
            console,
            format_args!("logits hash: {hash:016x} ({hashed} positions)\n"),
        );
    }
    let stack = board.stack();
    let (used, size) = (stack.high_water(), stack.size());
    say(
        board.console(),
        format_args!("stack: {used} of {size} bytes\n"),
    );
    Ok(())
}
