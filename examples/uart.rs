//! Streams a story to an `embedded-io` writer, here a UART whose FIFO takes 16 bytes at a time, and
//! tells a story that has ended from a line that has broken.
//!
//! `cargo run -p smidgen-examples --example uart -- [PROMPT [MODEL.gguf]]`

use std::io::Write as _;
use std::ops::ControlFlow;
use std::process::ExitCode;

use embedded_io::{ErrorKind, ErrorType, Write};
use smidgen_core::gguf::Gguf;
use smidgen_core::kv_cache::KvType;
use smidgen_core::model::{Layer, Model};
use smidgen_core::sampler::{Sampler, SamplerSettings};
use smidgen_core::session::{
    GenerateOptions, Generator, GeneratorBuffers, Plan, Prompt, Session, SessionOptions, StopReason,
};
use smidgen_core::tokenizer::{Vocabulary, max_scratch_len};

const MODEL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/models/smidgen-260k-Q8_0.gguf");

/// Stands for a UART: it takes what the FIFO has room for, and standard output is its line.
struct Uart;

impl ErrorType for Uart {
    type Error = ErrorKind;
}

impl Write for Uart {
    fn write(&mut self, bytes: &[u8]) -> Result<usize, ErrorKind> {
        let taken = bytes.len().min(16);
        let sent = std::io::stdout().write_all(&bytes[..taken]);
        sent.map_err(|_| ErrorKind::BrokenPipe)?;
        Ok(taken)
    }

    fn flush(&mut self) -> Result<(), ErrorKind> {
        std::io::stdout().flush().map_err(|_| ErrorKind::BrokenPipe)
    }
}

/// Why a story was not told to its end.
enum StreamError<E> {
    Smidgen(smidgen_core::Error),
    Line(E),
}

impl<E, T: Into<smidgen_core::Error>> From<T> for StreamError<E> {
    fn from(error: T) -> Self {
        Self::Smidgen(error.into())
    }
}

/// Tells a story to any `embedded-io` writer.
fn tell<W: Write>(
    file: &[u8],
    prompt: &str,
    line: &mut W,
) -> Result<StopReason, StreamError<W::Error>> {
    let gguf = Gguf::parse(file, &mut vec![0; Gguf::scratch_len(file)])?;
    let mut layers = vec![Layer::EMPTY; Model::layers_len(&gguf)];
    let model = Model::load(&[gguf], &mut layers)?;
    let mut index = vec![0; Vocabulary::index_len(&gguf)];
    let vocabulary = Vocabulary::load(&gguf, &mut index)?;
    let options = SessionOptions::new(KvType::Q8, model.hyperparameters.n_ctx);
    let mut memory = vec![0; Plan::new(&model, &options).words()];
    let mut session = Session::in_memory(&model, options, &mut memory)?;
    let mut sampler = Sampler::new(SamplerSettings::GREEDY, 1)?;
    let buffers = GeneratorBuffers {
        ids: &mut vec![0; prompt.len() + 2],
        scratch: &mut vec![0; max_scratch_len(prompt.len())],
        ..GeneratorBuffers::default()
    };
    let options = GenerateOptions {
        max_new_tokens: 100,
        echo: true,
        ..GenerateOptions::default()
    };

    // A sink says no more than that it takes no more: the reason is kept beside it.
    let mut broken = None;
    let mut sink = |text: &[u8]| match line.write_all(text).and_then(|()| line.flush()) {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => {
            broken = Some(error);
            ControlFlow::Break(())
        }
    };
    let prompt = Prompt::Text(prompt.as_bytes());
    let generated = Generator::new(&vocabulary, &mut sampler, buffers).generate(
        &mut session,
        prompt,
        &options,
        &mut sink,
    )?;
    match broken {
        Some(error) => Err(StreamError::Line(error)),
        None => Ok(generated.stop),
    }
}

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let prompt = args.next().unwrap_or_else(|| "Once upon a time".to_owned());
    let path = args.next().unwrap_or_else(|| MODEL.to_owned());
    let told = match std::fs::read(&path) {
        Ok(file) => tell(&file, &prompt, &mut Uart),
        Err(error) => {
            eprintln!("uart: {path}: {error}");
            return ExitCode::FAILURE;
        }
    };
    match told {
        Ok(_) => return ExitCode::SUCCESS,
        Err(StreamError::Smidgen(error)) => eprintln!("uart: {path}: {error}"),
        Err(StreamError::Line(error)) => eprintln!("uart: the line: {error}"),
    }
    ExitCode::FAILURE
}
