//! A line as it is typed, with what a terminal expects to see of it.

use core::fmt;

use smidgen_core::Number;

/// The longest line, in bytes.
pub const LINE: usize = 128;

const BELL: &[u8] = b"\x07";
/// Takes the last character back from the screen.
const RUB_OUT: &[u8] = b"\x08 \x08";

/// What a byte has led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input<'l> {
    /// More is to come.
    More,
    /// A whole line, without its end.
    Line(&'l str),
    /// Ctrl-C: what had been typed is dropped.
    Break,
    /// The end of a line that cannot be used.
    Error(LineError),
}

/// Why a line cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineError {
    /// More than [`LINE`] bytes.
    TooLong,
    /// Bytes that are no UTF-8.
    NotUtf8,
}

impl fmt::Display for LineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong => write!(f, "the line is longer than {} bytes", Number(LINE as u64)),
            Self::NotUtf8 => f.write_str("the line is not UTF-8"),
        }
    }
}

impl core::error::Error for LineError {}

/// Where in an escape sequence of a terminal's keys the last byte was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Escape {
    None,
    /// ESC.
    Begun,
    /// ESC and `[`: parameters until a letter.
    Csi,
    /// ESC and `O`: one more.
    Ss3,
}

/// Takes bytes one at a time. Lines end with CR, LF or both; backspace and DEL take a character
/// back, Ctrl-U all of them, Ctrl-C gives the line up. Keys that send escape sequences, and other
/// control characters, do nothing.
#[derive(Debug)]
pub struct LineEditor {
    /// Whole characters.
    bytes: [u8; LINE],
    len: usize,
    /// The beginning of a character.
    partial: [u8; 4],
    partial_len: usize,
    escape: Escape,
    after_cr: bool,
    /// The last call gave the line out.
    ended: bool,
    fault: Option<LineError>,
}

