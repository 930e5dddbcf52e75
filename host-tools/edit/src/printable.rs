//! Bytes of a file as text that a terminal can be given.

use std::fmt::Write as _;

/// The bytes as text on one line: what is no UTF-8 as `\xNN`, control characters (a terminal would
/// obey them) and backslashes escaped as in Rust.
#[must_use]
pub fn printable(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            if c == '\\' || c.is_control() || is_invisible(c) {
                text.extend(c.escape_default());
            } else {
                text.push(c);
            }
        }
        for byte in chunk.invalid() {
            // Writing to a string cannot fail.
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}

/// Characters that turn the direction of text or have no width.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::printable;

    #[test]
    fn nothing_that_moves_a_terminal_gets_through() {
        assert_eq!(printable("▁hé\n".as_bytes()), "▁hé\\n");
        assert_eq!(
            printable(b"\x1b[31m\\ \xff\0"),
            "\\u{1b}[31m\\\\ \\xff\\u{0}"
        );
        assert_eq!(printable("\u{202e}x\u{9b}".as_bytes()), "\\u{202e}x\\u{9b}");
    }
}
