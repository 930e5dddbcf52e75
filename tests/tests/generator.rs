//! Text from the core, as a program of its own would make it.

mod engine;

use std::ops::ControlFlow;

use engine::{Run, golden_json, ids, stories};
use smidgen_core::gguf::Gguf;
use smidgen_core::kv_cache::KvType;
use smidgen_core::sampler::{Sampler, SamplerSettings};
use smidgen_core::session::{
    GenerateError, GenerateOptions, Generated, Generator, GeneratorBuffers, Mask, Progress, Prompt,
    Session, SessionError, StopReason, held_len,
};
use smidgen_core::tokenizer::{EncodeError, Vocabulary};
use smidgen_io::FileBytes;

/// Runs `job` with stories260K's vocabulary.
fn with_vocabulary<T>(gguf: &Gguf<'_>, job: impl FnOnce(&Vocabulary<'_>) -> T) -> T {
    let mut index = vec![0; Vocabulary::index_len(gguf)];
    job(&Vocabulary::load(gguf, &mut index).unwrap())
}

/// Lengths of the buffers that a test gives.
#[derive(Clone, Copy)]
struct Lens {
    ids: usize,
    scratch: usize,
    held: Option<usize>,
}

const ENOUGH: Lens = Lens {
    ids: 64,
    scratch: 2048,
    held: None,
};

/// A greedy generator for some calls of `generate`.
struct Teller<'a> {
    file: &'a FileBytes,
    lens: Lens,
    options: GenerateOptions<'a>,
}

/// What a call gave out and returned.
type Told = (String, Result<Generated, GenerateError>);

impl Teller<'_> {
    fn new(file: &FileBytes) -> Teller<'_> {
        Teller {
            file,
            lens: ENOUGH,
            options: GenerateOptions::default(),
        }
    }

    fn tell(&self, session: &mut Session<'_>, prompts: &[Prompt<'_>]) -> Vec<Told> {
        self.tell_masked(session, prompts, &mut |_| {})
    }

    fn tell_masked(
        &self,
        session: &mut Session<'_>,
        prompts: &[Prompt<'_>],
        mask: &mut Mask<'_>,
    ) -> Vec<Told> {
        let gguf = self.file.gguf().unwrap();
        with_vocabulary(&gguf, |vocabulary| {
            let mut sampler = Sampler::new(SamplerSettings::GREEDY, 1).unwrap();
            let mut ids = vec![0; self.lens.ids];
            let mut scratch = vec![0; self.lens.scratch];
            let held = self.lens.held.unwrap_or(held_len(self.options.stop_texts));
            let buffers = GeneratorBuffers {
                ids: &mut ids,
                scratch: &mut scratch,
                recent: &mut [0; 64],
                held: &mut vec![0; held],
            };
            let mut generator = Generator::new(vocabulary, &mut sampler, buffers).with_mask(mask);
            let tell = |prompt: &Prompt<'_>| {
                let mut text = Vec::new();
                let mut sink = |bytes: &[u8]| {
                    text.extend(bytes);
                    ControlFlow::Continue(())
                };
                let result = generator.generate(session, *prompt, &self.options, &mut sink);
                (String::from_utf8(text).unwrap(), result)
            };
            prompts.iter().map(tell).collect()
        })
    }
}

/// The greedy continuation of a prompt: its ids and its text.
fn greedy(prompt: &str) -> (Vec<u32>, String) {
    let all = golden_json("stories260K/greedy.json").unwrap();
    let mut all = all.as_array().unwrap().iter();
    let story = all.find(|story| story["prompt"] == prompt).unwrap();
    let text = story["greedy_text"].as_str().unwrap();
    (ids(&story["greedy_ids"]), text.to_owned())
}

fn run(file: &FileBytes, window: usize) -> Run<'_> {
    Run::new(file, KvType::F32, window, 8)
}

