//! A story as firmware tells it: no operating system, no heap, and all memory in statics whose
//! lengths the compiler works out. `static_buffers.rs` runs it on the PC.
//!
//! `cargo build -p smidgen-examples --lib --target thumbv7em-none-eabihf`
#![no_std]

use core::ops::ControlFlow;

use embedded_io::Write;
use smidgen_core::Error;
use smidgen_core::gguf::Gguf;
use smidgen_core::kv_cache::KvType;
use smidgen_core::model::{Hyperparameters, Layer, Model};
use smidgen_core::sampler::{Sampler, SamplerSettings};
use smidgen_core::session::{
    GenerateOptions, Generated, Generator, GeneratorBuffers, Plan, Prompt, Session, SessionOptions,
};
use smidgen_core::tokenizer::{Vocabulary, max_scratch_len};
use static_cell::ConstStaticCell;

/// What the story begins with.
pub const PROMPT: &str = "Once upon a time";

/// The model. The linker places it in flash, and there it stays: nothing of it is copied.
static MODEL: &[u8] = include_bytes!("models/smidgen-260k-Q8_0.gguf");

/// Its numbers, which `smidgen inspect` shows, for the lengths below. The file has the say: of a
/// model that is larger, [`tell`] says how much memory it takes.
const SHAPE: Hyperparameters = Hyperparameters {
    n_layers: 5,
    n_embd: 64,
    n_ff: 192,
    n_heads: 8,
    n_kv_heads: 4,
    head_dim: 8,
    n_vocab: 512,
    n_ctx: 512,
    rope_dim: 8,
    rope_freq_base: 10_000.0,
    rope_scale: 1.0,
    rms_eps: 1e-5,
};

/// Keys and values as bytes, and only of the last 128 positions: the oldest makes room.
pub const OPTIONS: SessionOptions = SessionOptions {
    ring: true,
    ..SessionOptions::new(KvType::Q8, 128)
};

/// What memory that takes, for weights in blocks of 32 (`Q8_0`, `Q4_0`, …) and none of 256.
pub const PLAN: Plan = Plan::with_forms(&SHAPE, &OPTIONS, true, false);

static MEMORY: ConstStaticCell<[u64; PLAN.words()]> = ConstStaticCell::new([0; PLAN.words()]);
static LAYERS: ConstStaticCell<[Layer<'static>; SHAPE.n_layers]> =
    ConstStaticCell::new([Layer::EMPTY; SHAPE.n_layers]);
static SCRATCH: ConstStaticCell<[u32; max_scratch_len(PROMPT.len())]> =
    ConstStaticCell::new([0; max_scratch_len(PROMPT.len())]);
static IDS: ConstStaticCell<[u32; PROMPT.len() + 2]> = ConstStaticCell::new([0; PROMPT.len() + 2]);

/// Tells a story of up to `tokens` tokens on a console, a UART for example. It ends early where the
/// console takes no more. To be called once: it takes the statics for good.
///
/// # Errors
/// The linked bytes are no model that can be run in this memory.
pub fn tell<W: Write>(console: &mut W, tokens: usize) -> Result<Generated, Error> {
    let gguf = Gguf::parse_small(MODEL)?;
    let model = Model::load(&[gguf], LAYERS.take())?;
    // The file has an index of its tokens, so that no memory is given for one.
    let vocabulary = Vocabulary::load(&gguf, &mut [])?;
    let mut session = Session::in_memory(&model, OPTIONS, MEMORY.take())?;

    let mut sampler = Sampler::new(SamplerSettings::GREEDY, 1)?;
    let buffers = GeneratorBuffers {
        ids: IDS.take(),
        scratch: SCRATCH.take(),
        ..GeneratorBuffers::default()
    };
    let options = GenerateOptions {
        max_new_tokens: tokens,
        echo: true,
        ..GenerateOptions::default()
    };
    let mut sink = |text: &[u8]| match console.write_all(text) {
        Ok(()) => ControlFlow::Continue(()),
        Err(_) => ControlFlow::Break(()),
    };
    let prompt = Prompt::Text(PROMPT.as_bytes());
    let generated = Generator::new(&vocabulary, &mut sampler, buffers).generate(
        &mut session,
        prompt,
        &options,
        &mut sink,
    )?;
    Ok(generated)
}
