//! Text as vocabularies store it: spaces as U+2581, bytes that are no text as `<0xNN>`.

/// How a vocabulary stores a space.
const SPACE: &[u8] = "\u{2581}".as_bytes();

/// Turns any bytes into text in the vocabulary's form: spaces into U+2581; into byte tokens
/// `<0xNN>` whatever is not UTF-8, a U+2581 that was there before, and the `<` of what would read
/// as a byte token. [`unescape`] gives the same bytes back.
///
/// ```
/// use smidgen_edit::escape;
/// assert_eq!(escape(b"a b\xff"), "a▁b<0xFF>");
/// assert_eq!(escape("<0x41>▁".as_bytes()), "<0x3C>0x41><0xE2><0x96><0x81>");
/// ```
#[must_use]
pub fn escape(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    let mut at = 0;
    for chunk in bytes.utf8_chunks() {
        let valid = chunk.valid();
        for (start, c) in valid.char_indices() {
            match c {
                ' ' => text.push('\u{2581}'),
                '\u{2581}' => byte_tokens(&mut text, SPACE),
                '<' if byte_token(&bytes[at + start..]).is_some() => byte_tokens(&mut text, b"<"),
                c => text.push(c),
            }
        }
        byte_tokens(&mut text, chunk.invalid());
        at += valid.len() + chunk.invalid().len();
    }
    text
}

/// Turns text in the vocabulary's form back: U+2581 into a space, byte tokens into their bytes;
/// all else stays. What [`escape`] has made comes back as it was.
///
/// ```
/// use smidgen_edit::unescape;
/// assert_eq!(unescape("▁the<0x0A>".as_bytes()), b" the\n");
/// ```
#[must_use]
pub fn unescape(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&first, behind)) = rest.split_first() {
        if let Some(byte) = byte_token(rest) {
            bytes.push(byte);
            rest = &rest[6..];
        } else if let Some(behind) = rest.strip_prefix(SPACE) {
            bytes.push(b' ');
            rest = behind;
        } else {
            bytes.push(first);
            rest = behind;
        }
    }
    bytes
}

/// The byte that a text begins with as `<0xNN>`, in capitals, as SentencePiece writes it.
fn byte_token(text: &[u8]) -> Option<u8> {
    let &[b'<', b'0', b'x', high, low, b'>'] = text.first_chunk::<6>()? else {
        return None;
    };
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    };
    Some(digit(high)? << 4 | digit(low)?)
}

fn byte_tokens(text: &mut String, bytes: &[u8]) {
    for byte in bytes {
        text.push_str(&format!("<0x{byte:02X}>"));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Bytes that are often near what escaping is about.
    fn odd_bytes() -> impl Strategy<Value = Vec<u8>> {
        let pieces = prop_oneof![
            Just(b" ".to_vec()),
            Just(SPACE.to_vec()),
            Just(SPACE[..2].to_vec()),
            Just(b"<0x41>".to_vec()),
            Just(b"<0x".to_vec()),
            Just(b"<0x3C>0x41>".to_vec()),
            Just(b"<0xab>".to_vec()),
            Just("é".as_bytes().to_vec()),
            proptest::collection::vec(any::<u8>(), 0..4),
        ];
        proptest::collection::vec(pieces, 0..12).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn any_bytes_come_back(bytes in odd_bytes()) {
            let escaped = escape(&bytes);
            prop_assert!(!escaped.contains(' '));
            prop_assert_eq!(unescape(escaped.as_bytes()), bytes);
        }

        #[test]
        fn escaped_text_comes_back(bytes in odd_bytes()) {
            let escaped = escape(&bytes);
            prop_assert_eq!(escape(&unescape(escaped.as_bytes())), escaped);
        }
    }

    #[test]
    fn only_whole_byte_tokens_are_bytes() {
        for text in ["<0x4>", "<0x4G>", "<0xab>", "<0X41>", "0x41>", "<0x41"] {
            assert_eq!(unescape(text.as_bytes()), text.as_bytes());
            assert_eq!(escape(text.as_bytes()), text);
        }
        assert_eq!(unescape(b"<0x41><0x00>"), b"A\0");
    }
}