#[test]
fn a_text_can_be_told_in_parts() {
    let Some(file) = stories("F32") else { return };
    let prompt = "Once upon a time";
    let (ids, text) = greedy(prompt);
    let mut teller = Teller::new(&file);
    teller.options.max_new_tokens = 10;
    teller.options.echo = true;
    run(&file, 256).with_session(|mut session| {
        let first = teller.tell(&mut session, &[Prompt::Text(prompt.as_bytes())]);
        let generated = first[0].1.unwrap();
        assert_eq!(generated.prompt_tokens, 5);
        assert_eq!(generated.new_tokens, 10);
        assert_eq!(generated.stop, StopReason::Length);
        assert_eq!(generated.last, Some(ids[14]));
        // The last token has not been taken.
        assert_eq!(session.position(), 14);
        assert!(text.starts_with(&first[0].0), "{}", first[0].0);

        // It begins the next part; then nothing, since its logits are there.
        teller.options.echo = false;
        teller.options.max_new_tokens = 5;
        let mut whole = first[0].0.clone();
        session.reset();
        let parts = [
            Prompt::Text(prompt.as_bytes()),
            Prompt::Ids(&ids[9..10]),
            Prompt::Ids(&ids[14..17]),
            Prompt::Ids(&[]),
        ];
        let told = teller.tell(&mut session, &parts[..2]);
        assert_eq!(format!("{prompt}{}{}", told[0].0, told[1].0), whole);
        teller.options.max_new_tokens = 0;
        let told = teller.tell(&mut session, &parts[2..3]);
        assert_eq!((told[0].0.as_str(), session.position()), ("", 17));
        teller.options.max_new_tokens = 3;
        let told = teller.tell(&mut session, &parts[3..]);
        assert_eq!(told[0].1.unwrap().prompt_tokens, 0);
        assert_eq!(told[0].1.unwrap().last, Some(ids[19]));
        whole.push_str(&told[0].0);
        assert!(session.position() == 19 && !told[0].0.is_empty());
    });
}

#[test]
fn a_text_in_a_text_has_no_bos() {
    let Some(file) = stories("F32") else { return };
    let mut teller = Teller::new(&file);
    teller.options.max_new_tokens = 0;
    teller.options.echo = true;
    run(&file, 64).with_session(|mut session| {
        let prompts = [Prompt::Text(b"Once upon"), Prompt::Text(b"a time")];
        let told = teller.tell(&mut session, &prompts);
        let tokens: Vec<_> = told
            .iter()
            .map(|told| told.1.unwrap().prompt_tokens)
            .collect();
        assert_eq!(tokens, [3, 2]);
        assert_eq!(format!("{}{}", told[0].0, told[1].0), "Once upon a time");
    });
}

#[test]
fn every_reason_to_stop() {
    let Some(file) = stories("F32") else { return };
    let (bos, eos) = with_vocabulary(&file.gguf().unwrap(), |vocabulary| {
        (vocabulary.bos().unwrap(), vocabulary.eos().unwrap())
    });
    let mut teller = Teller::new(&file);
    run(&file, 32).with_session(|mut session| {
        for (id, reason) in [(bos, StopReason::Bos), (eos, StopReason::Eos)] {
            // At the fourth choice nothing else is left.
            let mut choices = 0;
            let mut only = |logits: &mut [f32]| {
                choices += 1;
                if choices == 4 {
                    logits.fill(f32::NEG_INFINITY);
                    logits[id as usize] = 0.0;
                }
            };
            session.reset();
            let told = teller.tell_masked(&mut session, &[Prompt::Text(b"Once")], &mut only);
            let generated = told[0].1.unwrap();
            assert_eq!((generated.stop, generated.new_tokens), (reason, 3));
            assert_eq!(told[0].0, " upon a time");
        }
        session.reset();
        let told = teller.tell(&mut session, &[Prompt::Text(b"Once")]);
        let generated = told[0].1.unwrap();
        assert_eq!(generated.stop, StopReason::ContextFull);
        assert_eq!((session.position(), generated.new_tokens), (32, 31));

        // Found although tokens end elsewhere; the text before it is whole.
        session.reset();
        teller.options.stop_texts = &["never", "tle gir"];
        let told = teller.tell(&mut session, &[Prompt::Text(b"Once")]);
        let generated = told[0].1.unwrap();
        assert_eq!(generated.stop, StopReason::StopText { index: 1 });
        assert_eq!(told[0].0, " upon a time, there was a lit");
    });
}

