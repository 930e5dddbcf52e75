//! How a program is started and ended.

use core::fmt::Write as _;

use embedded_io::Write;

use crate::{Board, Failure, Linked, Memory, Request};

/// A program: what runs on a board.
pub type Program<B> = fn(&mut B, &Linked, Memory<'_>, &Request<'static>) -> Result<(), Failure>;

/// Runs a program; the answer is the exit status, 0 or 1. Of a failure it says why.
pub fn run<B: Board>(
    board: &mut B,
    linked: &Linked,
    memory: Memory<'_>,
    program: Program<B>,
) -> i32 {
    let Err(failure) = run_as_asked(board, linked, memory, program) else {
        return 0;
    };
    say(board.console(), format_args!("smidgen: {failure}\n"));
    1
}

fn run_as_asked<B: Board>(
    board: &mut B,
    linked: &Linked,
    mut memory: Memory<'_>,
    program: Program<B>,
) -> Result<(), Failure> {
    let line = board.command_line(core::mem::take(&mut memory.command_line));
    let line = core::str::from_utf8(line).map_err(|_| Failure::CommandLine)?;
    let request = Request::parse(line)?;
    program(board, linked, memory, &request)
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
