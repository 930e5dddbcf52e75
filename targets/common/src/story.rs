//! The program that tells a story.

use core::mem::take;
use core::ops::ControlFlow;

use embedded_io::Write;
use smidgen_core::gguf::Gguf;
use smidgen_core::kernels::Backend;
use smidgen_core::model::Model;
use smidgen_core::sampler::Sampler;
use smidgen_core::session::{GenerateOptions, Generator, GeneratorBuffers, Prompt, Session};
use smidgen_core::tokenizer::Vocabulary;
use smidgen_core::{Hex, LogitsHash, Number};
use static_cell::StaticCell;

use crate::program::say;
use crate::{Board, Failure, Linked, Memory, Request};

/// Tells a story, and behind it what was asked for and how deep the stack was.
///
/// # Errors
/// A model that is not what was linked or cannot be run, a prompt that cannot be encoded, no room.
pub fn story<B: Board>(
    board: &mut B,
    linked: &Linked,
    memory: &'static mut Memory,
    request: &Request<'static>,
) -> Result<(), &'static Failure> {
    // Each step has a frame of its own and leaves what it makes in a place of its own: boards have
    // little stack.
    linked.check()?;
    let gguf = parse(linked.model)?;
    let vocabulary = vocabulary(gguf, memory)?;
    let model = load(gguf, memory)?;
    let session = start(linked, model, memory, request.backend)?;
    let sampler = sampler(request)?;
    let hash = tell(
        board.console(),
        vocabulary,
        session,
        sampler,
        memory,
        request,
    )?;
    report(board, hash);
    Ok(())
}

/// What a file holds.
#[inline(never)]
fn parse(bytes: &'static [u8]) -> Result<&'static Gguf<'static>, &'static Failure> {
    static GGUF: StaticCell<Gguf<'static>> = StaticCell::new();
    match Gguf::parse_small(bytes) {
        Ok(gguf) => Ok(GGUF.init(gguf)),
        Err(error) => Err(error.into()),
    }
}

/// The model of a file.
#[inline(never)]
fn load(
    gguf: &'static Gguf<'static>,
    memory: &mut Memory,
) -> Result<&'static Model<'static>, &'static Failure> {
    static MODEL: StaticCell<Model<'static>> = StaticCell::new();
    match Model::load(core::slice::from_ref(gguf), take(&mut memory.layers)) {
        Ok(model) => Ok(MODEL.init(model)),
        Err(error) => Err(error.into()),
    }
}

/// The vocabulary of a file.
#[inline(never)]
fn vocabulary(
    gguf: &'static Gguf<'static>,
    memory: &mut Memory,
) -> Result<&'static Vocabulary<'static>, &'static Failure> {
    static VOCABULARY: StaticCell<Vocabulary<'static>> = StaticCell::new();
    match Vocabulary::load(gguf, take(&mut memory.index)) {
        Ok(vocabulary) => Ok(VOCABULARY.init(vocabulary)),
        Err(error) => Err(error.into()),
    }
}

/// A session.
#[inline(never)]
fn start(
    linked: &Linked,
    model: &'static Model<'static>,
    memory: &mut Memory,
    backend: Backend,
) -> Result<&'static mut Session<'static>, &'static Failure> {
    static SESSION: StaticCell<Session<'static>> = StaticCell::new();
    match linked.session(model, memory.take_buffers()) {
        Ok(session) => Ok(SESSION.init(session.with_backend(backend))),
        Err(error) => Err(error.into()),
    }
}

/// What chooses tokens.
#[inline(never)]
fn sampler(request: &Request<'_>) -> Result<&'static mut Sampler, &'static Failure> {
    static SAMPLER: StaticCell<Sampler> = StaticCell::new();
    match Sampler::new(request.settings, request.seed) {
        Ok(sampler) => Ok(SAMPLER.init(sampler)),
        Err(error) => Err(error.into()),
    }
}

/// The hash of the logits of a story, and of how many positions they are.
#[derive(Clone, Copy)]
struct Hashed {
    hash: LogitsHash,
    positions: u32,
}

/// The story; the answer is the hash of its logits if it was asked for.
#[inline(never)]
fn tell(
    console: &mut impl Write,
    vocabulary: &Vocabulary<'_>,
    session: &mut Session<'_>,
    sampler: &mut Sampler,
    memory: &mut Memory,
    request: &Request<'static>,
) -> Result<Option<Hashed>, &'static Failure> {
    let mut hashed = request.logits_hash.then(|| Hashed {
        hash: LogitsHash::new(),
        positions: 0,
    });
    let mut watch = |first: u32, logits: &[f32]| {
        if let Some(hashed) = &mut hashed {
            hashed.hash.update(logits);
            hashed.positions += u32::from(first == 0);
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
    let buffers = GeneratorBuffers {
        ids: take(&mut memory.ids),
        scratch: take(&mut memory.scratch),
        ..GeneratorBuffers::default()
    };
    Generator::new(vocabulary, sampler, buffers)
        .with_watch(&mut watch)
        .generate(session, prompt, &options, &mut sink)?;
    Ok(hashed)
}

/// What comes behind a story.
#[inline(never)]
fn report<B: Board>(board: &mut B, hashed: Option<Hashed>) {
    let stack = board.stack();
    let console = board.console();
    say(console, format_args!("\n"));
    if let Some(Hashed { hash, positions }) = hashed {
        let (hash, positions) = (Hex::<16>(hash.value()), Number(positions.into()));
        say(
            console,
            format_args!("logits hash: {hash} ({positions} positions)\n"),
        );
    }
    let (used, size) = (stack.high_water(), stack.size());
    let (used, size) = (Number(used as u64), Number(size as u64));
    say(console, format_args!("stack: {used} of {size} bytes\n"));
}