#[test]
fn a_sink_can_have_enough() {
    let Some(file) = stories("F32") else { return };
    let gguf = file.gguf().unwrap();
    with_vocabulary(&gguf, |vocabulary| {
        run(&file, 64).with_session(|mut session| {
            let mut sampler = Sampler::new(SamplerSettings::GREEDY, 1).unwrap();
            let (mut ids, mut scratch) = ([0; 8], [0; 256]);
            let buffers = GeneratorBuffers {
                ids: &mut ids,
                scratch: &mut scratch,
                ..GeneratorBuffers::default()
            };
            let mut generator = Generator::new(vocabulary, &mut sampler, buffers);
            let mut text = Vec::<u8>::new();
            let mut sink = |bytes: &[u8]| {
                text.extend(bytes);
                match text.len() {
                    0..10 => ControlFlow::Continue(()),
                    _ => ControlFlow::Break(()),
                }
            };
            let options = GenerateOptions::default();
            let told = generator.generate(&mut session, Prompt::Text(b"Once"), &options, &mut sink);
            assert_eq!(told.unwrap().stop, StopReason::Sink);
            assert_eq!(text, b" upon a time");
        });
    });
}

#[test]
fn a_mask_sees_the_logits_and_forbids() {
    let Some(file) = stories("F32") else { return };
    let (ids, _) = greedy("Once upon a time");
    let mut teller = Teller::new(&file);
    teller.options.max_new_tokens = 3;
    run(&file, 64).with_session(|mut session| {
        let expected = session.prompt(&ids[..5]).unwrap().to_vec();
        session.reset();
        let mut seen = Vec::new();
        let mut mask = |logits: &mut [f32]| {
            seen.push(logits.to_vec());
            logits[ids[5] as usize] = f32::NEG_INFINITY;
        };
        let prompt = [Prompt::Ids(&ids[..5])];
        let told = teller.tell_masked(&mut session, &prompt, &mut mask);
        assert_eq!(told[0].1.unwrap().new_tokens, 3);
        assert_eq!(seen.len(), 3);
        assert_eq!(seen[0], expected);
        assert!(!told[0].0.contains(','), "{}", told[0].0);
    });
}

#[test]
fn errors_name_their_cause_and_change_nothing() {
    let Some(file) = stories("F32") else { return };
    let prompt = Prompt::Text(b"Once upon a time");
    run(&file, 4).with_session(|mut session| {
        let error = |teller: &Teller<'_>, session: &mut Session<'_>, prompt| {
            let (text, result) = teller.tell(session, &[prompt]).remove(0);
            assert_eq!((text.as_str(), session.position()), ("", 0));
            result.unwrap_err()
        };
        let teller = Teller::new(&file);
        let too_long = GenerateError::PromptTooLong {
            tokens: 5,
            room: 4,
            window: 4,
        };
        assert_eq!(error(&teller, &mut session, prompt), too_long);
        let words = "the prompt has 5 tokens, the context has room for 4";
        assert_eq!(too_long.to_string(), words);
        // Also where not even its ids have room.
        let mut small = Teller::new(&file);
        small.lens.ids = 2;
        assert_eq!(error(&small, &mut session, prompt), too_long);
        let encode = error(&small, &mut session, Prompt::Text(b"Once upon"));
        let (needed, found) = (3, 2);
        let expected = GenerateError::Encode(EncodeError::OutputLen { needed, found });
        assert_eq!(encode, expected);
        small.lens.scratch = 3;
        let encode = error(&small, &mut session, Prompt::Text(b"Once"));
        assert!(matches!(
            encode,
            GenerateError::Encode(EncodeError::Scratch { .. })
        ));

        let mut stops = Teller::new(&file);
        stops.options.stop_texts = &["abc"];
        stops.lens.held = Some(5);
        let (needed, given) = (6, 5);
        let expected = GenerateError::HeldTooSmall { needed, given };
        assert_eq!(error(&stops, &mut session, prompt), expected);
        stops.options.stop_texts = &["a", ""];
        assert_eq!(
            error(&stops, &mut session, prompt),
            GenerateError::EmptyStopText
        );

        let nothing = error(&teller, &mut session, Prompt::Ids(&[]));
        assert_eq!(nothing, GenerateError::Session(SessionError::NoTokens));
        let unknown = error(&teller, &mut session, Prompt::Ids(&[1, 600]));
        let (id, n_vocab) = (600, 512);
        let expected = GenerateError::Session(SessionError::Token { id, n_vocab });
        assert_eq!(unknown, expected);
    });
}

