//! The debugger, or QEMU, as console: semihosting.

use core::mem::MaybeUninit;

use semihosting::io::{Stdout, Write as _};
use semihosting::sys::arm_compat::sys_get_cmdline_uninit;

/// Standard output of the debugger or of QEMU.
#[derive(Debug)]
pub struct Semihosted(Stdout);

impl Semihosted {
    /// `None` if no debugger answers.
    #[must_use]
    pub fn new() -> Option<Self> {
        semihosting::io::stdout().ok().map(Self)
    }

    /// The words that the debugger starts the program with; none if it does not say.
    pub fn command_line(&self, buffer: &'static mut [MaybeUninit<u8>]) -> &'static [u8] {
        match sys_get_cmdline_uninit(buffer) {
            Ok(line) => line,
            Err(_) => &[],
        }
    }
}

/// The console takes no more.
#[derive(Clone, Copy, Debug)]
pub struct Closed;

impl core::fmt::Display for Closed {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("the console is closed")
    }
}

impl core::error::Error for Closed {}

impl embedded_io::Error for Closed {
    fn kind(&self) -> embedded_io::ErrorKind {
        embedded_io::ErrorKind::Other
    }
}

impl embedded_io::ErrorType for Semihosted {
    type Error = Closed;
}

impl embedded_io::Write for Semihosted {
    fn write(&mut self, bytes: &[u8]) -> Result<usize, Closed> {
        match self.0.write(bytes) {
            Ok(0) if !bytes.is_empty() => Err(Closed),
            written => written.map_err(|_| Closed),
        }
    }

    fn flush(&mut self) -> Result<(), Closed> {
        Ok(())
    }
}
