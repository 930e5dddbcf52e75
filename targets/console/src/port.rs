//! The serial port, as a terminal.

use core::fmt;

use embedded_io::{Read, ReadReady, Write};

/// A serial port: reading waits for a byte, and can be asked whether there is one.
pub trait Port: Read + ReadReady + Write {}

impl<P: Read + ReadReady + Write> Port for P {}

/// What can be typed ahead while a story runs.
const AHEAD: usize = 64;

/// Ctrl-C.
const BREAK: u8 = 0x03;

/// A terminal at the other end of a port: it wants CR and LF, and types ahead.
pub(crate) struct Terminal<'p, P: Port> {
    port: &'p mut P,
    ahead: [u8; AHEAD],
    ahead_len: usize,
    error: Option<P::Error>,
}

impl<'p, P: Port> Terminal<'p, P> {
    pub(crate) const fn new(port: &'p mut P) -> Self {
        Self {
            port,
            ahead: [0; AHEAD],
            ahead_len: 0,
            error: None,
        }
    }

    /// Waits for a byte; `None` is the end of all input.
    pub(crate) fn read(&mut self) -> Result<Option<u8>, P::Error> {
        if self.ahead_len > 0 {
            let first = self.ahead[0];
            self.ahead.copy_within(1.., 0);
            self.ahead_len -= 1;
            return Ok(Some(first));
        }
        let mut byte = [0];
        let read = self.port.read(&mut byte)?;
        Ok((read > 0).then_some(byte[0]))
    }

    /// Whether Ctrl-C has been typed by now. Other bytes are kept, as many as there is room for.
    pub(crate) fn is_interrupted(&mut self) -> Result<bool, P::Error> {
        while self.port.read_ready()? {
            let mut byte = [0];
            if self.port.read(&mut byte)? == 0 {
                break;
            }
            if byte[0] == BREAK {
                self.ahead_len = 0;
                return Ok(true);
            }
            if let Some(place) = self.ahead.get_mut(self.ahead_len) {
                *place = byte[0];
                self.ahead_len += 1;
            }
        }
        Ok(false)
    }

    /// Shows bytes as they are.
    pub(crate) fn raw(&mut self, bytes: &[u8]) -> Result<(), P::Error> {
        self.port.write_all(bytes)?;
        self.port.flush()
    }

    /// Shows text.
    pub(crate) fn text(&mut self, text: &[u8]) -> Result<(), P::Error> {
        for line in text.split_inclusive(|&byte| byte == b'\n') {
            match line {
                [rest @ .., b'\n'] => {
                    self.port.write_all(rest)?;
                    self.port.write_all(b"\r\n")?;
                }
                rest => self.port.write_all(rest)?,
            }
        }
        self.port.flush()
    }

    /// Shows words.
    pub(crate) fn say(&mut self, words: fmt::Arguments<'_>) -> Result<(), P::Error> {
        let _ = fmt::Write::write_fmt(self, words);
        self.error.take().map_or(Ok(()), Err)
    }
}

impl<P: Port> fmt::Write for Terminal<'_, P> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.text(text.as_bytes()).map_err(|error| {
            self.error = Some(error);
            fmt::Error
        })
    }
}