#[test]
fn a_ring_takes_prompts_longer_than_itself() {
    let Some(file) = stories("F32") else { return };
    let (ids, _) = greedy("Once upon a time");
    let mut teller = Teller::new(&file);
    teller.options.max_new_tokens = 100;
    teller.options.ignore_eos = true;
    let mut run = run(&file, 16);
    run.options.ring = true;
    run.with_session(|mut session| {
        let told = teller.tell(&mut session, &[Prompt::Ids(&ids[..60])]);
        let generated = told[0].1.unwrap();
        assert_eq!((generated.prompt_tokens, generated.new_tokens), (60, 100));
        assert_eq!(generated.stop, StopReason::Length);
        assert_eq!(session.position(), 159);
    });
}

#[test]
fn a_firmware_with_other_duties_takes_the_parts() {
    let Some(file) = stories("F32") else { return };
    let prompt = "Once upon a time";
    let (expected, _) = greedy(prompt);
    let gguf = file.gguf().unwrap();
    with_vocabulary(&gguf, |vocabulary| {
        run(&file, 64).with_session(|mut session| {
            let mut sampler = Sampler::new(SamplerSettings::GREEDY, 1).unwrap();
            let (mut ids, mut scratch) = ([0; 16], [0; 256]);
            let buffers = GeneratorBuffers {
                ids: &mut ids,
                scratch: &mut scratch,
                ..GeneratorBuffers::default()
            };
            let mut generator = Generator::new(vocabulary, &mut sampler, buffers);
            let mut duties = 0;
            let mut take = |session: &mut Session<'_>, ids: &[u32]| {
                session.start(ids).unwrap();
                while session.advance().unwrap() == Progress::Working {
                    duties += 1;
                }
            };
            let mut all = generator.encode(prompt.as_bytes(), true).unwrap().to_vec();
            take(&mut session, &all);
            while all.len() < 40 {
                let id = generator.choose(&mut session, false).unwrap();
                assert_eq!(generator.ends(id), None);
                all.push(id);
                take(&mut session, &[id]);
            }
            assert_eq!(all, expected[..40]);
            assert_eq!(duties, 36 * 5);
        });
    });
}

#[test]
fn a_vocabulary_of_another_size_is_refused() {
    let Some(file) = stories("F32") else { return };
    let shared = smidgen_tests::shared().unwrap();
    let other = FileBytes::open(shared.join("models/llama32000-vocab.gguf")).unwrap();
    run(&file, 8).with_session(|mut session| {
        let told = Teller::new(&other).tell(&mut session, &[Prompt::Ids(&[1])]);
        let (vocabulary, model) = (32000, 512);
        let expected = GenerateError::Vocabulary { vocabulary, model };
        assert_eq!(told[0].1, Err(expected));
    });
}
