//! A whole story without the heap: an allocator that ends the process watches over it.

mod engine;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ops::ControlFlow;
use std::sync::Mutex;

use engine::{golden_json, stories};
use smidgen_core::gguf::Gguf;
use smidgen_core::kv_cache::{KvBuffers, KvType};
use smidgen_core::model::{Layer, Model};
use smidgen_core::quant::Q8Act;
use smidgen_core::sampler::{Sampler, SamplerSettings};
use smidgen_core::session::{
    Buffers, GenerateOptions, Generator, GeneratorBuffers, Plan, Prompt, Session, SessionOptions,
    StopReason, held_len,
};
use smidgen_core::tokenizer::Vocabulary;

/// The system's allocator, which a thread can forbid itself.
struct Watched;

thread_local! {
    static FORBIDDEN: Cell<bool> = const { Cell::new(false) };
}

// SAFETY: all is passed on to the system's allocator unchanged, or the process ends.
unsafe impl GlobalAlloc for Watched {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if FORBIDDEN.get() {
            // A panic would allocate.
            std::process::abort();
        }
        // SAFETY: the caller keeps the contract, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        if FORBIDDEN.get() {
            std::process::abort();
        }
        // SAFETY: as above; the pointer is from `alloc` and so from the system's allocator.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Watched = Watched;

const STOP_TEXTS: [&str; 2] = ["The moral", "\u{1f600}"];
const WINDOW: usize = 256;
const KV_ELEMENTS: usize = 5 * 2 * 32 * WINDOW;

/// All memory of a story. The lengths are those of stories260K, as a firmware would write them.
struct Memory {
    scratch: [u32; 1024],
    index: [u32; 1025],
    layers: [Layer<'static>; 5],
    floats: [f32; 6000],
    q8: [Q8Act; 24],
    ints: [i16; WINDOW + 8],
    steps: [u64; 4],
    keys_values: [f32; KV_ELEMENTS],
    qs: [i8; KV_ELEMENTS],
    scales: [u16; KV_ELEMENTS / 8],
    ids: [u32; 64],
    recent: [u32; 64],
    held: [u8; held_len(&STOP_TEXTS)],
    text: [u8; 2048],
}

impl Memory {
    const EMPTY: Self = Self {
        scratch: [0; 1024],
        index: [0; 1025],
        layers: [Layer::EMPTY; 5],
        floats: [0.0; 6000],
        q8: [Q8Act::ZERO; 24],
        ints: [0; WINDOW + 8],
        steps: [0; 4],
        keys_values: [0.0; KV_ELEMENTS],
        qs: [0; KV_ELEMENTS],
        scales: [0; KV_ELEMENTS / 8],
        ids: [0; 64],
        recent: [0; 64],
        held: [0; held_len(&STOP_TEXTS)],
        text: [0; 2048],
    };
}

static MEMORY: Mutex<Memory> = Mutex::new(Memory::EMPTY);

#[test]
fn a_story_takes_no_heap() {
    let (Some(f32s), Some(q8_0)) = (stories("F32"), stories("Q8_0")) else {
        return;
    };
    let (f32s, q8_0) = (Box::leak(Box::new(f32s)), Box::leak(Box::new(q8_0)));
    let golden = golden_json("stories260K/greedy.json").unwrap();
    let mut golden = golden.as_array().unwrap().iter();
    let golden = golden.find(|story| story["prompt"] == PROMPT).unwrap();
    let golden = golden["greedy_text"].as_str().unwrap();
    let mut memory = MEMORY.lock().unwrap();
    let memory = &mut *memory;

    FORBIDDEN.set(true);
    let (len, stop) = tell(f32s, memory, KvType::F32, SamplerSettings::GREEDY);
    FORBIDDEN.set(false);
    let text = std::str::from_utf8(&memory.text[..len]).unwrap();
    // A full cache has a last answer, behind the 256 tokens of the golden text.
    assert_eq!(text, format!("{golden}."));
    assert_eq!(stop, StopReason::ContextFull);

    FORBIDDEN.set(true);
    let settings = SamplerSettings {
        repeat_penalty: 1.1,
        ..SamplerSettings::default()
    };
    let (len, _) = tell(q8_0, memory, KvType::Q8, settings);
    FORBIDDEN.set(false);
    let text = std::str::from_utf8(&memory.text[..len]).unwrap();
    assert!(text.starts_with(PROMPT) && len > 400, "{text}");
}

const PROMPT: &str = "Once upon a time";

/// Parses, loads, and tells a story; gives the length of its text and why it ended.
fn tell(
    file: &'static [u8],
    memory: &mut Memory,
    kv: KvType,
    settings: SamplerSettings,
) -> (usize, StopReason) {
    let gguf = Gguf::parse(file, &mut memory.scratch).unwrap();
    let model = Model::load(&[gguf], &mut memory.layers).unwrap();
    let options = SessionOptions {
        kv,
        window: WINDOW,
        ring: false,
        batch: 4,
    };
    assert!(Plan::new(&model, &options).bytes() < size_of::<Memory>());
    let buffers = Buffers {
        floats: &mut memory.floats,
        q8: &mut memory.q8,
        q8k: &mut [],
        ints: &mut memory.ints,
        steps: &mut memory.steps,
        kv: match kv {
            KvType::F32 => KvBuffers::F32(&mut memory.keys_values),
            _ => KvBuffers::Q8 {
                qs: &mut memory.qs,
                scales: &mut memory.scales,
            },
        },
    };
    let mut session = Session::new(&model, options, buffers).unwrap();
    let vocabulary = Vocabulary::load(&gguf, &mut memory.index).unwrap();
    let mut sampler = Sampler::new(settings, 1).unwrap();
    let buffers = GeneratorBuffers {
        ids: &mut memory.ids,
        scratch: &mut memory.scratch,
        recent: &mut memory.recent,
        held: &mut memory.held,
    };
    let options = GenerateOptions {
        max_new_tokens: usize::MAX,
        stop_texts: &STOP_TEXTS,
        ignore_eos: false,
        echo: true,
    };
    let mut len = 0;
    let text = &mut memory.text;
    let mut sink = |bytes: &[u8]| {
        text[len..len + bytes.len()].copy_from_slice(bytes);
        len += bytes.len();
        ControlFlow::Continue(())
    };
    let prompt = Prompt::Text(PROMPT.as_bytes());
    let generated = Generator::new(&vocabulary, &mut sampler, buffers)
        .generate(&mut session, prompt, &options, &mut sink)
        .unwrap();
    (len, generated.stop)
}
