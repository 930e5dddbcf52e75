//! Text to ids.

use crate::message::{Message, display_message};

use super::merge::{Merger, WORDS};
use super::text::{MAX_LEN, Text};
use super::vocabulary::Vocabulary;

/// A byte of the text that belongs to no special token.
const FREE: u32 = u32::MAX;
/// A byte of a special token after its first, which bears the id.
const INSIDE: u32 = u32::MAX - 1;

/// What is added to a text and looked for in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct EncodeOptions {
    /// Put the BOS token first.
    pub add_bos: bool,
    /// Put the EOS token last.
    pub add_eos: bool,
    /// Take the text of control and unknown tokens, such as `</s>`, for these tokens. Without it
    /// they are text like any other. User-defined tokens are always looked for.
    pub parse_special: bool,
}

/// Words of scratch that are enough to encode any text of up to `text_len` bytes.
///
/// Where the text is known, [`Vocabulary::scratch_len`] asks for less: 20 bytes of scratch for
/// each character.
#[must_use]
pub const fn max_scratch_len(text_len: usize) -> usize {
    // Where bytes are no UTF-8, a stray first byte may break up the three bytes of an escaped
    // space: three symbols from two bytes are the most there can be. One is the prefix; the marks
    // for special tokens take a word for each byte.
    let symbols = text_len.saturating_add(text_len / 2).saturating_add(1);
    symbols.saturating_mul(WORDS).saturating_add(text_len)
}

impl Vocabulary<'_> {
    /// What the metadata of the file asks to add; special tokens are not looked for.
    #[must_use]
    pub const fn encode_options(&self) -> EncodeOptions {
        EncodeOptions {
            add_bos: self.add_bos,
            add_eos: self.add_eos,
            parse_special: false,
        }
    }

    /// The same for a text that is to go on: EOS is not added.
    #[must_use]
    pub const fn prompt_options(&self) -> EncodeOptions {
        EncodeOptions {
            add_eos: false,
            ..self.encode_options()
        }
    }

    /// Words of scratch that encoding `text` takes: five for each character and one more for each
    /// byte if special tokens are looked for. Never more than [`max_scratch_len`].
    #[must_use]
    pub fn scratch_len(&self, text: &[u8], options: EncodeOptions) -> usize {
        if !self.has_specials(options.parse_special) {
            let text = Text::new(text, self.add_space_prefix);
            return text.symbols().count().saturating_mul(WORDS);
        }
        // The parts between special tokens may begin inside a character, so every byte may become
        // a symbol; that an escaped space becomes more than one takes text that is not UTF-8.
        let symbols = match core::str::from_utf8(text) {
            Ok(_) => text.len(),
            Err(_) => text.len().saturating_add(text.len() / 2),
        };
        let symbols = symbols.saturating_add(usize::from(self.add_space_prefix));
        symbols.saturating_mul(WORDS).saturating_add(text.len())
    }

    /// Encodes `text`, which may be any bytes, as llama.cpp does with `tokenizer.ggml.model =
    /// llama`, and gives each id to `sink`; returns how many there were.
    ///
    /// Takes time in the order of n log n for n characters; each special token that is looked for
    /// adds a pass over the text. `scratch` holds at least
    /// [`Vocabulary::scratch_len`] words. An empty text gives BOS and EOS at most.
    ///
    /// # Errors
    /// Too little scratch, before anything is given to `sink`; a token that is to be added, or the
    /// unknown token, is not in the vocabulary.
    pub fn encode(
        &self,
        text: &[u8],
        options: EncodeOptions,
        scratch: &mut [u32],
        sink: &mut dyn FnMut(u32),
    ) -> Result<usize, EncodeError> {
        if text.len() > MAX_LEN {
            return Err(EncodeError::TextLen { len: text.len() });
        }
        let needed = self.scratch_len(text, options);
        if scratch.len() < needed {
            return Err(EncodeError::Scratch {
                needed,
                found: scratch.len(),
            });
        }
        let mut count = 0;
        let mut emit = |id| {
            count += 1;
            sink(id);
        };
        if options.add_bos {
            emit(self.bos().ok_or(EncodeError::NoBos)?);
        }
        if self.has_specials(options.parse_special) {
            let (marks, scratch) = scratch.split_at_mut(text.len());
            self.mark_specials(text, options.parse_special, marks);
            let mut at = 0;
            while let Some(mark) = marks.get(at).copied() {
                let run = |is: u32| marks.iter().skip(at + 1).take_while(|m| **m == is).count();
                let end;
                if mark == FREE {
                    end = at + 1 + run(FREE);
                    // At the start or after a special token, as all such parts are.
                    let part = Text::new(&text[at..end], self.add_space_prefix);
                    self.encode_part(part, scratch, &mut emit)?;
                } else {
                    end = at + 1 + run(INSIDE);
                    emit(mark);
                }
                at = end;
            }
        } else {
            self.encode_part(Text::new(text, self.add_space_prefix), scratch, &mut emit)?;
        }
        if options.add_eos {
            emit(self.eos().ok_or(EncodeError::NoEos)?);
        }
        Ok(count)
    }

    /// As [`Vocabulary::encode`], with the ids in `out`.
    ///
    /// # Errors
    /// As there; and `out` is too short, then the error says how many there are.
    pub fn encode_into(
        &self,
        text: &[u8],
        options: EncodeOptions,
        scratch: &mut [u32],
        out: &mut [u32],
    ) -> Result<usize, EncodeError> {
        let found = out.len();
        let mut slots = out.iter_mut();
        let needed = self.encode(text, options, scratch, &mut |id| {
            if let Some(slot) = slots.next() {
                *slot = id;
            }
        })?;
        if needed > found {
            return Err(EncodeError::OutputLen { needed, found });
        }
        Ok(needed)
    }

    /// Marks where special tokens stand in `text`: the longest tokens first, of equals those with
    /// the lower id, each from left to right wherever no earlier one stands.
    fn mark_specials(&self, text: &[u8], parse_special: bool, marks: &mut [u32]) {
        marks.fill(FREE);
        let mut longest = usize::MAX;
        loop {
            let shorter_than = longest;
            longest = 0;
            self.each_special(parse_special, &mut |_, piece| {
                if piece.len() < shorter_than {
                    longest = longest.max(piece.len());
                }
            });
            if longest == 0 {
                return;
            }
            self.each_special(parse_special, &mut |id, piece| {
                if piece.len() != longest {
                    return;
                }
                let mut at = 0;
                while let (Some(part), Some(place)) =
                    (text.get(at..at + longest), marks.get_mut(at..at + longest))
                {
                    if part == piece && place.iter().all(|mark| *mark == FREE) {
                        place.fill(INSIDE);
                        place[0] = id;
                        at += longest;
                    } else {
                        at += 1;
                    }
                }
            });
        }
    }

    /// Encodes text without special tokens.
    fn encode_part(
        &self,
        text: Text<'_>,
        scratch: &mut [u32],
        emit: &mut dyn FnMut(u32),
    ) -> Result<(), EncodeError> {
        let count = text.symbols().count();
        let found = scratch.len();
        let mut merger = Merger::new(text, count, scratch).ok_or(EncodeError::Scratch {
            needed: count.saturating_mul(WORDS),
            found,
        })?;
        merger.merge(&|pair| self.score(self.find_bytes(pair)?));
        // Whatever was merged is a token, so only single characters may be none: there is nothing
        // to take apart again.
        for symbol in merger.symbols() {
            if let Some(id) = self.find_bytes(symbol.clone()) {
                emit(id);
            } else if symbol.clone().all(|byte| self.byte_token(byte).is_some()) {
                symbol
                    .filter_map(|byte| self.byte_token(byte))
                    .for_each(&mut *emit);
            } else {
                emit(self.unknown().ok_or(EncodeError::NoUnknown)?);
            }
        }
        Ok(())
    }
}

