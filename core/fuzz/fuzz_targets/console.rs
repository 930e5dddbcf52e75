//! Any bytes as what is typed at a board's console, where there is a model and where there is none,
//! or as what its flash holds.

#![no_main]

use std::convert::Infallible;
use std::fmt;
use std::sync::LazyLock;

use embedded_io::{ErrorType, Read, ReadReady, Write};
use libfuzzer_sys::fuzz_target;
use smidgen_console::{Chip, Memory, run};
use smidgen_core::ModelImage;
use smidgen_core::model::Layer;

struct Fuzzed;

impl Chip for Fuzzed {
    const NAME: &'static str = "a fuzzer";

    fn begin() {}

    fn pause() {}

    fn report(to: &mut dyn fmt::Write) -> fmt::Result {
        writeln!(to, "a report")
    }
}

/// The screen of so many bytes more is enough of a story.
const PATIENCE: usize = 100;

/// Someone who types.
struct Typist<'b> {
    keys: &'b [u8],
    screen: Vec<u8>,
    /// Bytes of the screen at which the story is broken off.
    enough: usize,
}

impl ErrorType for Typist<'_> {
    type Error = Infallible;
}

impl Read for Typist<'_> {
    fn read(&mut self, to: &mut [u8]) -> Result<usize, Infallible> {
        if let Some(first) = to.first_mut().filter(|_| self.screen.len() >= self.enough) {
            self.enough = self.screen.len() + PATIENCE;
            *first = 0x03;
            return Ok(1);
        }
        let Ok(read) = self.keys.read(to);
        Ok(read)
    }
}

impl ReadReady for Typist<'_> {
    /// Every second byte is typed while a story runs.
    fn read_ready(&mut self) -> Result<bool, Infallible> {
        Ok(self.screen.len() >= self.enough || self.keys.len() % 2 == 1)
    }
}

impl Write for Typist<'_> {
    fn write(&mut self, bytes: &[u8]) -> Result<usize, Infallible> {
        self.screen.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> Result<(), Infallible> {
        Ok(())
    }
}

/// The model that ships with the project, packed. Its logits are those that the self-test finds.
static IMAGE: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let model = include_bytes!("../../../examples/models/smidgen-260k-Q5_0.gguf");
    let with_hash = |hash| [&ModelImage::header(model, hash)[..], model].concat();
    let screen = screen(&[], &with_hash(0));
    let found = screen
        .split_once("other logits: hash ")
        .expect("they differ")
        .1;
    with_hash(u64::from_str_radix(&found[..16], 16).expect("a hash"))
});

/// What is on the screen when all is typed.
fn screen(keys: &[u8], region: &[u8]) -> String {
    let mut layers = [Layer::EMPTY; 8];
    let mut words = vec![0; 8192];
    let memory = Memory {
        layers: &mut layers,
        words: &mut words,
    };
    let mut typist = Typist {
        keys,
        screen: Vec::new(),
        enough: usize::MAX,
    };
    if region.len() > 4096 {
        // The banner is not broken off.
        typist.enough = 512;
    }
    let Ok(()) = run::<Fuzzed, _>(&mut typist, region, memory);
    String::from_utf8(typist.screen).expect("the screen is UTF-8")
}

fuzz_target!(|bytes: &[u8]| {
    match bytes.split_first() {
        // A model is loaded and tested each time: fewer keys, more of them.
        Some((b'/', keys)) => {
            // Ctrl-C ends whatever is left of a line.
            let keys = [&keys[..keys.len().min(256)], b"\x03"].concat();
            let screen = screen(&keys, &IMAGE);
            assert!(screen.contains("Begin a story"), "{screen}");
            assert!(screen.ends_with("> "), "{screen}");
        }
        _ => {
            let screen = screen(bytes, bytes);
            assert!(screen.contains("smidgen: "), "{screen}");
        }
    }
});
