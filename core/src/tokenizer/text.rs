//! A text as SentencePiece sees it: spaces are U+2581, without a copy of the text.

/// U+2581, which stands for a space in the vocabulary.
pub(super) const SPACE: [u8; 3] = [0xE2, 0x96, 0x81];

/// The longest text in bytes, so that every [`Position`] fits.
pub(super) const MAX_LEN: usize = (1 << 30) - 2;

/// A byte of the escaped text: four times the byte of the text (of which the prefix is the first,
/// if there is one), and for the further bytes of an escaped space 1 and 2.
pub(super) type Position = u32;

/// A text of at most [`MAX_LEN`] bytes, perhaps with a space put before it.
#[derive(Clone, Copy)]
pub(super) struct Text<'a> {
    bytes: &'a [u8],
    prefix: bool,
}

impl<'a> Text<'a> {
    /// The text, after a space if `prefix` is set and the text is not empty.
    pub(super) fn new(bytes: &'a [u8], prefix: bool) -> Self {
        Self {
            bytes: bytes.get(..MAX_LEN).unwrap_or(bytes),
            prefix: prefix && !bytes.is_empty(),
        }
    }

    /// Where the text ends.
    pub(super) fn end(self) -> Position {
        ((self.bytes.len() + usize::from(self.prefix)) as Position) << 2
    }

    /// The escaped bytes between two positions.
    pub(super) fn escaped(self, from: Position, to: Position) -> Escaped<'a> {
        Escaped {
            text: self,
            at: from,
            end: to,
        }
    }

    /// Where each symbol begins at the start: a character, as long as its first byte says, even if
    /// what follows does not belong to it.
    pub(super) fn symbols(self) -> impl Iterator<Item = Position> + use<'a> {
        let mut rest = self.escaped(0, self.end());
        core::iter::from_fn(move || {
            let start = rest.at;
            let len = match rest.next()? {
                0xC0..=0xDF => 2,
                0xE0..=0xEF => 3,
                0xF0.. => 4,
                _ => 1,
            };
            for _ in 1..len {
                rest.next();
            }
            Some(start)
        })
    }
}

/// Bytes of the escaped text.
#[derive(Clone)]
pub(super) struct Escaped<'a> {
    text: Text<'a>,
    at: Position,
    end: Position,
}

impl Iterator for Escaped<'_> {
    type Item = u8;

    fn next(&mut self) -> Option<u8> {
        if self.at >= self.end {
            return None;
        }
        let (index, part) = ((self.at >> 2) as usize, (self.at & 3) as usize);
        let byte = match (self.text.prefix, index) {
            (true, 0) => b' ',
            (prefix, _) => *self.text.bytes.get(index - usize::from(prefix))?,
        };
        if byte == b' ' {
            self.at += if part == SPACE.len() - 1 { 2 } else { 1 };
            return SPACE.get(part).copied();
        }
        self.at += 4;
        Some(byte)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;
    use std::vec::Vec;

    fn split(bytes: &[u8], prefix: bool) -> Vec<Vec<u8>> {
        let text = Text::new(bytes, prefix);
        let mut starts: Vec<Position> = text.symbols().collect();
        starts.push(text.end());
        starts
            .windows(2)
            .map(|w| text.escaped(w[0], w[1]).collect())
            .collect()
    }

    #[test]
    fn a_space_is_one_symbol() {
        let space = SPACE.to_vec();
        assert_eq!(
            split(b"a b", true),
            [space.clone(), vec![b'a'], space, vec![b'b']]
        );
        assert_eq!(split(b"", true), Vec::<Vec<u8>>::new());
    }

    #[test]
    fn a_first_byte_takes_what_follows() {
        assert_eq!(
            split(b"\xC2 x", false),
            [vec![0xC2, 0xE2], vec![0x96], vec![0x81], vec![b'x']]
        );
        assert_eq!(
            split(b"\xF0 x", false),
            [vec![0xF0, 0xE2, 0x96, 0x81], vec![b'x']]
        );
        assert_eq!(split(b"\xE6a", false), [vec![0xE6, b'a']]);
        assert_eq!(split(b"\x80\x81", false), [vec![0x80], vec![0x81]]);
    }
}