/// Why a text cannot be encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum EncodeError {
    /// The scratch is too short.
    Scratch {
        /// Words that are needed.
        needed: usize,
        /// Words that were given.
        found: usize,
    },
    /// There are more ids than the output holds.
    OutputLen {
        /// How many there are.
        needed: usize,
        /// How many it holds.
        found: usize,
    },
    /// The text has a gigabyte or more.
    TextLen {
        /// Its bytes.
        len: usize,
    },
    /// BOS is to be added and the vocabulary has none.
    NoBos,
    /// EOS is to be added and the vocabulary has none.
    NoEos,
    /// A character has no token, its bytes have none, and there is no unknown token.
    NoUnknown,
}

impl EncodeError {
    pub(crate) fn describe(&self, message: &mut Message<'_>) {
        match *self {
            Self::Scratch { needed, found } => message
                .say("encoding the text takes # words of scratch, there are #")
                .sizes([needed, found]),
            Self::OutputLen { needed, found } => message
                .say("the text has # tokens, the buffer holds #")
                .sizes([needed, found]),
            Self::TextLen { len } => message.say("a text of # bytes is too long").sizes([len]),
            Self::NoBos => message.say(NO_TOKEN).words(["BOS"]),
            Self::NoEos => message.say(NO_TOKEN).words(["EOS"]),
            Self::NoUnknown => message.say("the vocabulary has no token for a part of the text"),
        };
    }
}

const NO_TOKEN: &str = "the vocabulary has no $ token";

display_message!(EncodeError);
