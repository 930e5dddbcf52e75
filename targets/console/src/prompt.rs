//! The console: a prompt, a line, a story, and again.

use core::fmt;
use core::ops::ControlFlow;

use smidgen_core::sampler::Sampler;
use smidgen_core::session::{
    GenerateError, GenerateOptions, Generator, GeneratorBuffers, Prompt, StopReason,
};
use smidgen_core::{Hex, LogitsHash, Number};

use crate::command::HELP;
use crate::load::{LoadError, Loaded, load};
use crate::port::Terminal;
use crate::{Chip, Command, Input, LineEditor, Memory, Port, Settings};

/// Greets, looks for a model at the start of `region`, tests the chip with it, and tells stories in
/// `memory`, until the port has no more to read: never, on a board.
///
/// Without a model it says why, and says it again to every line.
///
/// # Errors
/// Those of the port.
pub fn run<'a, C: Chip, P: Port>(
    port: &mut P,
    region: &'a [u8],
    memory: Memory<'a>,
) -> Result<(), P::Error> {
    let mut terminal = Terminal::new(port);
    let version = env!("CARGO_PKG_VERSION");
    #[cfg(feature = "defmt")]
    defmt::info!("Smidgen {=str} on {=str}", version, C::NAME);
    for text in ["\nSmidgen ", version, " on ", C::NAME, "\n"] {
        terminal.text(text.as_bytes())?;
    }
    let told = load(region, memory, C::pause, |loaded| {
        terminal.say(format_args!("{}", loaded.about))?;
        terminal.text(b"Begin a story; /help lists commands.\n")?;
        Console::<C, P>::new(&mut terminal, Ok(loaded)).run()
    });
    told.unwrap_or_else(|error| {
        #[cfg(feature = "defmt")]
        defmt::error!("{}", error);
        say_error(&mut terminal, &error)?;
        Console::<C, P>::new(&mut terminal, Err(error)).run()
    })
}

fn say_error<P: Port>(
    terminal: &mut Terminal<'_, P>,
    error: &dyn fmt::Display,
) -> Result<(), P::Error> {
    terminal.say(format_args!("smidgen: {error}\n"))
}

struct Console<'c, 'p, 'b, C, P: Port> {
    terminal: &'c mut Terminal<'p, P>,
    loaded: Result<Loaded<'b>, LoadError>,
    settings: Settings,
    chip: core::marker::PhantomData<C>,
}

impl<'c, 'p, 'b, C: Chip, P: Port> Console<'c, 'p, 'b, C, P> {
    fn new(terminal: &'c mut Terminal<'p, P>, loaded: Result<Loaded<'b>, LoadError>) -> Self {
        Self {
            terminal,
            loaded,
            settings: Settings::DEFAULT,
            chip: core::marker::PhantomData,
        }
    }

    fn run(mut self) -> Result<(), P::Error> {
        let mut editor = LineEditor::new();
        self.terminal.raw(b"> ")?;
        while let Some(byte) = self.terminal.read()? {
            let mut shown = Ok(());
            let terminal = &mut *self.terminal;
            let input = editor.push(byte, &mut |bytes| {
                if shown.is_ok() {
                    shown = terminal.raw(bytes);
                }
            });
            shown?;
            match input {
                Input::More => continue,
                Input::Break => {}
                Input::Error(error) => say_error(self.terminal, &error)?,
                Input::Line(line) => self.line(line)?,
            }
            self.terminal.raw(b"> ")?;
        }
        Ok(())
    }

    fn line(&mut self, line: &str) -> Result<(), P::Error> {
        if line.is_empty() {
            return Ok(());
        }
        let command = match Command::parse(line) {
            None => return self.story(line),
            Some(Err(error)) => return say_error(self.terminal, &error),
            Some(Ok(command)) => command,
        };
        self.settings.apply(command);
        match command {
            Command::Help => self.terminal.text(HELP.as_bytes()),
            _ => self.terminal.say(format_args!("{}\n", self.settings)),
        }
    }

    /// Continues a line.
    fn story(&mut self, line: &str) -> Result<(), P::Error> {
        let loaded = match &mut self.loaded {
            Ok(loaded) => loaded,
            Err(error) => return say_error(self.terminal, error),
        };
        let settings = self.settings;
        let terminal = &mut *self.terminal;
        loaded.session.reset();
        let mut sampler = match Sampler::new(settings.sampler(), settings.seed) {
            Ok(sampler) => sampler,
            Err(error) => return say_error(terminal, &error),
        };
        // 0 is no seed.
        self.settings.seed = settings.seed.checked_add(1).unwrap_or(1);

        let mut hash = LogitsHash::new();
        let mut hashed = 0_u64;
        let mut mask = |logits: &mut [f32]| {
            C::pause();
            if settings.report {
                hash.update(logits);
                hashed += 1;
                C::pause();
            }
        };
        let options = GenerateOptions {
            max_new_tokens: usize::try_from(settings.n).unwrap_or(usize::MAX),
            echo: true,
            ..GenerateOptions::default()
        };
        let buffers = GeneratorBuffers {
            ids: loaded.ids,
            scratch: loaded.scratch,
            ..GeneratorBuffers::default()
        };
        let mut port = Ok(());
        let mut sink = |text: &[u8]| {
            C::pause();
            let shown = terminal.text(text);
            C::pause();
            match shown.and_then(|()| terminal.is_interrupted()) {
                Ok(false) => ControlFlow::Continue(()),
                Ok(true) => ControlFlow::Break(()),
                Err(error) => {
                    port = Err(error);
                    ControlFlow::Break(())
                }
            }
        };
        C::begin();
        let generated = Generator::new(loaded.vocabulary, &mut sampler, buffers)
            .with_mask(&mut mask)
            .generate(
                &mut loaded.session,
                Prompt::Text(line.as_bytes()),
                &options,
                &mut sink,
            );
        C::pause();
        port?;
        #[cfg(feature = "defmt")]
        match &generated {
            Ok(told) => defmt::info!("{}", told),
            Err(error) => defmt::error!("{}", error),
        }
        match generated {
            Ok(generated) if generated.stop == StopReason::Sink => terminal.text(b"^C\n")?,
            Ok(_) => terminal.text(b"\n")?,
            // Nothing has been shown then.
            Err(error @ GenerateError::Encode(_)) => say_error(terminal, &error)?,
            Err(error) => {
                terminal.text(b"\n")?;
                say_error(terminal, &error)?;
            }
        }
        if !settings.report {
            return Ok(());
        }
        let (seed, hash) = (Number(settings.seed), Hex::<16>(hash.value()));
        let hashed = Number(hashed);
        terminal.say(format_args!(
            "seed {seed}\nlogits hash: {hash} ({hashed} positions)\n"
        ))?;
        let _ = C::report(terminal);
        Ok(())
    }
}
