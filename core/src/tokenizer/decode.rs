//! Ids to text, as they come.

use crate::message::{Message, display_message};

use super::text::SPACE;
use super::vocabulary::{TokenType, Vocabulary, byte_of};

/// Turns ids into bytes, one id at a time, without ever giving out a part of a UTF-8 character.
///
/// A character may be spread over several byte tokens: its first bytes, at most three, wait until
/// it is whole. Bytes that belong to no character are given out as they are, so that nothing is
/// lost. Control, unknown and unused tokens have no text. The space that encoding puts before a
/// text is taken away again at the start and after BOS.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Decoder {
    waiting: [u8; 4],
    len: usize,
    at_start: bool,
}

impl Decoder {
    /// At the start of a text, as if after BOS.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            waiting: [0; 4],
            len: 0,
            at_start: true,
        }
    }

    /// Gives the text that token `id` completes to `sink`, in as many parts as suit.
    ///
    /// # Errors
    /// There is no such token.
    pub fn push(
        &mut self,
        vocabulary: &Vocabulary<'_>,
        id: u32,
        sink: &mut dyn FnMut(&[u8]),
    ) -> Result<(), NoSuchToken> {
        let error = NoSuchToken {
            id,
            len: vocabulary.len(),
        };
        let ty = vocabulary.token_type(id).ok_or(error)?;
        let at_start = self.at_start && vocabulary.add_space_prefix();
        self.at_start = vocabulary.bos() == Some(id);
        let mut piece = vocabulary.piece(id).ok_or(error)?;
        match ty {
            TokenType::Normal => {
                if at_start {
                    let stripped = piece.strip_prefix(&SPACE);
                    piece = stripped.or(piece.strip_prefix(b" ")).unwrap_or(piece);
                }
                while let Some(at) = piece.windows(SPACE.len()).position(|w| w == SPACE) {
                    self.take(&piece[..at], sink);
                    self.take(b" ", sink);
                    piece = &piece[at + SPACE.len()..];
                }
                self.take(piece, sink);
            }
            TokenType::Byte => match byte_of(piece) {
                Some(byte) => self.take(&[byte], sink),
                None => self.take(piece, sink),
            },
            TokenType::UserDefined => self.take(piece, sink),
            TokenType::Control | TokenType::Unknown | TokenType::Unused | TokenType::Undefined => {}
        }
        Ok(())
    }

    /// Gives out what still waits, which is the beginning of a character at most, and starts anew.
    pub fn finish(&mut self, sink: &mut dyn FnMut(&[u8])) {
        self.flush(sink);
        *self = Self::new();
    }

    /// Gives out what still waits, and goes on with the same text.
    pub fn flush(&mut self, sink: &mut dyn FnMut(&[u8])) {
        if self.len > 0 {
            sink(&self.waiting[..self.len]);
        }
        self.len = 0;
    }

    fn take(&mut self, mut bytes: &[u8], sink: &mut dyn FnMut(&[u8])) {
        while let Some((first, rest)) = bytes.split_first() {
            if self.len > 0 {
                self.waiting[self.len] = *first;
                match core::str::from_utf8(&self.waiting[..=self.len]) {
                    Ok(_) => {
                        sink(&self.waiting[..=self.len]);
                        self.len = 0;
                        bytes = rest;
                    }
                    Err(e) if e.error_len().is_none() => {
                        self.len += 1;
                        bytes = rest;
                    }
                    // What waited is not the beginning of a character after all.
                    Err(_) => {
                        sink(&self.waiting[..self.len]);
                        self.len = 0;
                    }
                }
                continue;
            }
            let (whole, cut) = match core::str::from_utf8(bytes) {
                Ok(_) => (bytes, &[][..]),
                Err(e) => {
                    let bad = e.error_len();
                    let at = e.valid_up_to() + bad.unwrap_or(0);
                    if bad.is_some() {
                        sink(&bytes[..at]);
                        bytes = &bytes[at..];
                        continue;
                    }
                    bytes.split_at(at)
                }
            };
            if !whole.is_empty() {
                sink(whole);
            }
            for (slot, byte) in self.waiting.iter_mut().zip(cut) {
                *slot = *byte;
            }
            self.len = cut.len();
            return;
        }
    }
}

impl Default for Decoder {
    fn default() -> Self {
        Self::new()
    }
}

/// An id that is not in the vocabulary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct NoSuchToken {
    /// The id.
    pub id: u32,
    /// How many tokens there are.
    pub len: u32,
}

impl NoSuchToken {
    fn describe(&self, message: &mut Message<'_>) {
        message
            .say("token # is not one of #")
            .numbers([self.id.into(), self.len.into()]);
    }
}

display_message!(NoSuchToken);
