//! Sessions without a buffer for logits: the same bits, the same stories.

mod engine;

use std::ops::ControlFlow;

use engine::stories;
use smidgen_core::LogitsHash;
use smidgen_core::gguf::Gguf;
use smidgen_core::kv_cache::KvType;
use smidgen_core::model::{Layer, Model};
use smidgen_core::sampler::{Sampler, SamplerSettings};
use smidgen_core::session::{
    GenerateError, GenerateOptions, Generator, GeneratorBuffers, Plan, Prompt, Session,
    SessionError, SessionOptions,
};
use smidgen_core::tokenizer::Vocabulary;
use smidgen_io::SessionMemory;

/// As on the smallest boards.
const RING: SessionOptions = SessionOptions {
    kv: KvType::Q8Row,
    window: 24,
    ring: true,
    batch: 1,
};

fn with_session<T>(gguf: Gguf<'_>, whole: bool, job: impl FnOnce(Session<'_>) -> T) -> T {
    let mut layers = vec![Layer::EMPTY; Model::layers_len(&gguf)];
    let model = Model::load(&[gguf], &mut layers).unwrap();
    let plan = Plan::new(&model, &RING);
    let plan = if whole { plan } else { plan.without_logits() };
    let mut memory = SessionMemory::new(&plan, &RING);
    let session = if whole {
        Session::new(&model, RING, memory.buffers())
    } else {
        Session::without_logits(&model, RING, memory.buffers())
    };
    job(session.unwrap())
}

/// A story and the hash of its logits.
fn story(gguf: Gguf<'_>, whole: bool, settings: SamplerSettings, scratch: usize) -> (String, u64) {
    with_session(gguf, whole, |mut session| {
        let mut index = vec![0; Vocabulary::index_len(&gguf)];
        let vocabulary = Vocabulary::load(&gguf, &mut index).unwrap();
        let mut sampler = Sampler::new(settings, 7).unwrap();
        let mut ids = [0; 32];
        let mut scratch = vec![0; scratch];
        let mut recent = [0; 16];
        let buffers = GeneratorBuffers {
            ids: &mut ids,
            scratch: &mut scratch,
            recent: &mut recent,
            held: &mut [],
        };
        let options = GenerateOptions {
            max_new_tokens: 120,
            ignore_eos: true,
            ..GenerateOptions::default()
        };
        let mut hash = LogitsHash::new();
        let mut watch = |_: u32, logits: &[f32]| hash.update(logits);
        let mut text = Vec::new();
        let mut sink = |bytes: &[u8]| {
            text.extend(bytes);
            ControlFlow::Continue(())
        };
        let prompt = Prompt::Text(b"Once upon a time");
        Generator::new(&vocabulary, &mut sampler, buffers)
            .with_watch(&mut watch)
            .generate(&mut session, prompt, &options, &mut sink)
            .unwrap();
        (String::from_utf8(text).unwrap(), hash.value())
    })
}

#[test]
fn the_story_is_that_of_a_session_with_all_logits() {
    for ty in ["F32", "Q8_0", "Q4_0"] {
        let Some(file) = stories(ty) else { return };
        let gguf = file.gguf().unwrap();
        let of_all = [
            SamplerSettings::GREEDY,
            SamplerSettings::LLAMA2C,
            SamplerSettings {
                repeat_penalty: 1.1,
                ..SamplerSettings::default()
            },
            SamplerSettings {
                temperature: 2.5,
                top_p: 0.999,
                ..SamplerSettings::LLAMA2C
            },
        ];
        for settings in of_all {
            let expected = story(gguf, true, settings, 500);
            assert!(expected.0.len() > 100);
            // Enough to encode the prompt; the tokens of a flat choice do not fit.
            assert_eq!(
                story(gguf, false, settings, 90),
                expected,
                "{ty}: {settings:?}"
            );
        }
    }
}

#[test]
fn chunks_are_the_logits_as_often_as_asked_for() {
    let Some(file) = stories("Q8_0") else { return };
    let gguf = file.gguf().unwrap();
    let expected = with_session(gguf, true, |mut session| {
        session.prompt(&[1, 403, 407]).unwrap().to_vec()
    });
    with_session(gguf, false, |mut session| {
        let mut nothing = |_: u32, _: &mut [f32]| panic!("no logits yet");
        let error = session.logits_in_chunks(&mut nothing).unwrap_err();
        assert_eq!(error, SessionError::NoLogits);
        assert_eq!(session.step(1).unwrap_err(), SessionError::InChunks);
        assert_eq!(session.position(), 0);
        session.take(&[1, 403, 407]).unwrap();
        assert_eq!(session.logits().unwrap_err(), SessionError::InChunks);
        for _ in 0..3 {
            let mut found = Vec::new();
            let mut chunks = 0;
            let mut each = |first: u32, logits: &mut [f32]| {
                assert_eq!(first as usize, found.len());
                found.extend_from_slice(logits);
                logits.fill(f32::NAN);
                chunks += 1;
            };
            session.logits_in_chunks(&mut each).unwrap();
            assert_eq!(found, expected);
            assert!(chunks > 1);
        }
        // A step that yields ends in the same place.
        session.reset();
        session.take(&[1, 403]).unwrap();
        session.start(&[407]).unwrap();
        let error = session.logits_in_chunks(&mut |_, _| {}).unwrap_err();
        assert_eq!(error, SessionError::Busy);
        while session.advance().unwrap() == smidgen_core::session::Progress::Working {}
        let mut found = Vec::new();
        let mut each = |_: u32, logits: &mut [f32]| found.extend_from_slice(logits);
        session.logits_in_chunks(&mut each).unwrap();
        assert_eq!(found, expected);
    });
}

#[test]
fn the_buffer_for_logits_is_saved() {
    let Some(file) = stories("Q8_0") else { return };
    let gguf = file.gguf().unwrap();
    let mut layers = vec![Layer::EMPTY; Model::layers_len(&gguf)];
    let model = Model::load(&[gguf], &mut layers).unwrap();
    let plan = Plan::new(&model, &RING);
    assert_eq!(plan.floats - plan.without_logits().floats, 512);
    let mut memory = SessionMemory::new(&plan.without_logits(), &RING);
    let error = Session::new(&model, RING, memory.buffers()).unwrap_err();
    assert!(matches!(
        error,
        SessionError::BufferTooSmall {
            buffer: "floats",
            ..
        }
    ));
}

#[test]
fn a_mask_wants_all_logits() {
    let Some(file) = stories("F32") else { return };
    let gguf = file.gguf().unwrap();
    with_session(gguf, false, |mut session| {
        let mut index = vec![0; Vocabulary::index_len(&gguf)];
        let vocabulary = Vocabulary::load(&gguf, &mut index).unwrap();
        let mut sampler = Sampler::new(SamplerSettings::GREEDY, 1).unwrap();
        let mut mask = |_: &mut [f32]| {};
        let error = Generator::new(&vocabulary, &mut sampler, GeneratorBuffers::default())
            .with_mask(&mut mask)
            .generate(
                &mut session,
                Prompt::Ids(&[1]),
                &GenerateOptions::default(),
                &mut |_| ControlFlow::Continue(()),
            );
        assert_eq!(error.unwrap_err(), GenerateError::MaskInChunks);
    });
}