impl LineEditor {
    /// An empty line.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            bytes: [0; LINE],
            len: 0,
            partial: [0; 4],
            partial_len: 0,
            escape: Escape::None,
            after_cr: false,
            ended: false,
            fault: None,
        }
    }

    /// Takes a byte. `echo` is called with what the terminal is to show.
    pub fn push(&mut self, byte: u8, echo: &mut dyn FnMut(&[u8])) -> Input<'_> {
        if core::mem::take(&mut self.ended) {
            self.clear();
        }
        let after_cr = core::mem::replace(&mut self.after_cr, byte == b'\r');
        if self.is_of_escape(byte) {
            return Input::More;
        }
        if self.partial_len > 0 && !is_continuation(byte) {
            self.partial_len = 0;
            self.refuse(LineError::NotUtf8, echo);
        }
        match byte {
            b'\n' if after_cr => {}
            b'\r' | b'\n' => {
                echo(b"\r\n");
                self.ended = true;
                return match self.fault {
                    Some(error) => Input::Error(error),
                    None => Input::Line(self.text()),
                };
            }
            0x03 => {
                echo(b"^C\r\n");
                self.clear();
                return Input::Break;
            }
            0x08 | 0x7f => self.take_back(echo),
            0x15 => {
                // One for each character: its first byte.
                for _ in self.text().bytes().filter(|&byte| !is_continuation(byte)) {
                    echo(RUB_OUT);
                }
                self.clear();
            }
            0x1b => self.escape = Escape::Begun,
            b'\t' => self.insert(b" ", echo),
            b' '..=b'~' => self.insert(&[byte], echo),
            0x80.. => self.push_part(byte, echo),
            _ => echo(BELL),
        }
        Input::More
    }

    /// Whether a byte belongs to an escape sequence.
    fn is_of_escape(&mut self, byte: u8) -> bool {
        let (belongs, next) = match (self.escape, byte) {
            // Not of a key: the user's own, which always count.
            (_, ..=0x1f) => (false, Escape::None),
            (Escape::None, _) => (false, Escape::None),
            (Escape::Begun, b'[') => (true, Escape::Csi),
            (Escape::Begun, b'O') => (true, Escape::Ss3),
            (Escape::Csi, 0x20..=0x3f) => (true, Escape::Csi),
            (Escape::Begun | Escape::Csi | Escape::Ss3, _) => (true, Escape::None),
        };
        self.escape = next;
        belongs
    }

    /// Takes a byte of a character of several.
    fn push_part(&mut self, byte: u8, echo: &mut dyn FnMut(&[u8])) {
        if let Some(place) = self.partial.get_mut(self.partial_len) {
            *place = byte;
            self.partial_len += 1;
        }
        let partial = self.partial;
        let partial = partial.get(..self.partial_len).unwrap_or_default();
        match core::str::from_utf8(partial) {
            Ok(_) => {
                self.partial_len = 0;
                self.insert(partial, echo);
            }
            // Nothing is wrong but that it is not finished.
            Err(error) if error.error_len().is_none() => {}
            Err(_) => {
                self.partial_len = 0;
                self.refuse(LineError::NotUtf8, echo);
            }
        }
    }

    fn insert(&mut self, character: &[u8], echo: &mut dyn FnMut(&[u8])) {
        // Behind what is missing, more would be another text.
        let room = self.bytes.get_mut(self.len..self.len + character.len());
        match room {
            Some(room) if self.fault.is_none() => {
                room.copy_from_slice(character);
                self.len += character.len();
                echo(character);
            }
            _ => self.refuse(LineError::TooLong, echo),
        }
    }

    /// The line cannot be used as it is, until its last character or all of it is taken back.
    fn refuse(&mut self, error: LineError, echo: &mut dyn FnMut(&[u8])) {
        self.fault.get_or_insert(error);
        echo(BELL);
    }

    fn take_back(&mut self, echo: &mut dyn FnMut(&[u8])) {
        // What was refused was not shown: the user takes back what is.
        self.fault = None;
        match self.text().chars().next_back() {
            Some(last) => {
                self.len -= last.len_utf8();
                echo(RUB_OUT);
            }
            None => echo(BELL),
        }
    }

    fn text(&self) -> &str {
        let bytes = self.bytes.get(..self.len).unwrap_or_default();
        // Only whole characters are put there.
        core::str::from_utf8(bytes).unwrap_or_default()
    }

    fn clear(&mut self) {
        self.len = 0;
        self.partial_len = 0;
        self.fault = None;
    }
}

impl Default for LineEditor {
    fn default() -> Self {
        Self::new()
    }
}

fn is_continuation(byte: u8) -> bool {
    matches!(byte, 0x80..=0xbf)
}

#[cfg(test)]
mod tests {
    use std::string::{String, ToString as _};
    use std::vec::Vec;
    use std::{format, vec};

    use proptest::prelude::*;

    use super::*;

    /// What comes of bytes, and the screen.
    fn typed(bytes: &[u8]) -> (Vec<String>, Vec<u8>) {
        let mut editor = LineEditor::new();
        let (mut events, mut screen) = (Vec::new(), Vec::new());
        for &byte in bytes {
            match editor.push(byte, &mut |shown| screen.extend_from_slice(shown)) {
                Input::More => {}
                Input::Line(line) => events.push(line.to_string()),
                Input::Break => events.push("^C".to_string()),
                Input::Error(error) => events.push(format!("! {error}")),
            }
        }
        (events, screen)
    }

    #[test]
    fn lines_end_with_cr_or_lf_or_both() {
        let (events, screen) = typed(b"a\rb\nc\r\nd\r\r\n\n");
        assert_eq!(events, ["a", "b", "c", "d", "", ""]);
        assert_eq!(screen, b"a\r\nb\r\nc\r\nd\r\n\r\n\r\n");
    }

    #[test]
    fn backspace_and_del_take_whole_characters_back() {
        let (events, screen) = typed("caf\u{e9}\x7f\x08f\u{20ac}\x7fe\r\x7f\r".as_bytes());
        assert_eq!(events, ["cafe", ""]);
        let rubbed = "caf\u{e9}\x08 \x08\x08 \x08f\u{20ac}\x08 \x08e\r\n\x07\r\n";
        assert_eq!(screen, rubbed.as_bytes());
    }

