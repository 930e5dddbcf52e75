//! The boards' console, on this machine: everything that can be typed, and every state of the flash.

mod engine;

use std::collections::VecDeque;
use std::convert::Infallible;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};

use embedded_io::{ErrorType, Read, ReadReady, Write};
use engine::{Run, stories};
use proptest::prelude::*;
use smidgen_console::{Chip, LINE, Memory, logits_hash, run};
use smidgen_core::kv_cache::KvType;
use smidgen_core::model::Layer;
use smidgen_core::sampler::{Sampler, SamplerSettings};
use smidgen_core::session::{
    GenerateOptions, Generator, GeneratorBuffers, Prompt, Session, SessionOptions, StopReason,
};
use smidgen_core::tokenizer::Vocabulary;
use smidgen_core::{LogitsHash, ModelImage};

/// This machine.
struct Pc;

static PAUSES: AtomicUsize = AtomicUsize::new(0);

impl Chip for Pc {
    const NAME: &'static str = "this machine";

    fn begin() {}

    fn pause() {
        PAUSES.fetch_add(1, Ordering::Relaxed);
    }

    fn report(to: &mut dyn fmt::Write) -> fmt::Result {
        writeln!(to, "the report of the chip")
    }
}

/// A terminal at which someone types: some of it only when something has been shown.
#[derive(Default)]
struct Typist {
    input: VecDeque<u8>,
    /// Typed when the screen shows so many bytes or more.
    later: Option<(usize, u8)>,
    screen: Vec<u8>,
}

impl Typist {
    fn new(input: &[u8]) -> Self {
        Self {
            input: input.iter().copied().collect(),
            ..Self::default()
        }
    }

    fn screen(&self) -> String {
        String::from_utf8(self.screen.clone())
            .unwrap()
            .replace("\r\n", "\n")
    }
}

impl ErrorType for Typist {
    type Error = Infallible;
}

impl Read for Typist {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Infallible> {
        let key = match self.later.take_if(|(shown, _)| self.screen.len() >= *shown) {
            Some((_, key)) => Some(key),
            None => self.input.pop_front(),
        };
        Ok(match (key, buffer.first_mut()) {
            (Some(key), Some(place)) => {
                *place = key;
                1
            }
            _ => 0,
        })
    }
}

impl ReadReady for Typist {
    /// What is typed later interrupts; the rest is typed at the prompt.
    fn read_ready(&mut self) -> Result<bool, Infallible> {
        Ok(self
            .later
            .is_some_and(|(shown, _)| self.screen.len() >= shown))
    }
}

