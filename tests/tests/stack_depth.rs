//! How much stack a step takes: on boards it is a few KiB in all.
#![cfg(target_os = "linux")]

mod engine;

use std::ffi::c_void;
use std::ops::ControlFlow;

use engine::{KV_TYPES, Run, golden, stories};
use smidgen_core::kernels::Backend;
use smidgen_core::kv_cache::KvType;
use smidgen_core::sampler::{Sampler, SamplerSettings};
use smidgen_core::session::{
    GenerateOptions, Generator, GeneratorBuffers, Progress, Prompt, held_len,
};
use smidgen_core::tokenizer::Vocabulary;
use smidgen_io::FileBytes;

/// The most that a step, a prompt or a whole story may take.
const LIMIT: usize = 4096;
const PAINT: u64 = 0x5afe_5afe_5afe_5afe;

/// A job and where on the stack it began.
struct Job<'j> {
    job: &'j mut dyn FnMut(),
    began: usize,
}

extern "C" fn begin(argument: *mut c_void) -> *mut c_void {
    // SAFETY: `depth` passes a job that nobody else uses until this thread has ended.
    let job = unsafe { &mut *argument.cast::<Job<'_>>() };
    let here = 0_u8;
    job.began = (&raw const here).addr();
    (job.job)();
    std::ptr::null_mut()
}

/// Bytes of stack that a job takes, found by running it in a thread with a stack of paint.
fn depth(job: &mut (dyn FnMut() + Send)) -> usize {
    let mut stack = vec![PAINT; 1 << 16];
    let mut job = Job { job, began: 0 };
    // SAFETY: the calls are those of pthreads in their order; attributes, stack and job outlive the
    // thread, which is joined; the stack is aligned to 16 bytes, as long blocks of malloc are, and
    // larger than the least that a thread takes.
    unsafe {
        let mut attributes = std::mem::zeroed();
        let mut thread = std::mem::zeroed();
        assert_eq!(libc::pthread_attr_init(&mut attributes), 0);
        let bytes = size_of_val(&stack[..]);
        let start = stack.as_mut_ptr().cast();
        assert_eq!(
            libc::pthread_attr_setstack(&mut attributes, start, bytes),
            0
        );
        let argument = (&raw mut job).cast();
        assert_eq!(
            libc::pthread_create(&mut thread, &attributes, begin, argument),
            0
        );
        assert_eq!(libc::pthread_join(thread, std::ptr::null_mut()), 0);
        libc::pthread_attr_destroy(&mut attributes);
    }
    let clean = stack.iter().take_while(|word| **word == PAINT).count();
    assert!(clean > 0, "the stack has overflowed");
    job.began - stack.as_ptr().addr() - clean * size_of::<u64>()
}

#[inline(never)]
fn takes_a_kilobyte() {
    let mut bytes = [0_u8; 1024];
    std::hint::black_box(&mut bytes).fill(1);
    std::hint::black_box(&bytes);
}

#[test]
fn the_measure_measures() {
    let nothing = depth(&mut || {});
    let kilobyte = depth(&mut takes_a_kilobyte);
    assert!(nothing < 512, "{nothing}");
    assert!((1024..1024 + 512).contains(&kilobyte), "{kilobyte}");
}

#[test]
fn steps_and_prompts_take_less_than_4_kib() {
    let Some(folder) = golden() else { return };
    let types = [
        "F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "IQ4_NL",
    ];
    let mut files: Vec<_> = types.iter().map(|ty| stories(ty).unwrap()).collect();
    for ty in ["Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K"] {
        files.push(FileBytes::open(folder.join(format!("wide/wide-{ty}.gguf"))).unwrap());
    }
    for (number, file) in files.iter().enumerate() {
        for kv in &KV_TYPES[..if number < 4 { 4 } else { 1 }] {
            let mut run = Run::new(file, *kv, 40, 8);
            for backend in Backend::available() {
                run.backend = backend;
                run.with_session(|mut session| {
                    let place = format!("{}, {kv:?}, {}", file.path().display(), backend.name());
                    let check = |what: &str, job: &mut (dyn FnMut() + Send)| {
                        let taken = depth(job);
                        assert!(taken < LIMIT, "{place}: {what} takes {taken} bytes");
                    };
                    check("a prompt", &mut || {
                        assert!(session.prompt(&[7; 20]).is_ok());
                    });
                    check("a step", &mut || assert!(session.step(3).is_ok()));
                    check("a layer", &mut || {
                        session.start(&[1]).unwrap();
                        while session.advance() == Ok(Progress::Working) {}
                    });
                    assert_eq!(session.position(), 22);
                });
            }
        }
    }
}

#[test]
fn a_story_takes_less_than_4_kib() {
    let Some(file) = stories("Q8_0") else { return };
    let gguf = file.gguf().unwrap();
    let mut index = vec![0; Vocabulary::index_len(&gguf)];
    let vocabulary = Vocabulary::load(&gguf, &mut index).unwrap();
    let stop_texts = ["never"];
    let (mut ids, mut scratch, mut recent) = ([0; 32], [0; 512], [0; 64]);
    let mut held = [0; held_len(&["never"])];
    Run::new(&file, KvType::Q8, 64, 8).with_session(|mut session| {
        let settings = SamplerSettings {
            repeat_penalty: 1.2,
            ..SamplerSettings::default()
        };
        let mut sampler = Sampler::new(settings, 5).unwrap();
        let options = GenerateOptions {
            stop_texts: &stop_texts,
            ..GenerateOptions::default()
        };
        let taken = depth(&mut || {
            let buffers = GeneratorBuffers {
                ids: &mut ids,
                scratch: &mut scratch,
                recent: &mut recent,
                held: &mut held,
            };
            let mut generator = Generator::new(&vocabulary, &mut sampler, buffers);
            let prompt = Prompt::Text(b"Once upon a time");
            let mut sink = |_: &[u8]| ControlFlow::Continue(());
            generator
                .generate(&mut session, prompt, &options, &mut sink)
                .unwrap();
        });
        assert!(session.position() > 20);
        assert!(taken < LIMIT, "{taken} bytes");
    });
}