    #[test]
    fn a_line_that_is_too_long_is_an_error_until_something_is_taken_back() {
        let full = "x".repeat(LINE);
        let error = format!("! {}", LineError::TooLong);
        let (events, screen) = typed(format!("{full}yz\rab\r").as_bytes());
        assert_eq!(events, [error.as_str(), "ab"]);
        assert_eq!(screen, format!("{full}\x07\x07\r\nab\r\n").as_bytes());
        assert_eq!(typed(format!("{full}\r").as_bytes()).0, [full.as_str()]);
        assert_eq!(typed(format!("{full}yz\x7f\r").as_bytes()).0, [&full[1..]]);
        // A character is never parted.
        let most = "x".repeat(LINE - 1);
        let (events, screen) = typed(format!("{most}\u{e9}\r").as_bytes());
        assert_eq!(events, [error]);
        assert_eq!(screen, format!("{most}\x07\r\n").as_bytes());
    }

    #[test]
    fn bytes_that_are_no_utf_8_are_an_error() {
        let error = format!("! {}", LineError::NotUtf8);
        let cases: [&[u8]; 6] = [
            b"a\xff\r",
            b"\x80\r",
            b"\xc3\r",
            b"\xc3a\r",
            b"\xed\xa0\x80\r",
            b"\xf8\x88\x80\x80\x80\r",
        ];
        for bytes in cases {
            assert_eq!(typed(bytes).0, [error.as_str()], "{bytes:?}");
        }
        assert_eq!(typed(b"ab\xff\x7f\r").0, ["a"]);
        assert_eq!(typed(b"ab\xff\x15c\r").0, ["c"]);
    }

    #[test]
    fn control_characters() {
        let (events, screen) = typed(b"ab\x03cd\x15e\x01\x1b[A\x1b[1;5C\x1bOPf\x1b\r");
        assert_eq!(events, ["^C", "ef"]);
        assert_eq!(screen, b"ab^C\r\ncd\x08 \x08\x08 \x08e\x07f\r\n");
        assert_eq!(typed(b"a\tb\n").0, ["a b"]);
        // Not even in the middle of an escape sequence or a character.
        assert_eq!(typed(b"a\x1b[\x03\xe2\x82\x03b\r").0, ["^C", "^C", "b"]);
    }

    proptest! {
        #[test]
        fn any_line_that_fits_comes_back(line in "[^\\p{C}]{0,32}") {
            prop_assume!(line.len() <= LINE);
            prop_assert_eq!(typed(format!("{line}\r").as_bytes()).0, vec![line]);
        }

        #[test]
        fn any_bytes_give_lines_that_fit(bytes: Vec<u8>) {
            let ends = bytes.iter().filter(|&&b| b == b'\r' || b == b'\n' || b == 3).count();
            let (events, screen) = typed(&bytes);
            prop_assert!(events.len() <= ends);
            prop_assert!(events.iter().all(|line| line.len() <= LINE));
            prop_assert!(core::str::from_utf8(&screen).is_ok());
        }

        /// What the screen shows of a line is the line.
        #[test]
        fn the_screen_shows_the_line(keys in proptest::collection::vec("[a-z\u{e9}\u{20ac}\x7f\x15]", 0..200)) {
            let (events, screen) = typed(format!("{}\r", keys.concat()).as_bytes());
            let mut shown = Vec::new();
            for character in String::from_utf8(screen).unwrap().replace("\x08 \x08", "\x08").chars() {
                match character {
                    '\x08' => drop(shown.pop()),
                    '\x07' | '\r' | '\n' => {}
                    other => shown.push(other),
                }
            }
            let shown: String = shown.into_iter().collect();
            prop_assert!(events[0].starts_with('!') || events[0] == shown);
        }
    }
}