impl Write for Typist {
    fn write(&mut self, bytes: &[u8]) -> Result<usize, Infallible> {
        self.screen.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> Result<(), Infallible> {
        Ok(())
    }
}

fn talk(mut typist: Typist, region: &[u8], ram: usize) -> String {
    let mut layers = [Layer::EMPTY; 8];
    let mut words = vec![0; ram / 8];
    let memory = Memory {
        layers: &mut layers,
        words: &mut words,
    };
    let Ok(()) = run::<Pc, _>(&mut typist, region, memory);
    typist.screen()
}

/// stories260K, packed; with 8 bits if not said otherwise.
fn image() -> Option<Vec<u8>> {
    let file = stories("Q8_0")?;
    let hash = Run::new(&file, KvType::Q8, 16, 1)
        .with_session(|mut session: Session<'_>| logits_hash(&mut session).unwrap());
    Some([&ModelImage::header(&file, hash)[..], &file].concat())
}

/// A story with its hash, as a session tells it without a console.
fn told(prompt: &str, settings: SamplerSettings, seed: u64, n: usize) -> (String, String) {
    let file = stories("Q8_0").unwrap();
    let mut of_run = Run::new(&file, KvType::Q8, 128, 1);
    of_run.options = SessionOptions {
        ring: true,
        ..of_run.options
    };
    of_run.with_session(|mut session| {
        let vocabulary = Vocabulary::load(&of_run.gguf, &mut []).unwrap();
        let mut sampler = Sampler::new(settings, seed).unwrap();
        let (mut ids, mut scratch) = ([0; 200], [0; 2000]);
        let buffers = GeneratorBuffers {
            ids: &mut ids,
            scratch: &mut scratch,
            ..GeneratorBuffers::default()
        };
        let (mut hash, mut positions) = (LogitsHash::new(), 0);
        let mut mask = |logits: &mut [f32]| {
            hash.update(logits);
            positions += 1;
        };
        let options = GenerateOptions {
            max_new_tokens: n,
            echo: true,
            ..GenerateOptions::default()
        };
        let mut text = Vec::new();
        let generated = Generator::new(&vocabulary, &mut sampler, buffers)
            .with_mask(&mut mask)
            .generate(
                &mut session,
                Prompt::Text(prompt.as_bytes()),
                &options,
                &mut |part| {
                    text.extend_from_slice(part);
                    ControlFlow::Continue(())
                },
            );
        assert_ne!(generated.unwrap().stop, StopReason::Sink);
        let hash = format!("logits hash: {:016x} ({positions} positions)", hash.value());
        (String::from_utf8(text).unwrap(), hash)
    })
}

#[test]
fn stories_are_those_of_the_engine() {
    let Some(image) = image() else { return };
    let pauses = PAUSES.load(Ordering::Relaxed);
    let screen = talk(
        Typist::new(
            b"/report on\r/n 100\r/temp 0\rOnce upon a time\r/temp 0.8\r/seed 7\rOne day, Lily\r",
        ),
        &image,
        112 << 10,
    );
    let greedy = told("Once upon a time", SamplerSettings::GREEDY, 1, 100);
    let seeded = SamplerSettings {
        temperature: 0.8,
        ..SamplerSettings::LLAMA2C
    };
    let seeded = told("One day, Lily", seeded, 7, 100);
    for (typed, seed, (text, hash)) in [
        ("Once upon a time", 1, greedy),
        ("One day, Lily", 7, seeded),
    ] {
        let expected =
            format!("> {typed}\n{text}\nseed {seed}\n{hash}\nthe report of the chip\n> ");
        assert!(
            screen.contains(&expected),
            "{screen}\n--- lacks\n{expected}"
        );
    }
    assert!(PAUSES.load(Ordering::Relaxed) - pauses > 100 * 30);
}

#[test]
fn the_banner_tells_what_there_is() {
    let Some(image) = image() else { return };
    let screen = talk(Typist::new(b"/settings\r/help\r"), &image, 112 << 10);
    let hash = &image[32..40];
    let hash = u64::from_le_bytes(hash.try_into().unwrap());
    for words in [
        "\nSmidgen 0.1.0 on this machine\n".to_owned(),
        format!("{} bytes, checksum ", image.len() - 64),
        format!("logits {hash:016x}\n"),
        "> /settings\ntemp 1, top_p 0.9, seed 1, n 256, report off\n".to_owned(),
        "/top_p X ".to_owned(),
    ] {
        assert!(screen.contains(&words), "{screen}\n--- lacks\n{words}");
    }
    // There is RAM for more positions than this model knows.
    assert!(
        screen.contains("RAM: 128 positions, KV cache 51200, "),
        "{screen}"
    );
}

/// Where `words` are on the screen, as the terminal is sent it.
fn place(screen: &str, words: &str) -> usize {
    let at = screen.find(words).unwrap();
    at + screen[..at].matches('\n').count()
}

#[test]
fn ctrl_c_ends_a_story_and_the_next_is_as_if_nothing_had_been() {
    let Some(image) = image() else { return };
    let typed = b"/temp 0\r/n 60\r/report on\rThe cat\rOnce upon a time\r";
    let whole = talk(Typist::new(typed), &image, 112 << 10);
    let mut typist = Typist::new(typed);
    typist.later = Some((place(&whole, "> The cat") + 60, 0x03));
    let broken = talk(typist, &image, 112 << 10);
    let (_, story) = broken.split_once("> The cat\n").unwrap();
    let (story, rest) = story.split_once("^C\n").unwrap();
    let (_, whole_story) = whole.split_once("> The cat\n").unwrap();
    assert!(
        whole_story.starts_with(story) && story.len() < 100,
        "{broken}"
    );
    let (_, last) = whole.split_once("> Once").unwrap();
    assert!(
        rest.ends_with(last),
        "{broken}\n--- does not end with\n{last}"
    );
}

#[test]
fn what_is_typed_ahead_is_told_next() {
    let Some(image) = image() else { return };
    let typed = b"/temp 0\r/n 20\rThe cat\r dog\r";
    let screen = talk(Typist::new(typed), &image, 112 << 10);
    let mut typist = Typist::new(typed);
    typist.later = Some((place(&screen, "> The cat\n") + 40, b'A'));
    let screen = talk(typist, &image, 112 << 10);
    assert!(screen.contains("> A dog\nA dog"), "{screen}");
}

#[test]
fn every_state_of_the_flash_has_words() {
    let Some(image) = image() else { return };
    let damaged = |at: usize| {
        let mut image = image.clone();
        image[at] ^= 1;
        image
    };
    let with_hash = |hash| [&ModelImage::header(&image[64..], hash)[..], &image[64..]].concat();
    let mut cut = image.clone();
    cut[100_000..].fill(0xff);
    let no_gguf = [&ModelImage::header(b"no model", 0)[..], b"no model"].concat();
    let ram = 112 << 10;
    for (region, ram, words) in [
        (vec![0xff; 1 << 16], ram, "no model: its flash is empty"),
        (vec![0; 1 << 16], ram, "no model: its flash is empty"),
        (Vec::new(), ram, "no model: its flash has only 0 bytes"),
        (image[64..].to_vec(), ram, "a GGUF file without the header"),
        (
            image[..image.len() - 1].to_vec(),
            ram,
            "there is flash for only",
        ),
        (
            b"#!/bin/sh\n".repeat(99),
            ram,
            "no model image: it begins with 23212f62",
        ),
        (damaged(20), ram, "the model's header is damaged"),
        (damaged(200_000), ram, "the model is damaged: checksum "),
        (cut, ram, "the model is cut: 99936 of "),
        (no_gguf, ram, "not a GGUF file"),
        (with_hash(1), ram, "this chip computes other logits: hash "),
        (image.clone(), 1 << 10, "bytes of RAM, there are 1024"),
        (image.clone(), 12 << 10, "bytes of RAM, there are 12288"),
    ] {
        let screen = talk(Typist::new(b"Once\r/temp 0\r"), &region, ram);
        assert_eq!(screen.matches(words).count(), 2, "{words}\n{screen}");
        assert_eq!(screen.matches("\nsmidgen: ").count(), 2, "{screen}");
        assert!(screen.ends_with("> /temp 0\ntemp 0, top_p 0.9, seed 1, n 256, report off\n> "));
    }
}

#[test]
fn lines_that_cannot_be_used_have_words() {
    let Some(image) = image() else { return };
    let long = "x".repeat(LINE + 1);
    let typed = [
        format!("/n 8\r/temp 0\r{long}\r/nothing\r").as_bytes(),
        b"\xc3(\r\r\x03caf\xc3\xa9\x7f\x7fts\r",
    ]
    .concat();
    let screen = talk(Typist::new(&typed), &image, 112 << 10);
    for words in [
        "\nsmidgen: the line is longer than 128 bytes\n> ",
        "\nsmidgen: no command /nothing: /help lists them\n> ",
        "\nsmidgen: the line is not UTF-8\n> \n> ^C\n> ",
        "\ncats",
    ] {
        assert!(screen.contains(words), "{screen}\n--- lacks\n{words}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn nothing_that_is_typed_can_crash_it(keys: Vec<u8>, line in "\\PC{0,40}", break_at: Option<usize>) {
        let Some(image) = image() else { return Ok(()) };
        let typed = [b"/n 3\r", &keys[..], b"\r", line.as_bytes(), b"\r"].concat();
        let mut typist = Typist::new(&typed);
        typist.later = break_at.map(|at| (at % 1000, 0x03));
        let screen = talk(typist, &image, 60 << 10);
        prop_assert!(screen.ends_with("> "), "{screen}");
    }
}
