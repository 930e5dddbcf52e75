//! Any bytes as what is typed at a board's console, and as what its flash holds.

#![no_main]

use std::convert::Infallible;
use std::fmt;

use embedded_io::{ErrorType, Read, ReadReady, Write};
use libfuzzer_sys::fuzz_target;
use smidgen_console::{Chip, Memory, run};
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

/// What is typed, and what has been shown.
struct Typed<'b>(&'b [u8], Vec<u8>);

impl ErrorType for Typed<'_> {
    type Error = Infallible;
}

impl Read for Typed<'_> {
    fn read(&mut self, to: &mut [u8]) -> Result<usize, Infallible> {
        let Ok(read) = self.0.read(to);
        Ok(read)
    }
}

impl ReadReady for Typed<'_> {
    /// Every second byte is typed while a story runs.
    fn read_ready(&mut self) -> Result<bool, Infallible> {
        Ok(self.0.len() % 2 == 1)
    }
}

impl Write for Typed<'_> {
    fn write(&mut self, bytes: &[u8]) -> Result<usize, Infallible> {
        self.1.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> Result<(), Infallible> {
        Ok(())
    }
}

fuzz_target!(|bytes: &[u8]| {
    let mut layers = [Layer::EMPTY; 4];
    let mut words = vec![0; 8192];
    let memory = Memory {
        layers: &mut layers,
        words: &mut words,
    };
    let mut port = Typed(bytes, Vec::new());
    let Ok(()) = run::<Fuzzed, _>(&mut port, bytes, memory);
    assert!(std::str::from_utf8(&port.1).is_ok());
});
