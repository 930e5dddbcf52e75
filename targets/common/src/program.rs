//! How a program is started and ended.

use core::fmt::Write as _;

use embedded_io::Write;
use static_cell::StaticCell;

use crate::{Board, Failure, Linked, Memory, Request};

/// A program: what runs on a board.
pub type Program<B> =
    fn(&mut B, &Linked, &'static mut Memory, &Request<'static>) -> Result<(), &'static Failure>;

/// Runs a program; the answer is the exit status, 0 or 1. Of a failure it says why.
pub fn run<B: Board>(
    board: &mut B,
    linked: &Linked,
    memory: &'static mut Memory,
    program: Program<B>,
) -> i32 {
    let done = run_as_asked(board, linked, memory, program);
    #[cfg(feature = "rtt")]
    match &done {
        Ok(()) => defmt::info!("done"),
        Err(failure) => defmt::error!("{}", failure),
    }
    match done {
        Ok(()) => 0,
        Err(failure) => {
            say_why(board.console(), failure);
            1
        }
    }
}

#[inline(never)] // A frame of its own: boards have little stack.
fn say_why(console: &mut impl Write, failure: &Failure) {
    say(console, format_args!("smidgen: {failure}\n"));
}

fn run_as_asked<B: Board>(
    board: &mut B,
    linked: &Linked,
    memory: &'static mut Memory,
    program: Program<B>,
) -> Result<(), &'static Failure> {
    let line = board.command_line(core::mem::take(&mut memory.command_line));
    let request = understand(line)?;
    program(board, linked, memory, request)
}

/// What a command line asks for, in a place of its own.
#[inline(never)] // As above.
fn understand(line: &'static [u8]) -> Result<&'static Request<'static>, &'static Failure> {
    static REQUEST: StaticCell<Request<'static>> = StaticCell::new();
    let line = core::str::from_utf8(line).map_err(|_| Failure::CommandLine.keep())?;
    let request = REQUEST.init(Request::default());
    request.parse(line)?;
    Ok(request)
}

/// Prints; what a console does not take is lost, as there is no one to tell.
pub(crate) fn say(console: &mut impl Write, words: core::fmt::Arguments<'_>) {
    let _ = Console(console).write_fmt(words);
}

/// `core::fmt` over `embedded_io`.
struct Console<'c, W>(&'c mut W);

impl<W: Write> core::fmt::Write for Console<'_, W> {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        self.0
            .write_all(text.as_bytes())
            .map_err(|_| core::fmt::Error)
    }
}
