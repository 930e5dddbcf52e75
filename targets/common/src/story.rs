//! The program that tells a story.

use core::mem::take;
use core::ops::ControlFlow;

use embedded_io::Write;
use smidgen_core::LogitsHash;
use smidgen_core::gguf::Gguf;
use smidgen_core::kernels::Backend;
use smidgen_core::model::Model;
use smidgen_core::sampler::Sampler;
use smidgen_core::session::{GenerateOptions, Generator, GeneratorBuffers, Prompt, Session};
use smidgen_core::tokenizer::Vocabulary;
use static_cell::StaticCell;

use crate::program::say;
use crate::{Board, Failure, Linked, Memory, Request};

/// Tells a story, and behind it what was asked for and how deep the stack was.
///
/// # Errors
/// A model that cannot be run, a prompt that cannot be encoded, no room.
#[inline(never)] // A frame of its own: boards have little stack.
pub fn story<B: Board>(
    board: &mut B,
    linked: &Linked,
    memory: &'static mut Memory,
    request: &Request<'static>,
) -> Result<(), Failure> {
    let (vocabulary, session) = prepare(linked, memory, request.backend)?;
    let buffers = GeneratorBuffers {
        ids: take(&mut memory.ids),
        scratch: take(&mut memory.scratch),
        ..GeneratorBuffers::default()
    };
    tell(board.console(), vocabulary, session, buffers, request)?;
    let stack = board.stack();
    let (used, size) = (stack.high_water(), stack.size());
    say(
        board.console(),
        format_args!("stack: {used} of {size} bytes\n"),
    );
    Ok(())
}

/// All that a story is told with, each in a place of its own.
#[inline(never)] // A frame of its own: boards have little stack.
fn prepare(
    linked: &Linked,
    memory: &mut Memory,
    backend: Backend,
) -> Result<(&'static Vocabulary<'static>, &'static mut Session<'static>), Failure> {
    let model = open(linked.model, memory)?;
    let vocabulary = vocabulary(linked.model, memory)?;
    let session = start(linked, model, memory, backend)?;
    Ok((vocabulary, session))
}

/// The model of a file, in a place of its own.
#[inline(never)] // As above.
fn open(bytes: &'static [u8], memory: &mut Memory) -> Result<&'static Model<'static>, Failure> {
    static MODEL: StaticCell<Model<'static>> = StaticCell::new();
    let gguf = Gguf::parse_small(bytes)?;
    match Model::load(&[gguf], take(&mut memory.layers)) {
        Ok(model) => Ok(MODEL.init(model)),
        Err(error) => Err(error.into()),
    }
}

/// The vocabulary of a file, in a place of its own.
#[inline(never)] // As above.
fn vocabulary(
    bytes: &'static [u8],
    memory: &mut Memory,
) -> Result<&'static Vocabulary<'static>, Failure> {
    static VOCABULARY: StaticCell<Vocabulary<'static>> = StaticCell::new();
    let gguf = Gguf::parse_small(bytes)?;
    match Vocabulary::load(&gguf, take(&mut memory.index)) {
        Ok(vocabulary) => Ok(VOCABULARY.init(vocabulary)),
        Err(error) => Err(error.into()),
    }
}

/// A session, in a place of its own.
#[inline(never)] // As above.
fn start(
    linked: &Linked,
    model: &'static Model<'static>,
    memory: &mut Memory,
    backend: Backend,
) -> Result<&'static mut Session<'static>, Failure> {
    static SESSION: StaticCell<Session<'static>> = StaticCell::new();
    match linked.session(model, memory.take_buffers()) {
        Ok(session) => Ok(SESSION.init(session.with_backend(backend))),
        Err(error) => Err(error.into()),
    }
}

/// The story, and the hash of its logits if it was asked for.
#[inline(never)] // A frame of its own: boards have little stack.
fn tell(
    console: &mut impl Write,
    vocabulary: &Vocabulary<'_>,
    session: &mut Session<'_>,
    buffers: GeneratorBuffers<'_>,
    request: &Request<'static>,
) -> Result<(), Failure> {
    let mut sampler = Sampler::new(request.settings, request.seed)?;
    let mut hash = LogitsHash::new();
    let mut hashed = 0_usize;
    let mut watch = |first: u32, logits: &[f32]| {
        if request.logits_hash {
            hash.update(logits);
            hashed += usize::from(first == 0);
        }
    };
    let options = GenerateOptions {
        max_new_tokens: request.tokens,
        echo: true,
        ..GenerateOptions::default()
    };
    let prompt = Prompt::Text(request.prompt.as_bytes());
    let mut sink = |text: &[u8]| match console.write_all(text) {
        Ok(()) => ControlFlow::Continue(()),
        Err(_) => ControlFlow::Break(()),
    };
    Generator::new(vocabulary, &mut sampler, buffers)
        .with_watch(&mut watch)
        .generate(session, prompt, &options, &mut sink)?;
    say(console, format_args!("\n"));
    if request.logits_hash {
        let hash = hash.value();
        say(
            console,
            format_args!("logits hash: {hash:016x} ({hashed} positions)\n"),
        );
    }
    Ok(())
}
