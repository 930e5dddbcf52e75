//! Finding texts in text that comes in parts.

use core::ops::ControlFlow;

use super::generate::{GenerateError, Sink, StopReason};

/// Bytes that [`GeneratorBuffers::held`](super::GeneratorBuffers::held) needs for these stop texts;
/// 0 if there are none.
#[must_use]
pub const fn held_len(stop_texts: &[&str]) -> usize {
    let mut longest = 0;
    let mut at = 0;
    // No iterators in const functions.
    while at < stop_texts.len() {
        if stop_texts[at].len() > longest {
            longest = stop_texts[at].len();
        }
        at += 1;
    }
    if longest == 0 {
        return 0;
    }
    longest - 1 + MAX_CHARACTER
}

/// Bytes of the longest character.
const MAX_CHARACTER: usize = 4;

/// Passes text on, but holds back what may be the beginning of a stop text.
pub(super) struct Matcher<'t, 'b> {
    stop_texts: &'t [&'t str],
    /// `held[..len]` waits: always a beginning of one of the texts, or less than a character.
    held: &'b mut [u8],
    len: usize,
}

impl<'t, 'b> Matcher<'t, 'b> {
    pub(super) fn new(
        stop_texts: &'t [&'t str],
        held: &'b mut [u8],
    ) -> Result<Self, GenerateError> {
        if stop_texts.iter().any(|text| text.is_empty()) {
            return Err(GenerateError::EmptyStopText);
        }
        let (needed, given) = (held_len(stop_texts), held.len());
        if given < needed {
            return Err(GenerateError::HeldTooSmall { needed, given });
        }
        Ok(Self {
            stop_texts,
            held,
            len: 0,
        })
    }

    pub(super) fn into_buffer(self) -> &'b mut [u8] {
        self.held
    }

    /// Takes whole characters; breaks off where a stop text is complete, with all text before it
    /// passed on, or where the sink does.
    pub(super) fn push(&mut self, bytes: &[u8], sink: &mut Sink<'_>) -> ControlFlow<StopReason> {
        if self.stop_texts.is_empty() {
            return sink(bytes).map_break(|()| StopReason::Sink);
        }
        for (at, &byte) in bytes.iter().enumerate() {
            if let Some(slot) = self.held.get_mut(self.len) {
                *slot = byte;
                self.len += 1;
            }
            // Stop texts begin and end between characters. Bytes that belong to none are passed on
            // when there is no more room.
            let inside = bytes.get(at + 1).is_some_and(|next| next & 0xC0 == 0x80);
            if !inside || self.len == self.held.len() {
                self.look(sink)?;
            }
        }
        ControlFlow::Continue(())
    }

    fn look(&mut self, sink: &mut Sink<'_>) -> ControlFlow<StopReason> {
        let held = self.held.get(..self.len).unwrap_or_default();
        let mut texts = self.stop_texts.iter();
        if let Some(index) = texts.position(|text| held.ends_with(text.as_bytes())) {
            let stop = self.stop_texts.get(index).map_or(0, |text| text.len());
            let before = held.get(..held.len() - stop).unwrap_or_default();
            let flow = pass(before, sink);
            self.len = 0;
            flow?;
            return ControlFlow::Break(StopReason::StopText { index });
        }
        let begins = |rest: &[u8]| {
            let mut texts = self.stop_texts.iter();
            texts.any(|text| text.as_bytes().starts_with(rest))
        };
        let waits = (0..=held.len()).find(|&at| begins(held.get(at..).unwrap_or_default()));
        let waits = waits.unwrap_or(held.len());
        let flow = pass(held.get(..waits).unwrap_or_default(), sink);
        self.held.copy_within(waits..self.len, 0);
        self.len -= waits;
        flow
    }

    /// Passes on what waits.
    pub(super) fn finish(&mut self, sink: &mut Sink<'_>) -> ControlFlow<()> {
        let held = self.held.get(..self.len).unwrap_or_default();
        self.len = 0;
        if held.is_empty() {
            return ControlFlow::Continue(());
        }
        sink(held)
    }
}

fn pass(bytes: &[u8], sink: &mut Sink<'_>) -> ControlFlow<StopReason> {
    if bytes.is_empty() {
        return ControlFlow::Continue(());
    }
    sink(bytes).map_break(|()| StopReason::Sink)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::string::String;
    use std::vec;
    use std::vec::Vec;

    /// What passes of `text` in parts of the given lengths, and which stop text ended it.
    fn run(stop_texts: &[&str], parts: &[&[u8]]) -> (Vec<Vec<u8>>, Option<usize>) {
        let mut held = vec![0; held_len(stop_texts)];
        let mut matcher = Matcher::new(stop_texts, &mut held).unwrap();
        let mut out = Vec::new();
        let mut sink = |bytes: &[u8]| {
            out.push(bytes.to_vec());
            ControlFlow::Continue(())
        };
        for part in parts {
            match matcher.push(part, &mut sink) {
                ControlFlow::Continue(()) => {}
                ControlFlow::Break(StopReason::StopText { index }) => return (out, Some(index)),
                ControlFlow::Break(other) => panic!("{other:?}"),
            }
        }
        assert!(matcher.finish(&mut sink).is_continue());
        (out, None)
    }

    #[test]
    fn a_stop_text_across_parts_is_found_and_not_passed_on() {
        let (out, stop) = run(&["\n\n", "The end"], &[b"a\n", b"b Th", b"e e", b"nd of"]);
        assert_eq!((out.concat(), stop), (b"a\nb ".to_vec(), Some(1)));
        // A beginning that begins again inside itself.
        let (out, stop) = run(&["aab"], &[b"aa", b"aab", b"x"]);
        assert_eq!((out.concat(), stop), (b"aa".to_vec(), Some(0)));
    }

    #[test]
    fn what_only_looked_like_one_is_passed_on() {
        let (out, stop) = run(&["abcd"], &[b"xab", b"c", b"abc"]);
        assert_eq!((out.concat(), stop), (b"xabcabc".to_vec(), None));
        assert_eq!(out.first().unwrap(), b"x");
    }

    #[test]
    fn characters_stay_whole() {
        // Both begin with the byte C3.
        let (out, stop) = run(&["\u{e9}t\u{e9}"], &["\u{e9}t\u{ea} \u{e4}".as_bytes()]);
        assert_eq!(stop, None);
        for part in &out {
            assert!(str::from_utf8(part).is_ok(), "{part:?}");
        }
        assert_eq!(out.concat(), "\u{e9}t\u{ea} \u{e4}".as_bytes());
    }

    #[test]
    fn bytes_that_are_no_characters_pass() {
        let (out, stop) = run(&["ab"], &[&[0x80; 40], b"a", &[0xff; 3]]);
        assert_eq!(stop, None);
        assert_eq!(out.concat(), [&[0x80; 40][..], b"a", &[0xff; 3]].concat());
    }

    #[test]
    fn bad_arguments_are_named() {
        let error = Matcher::new(&["a", ""], &mut [0; 9]).err().unwrap();
        assert_eq!(error, GenerateError::EmptyStopText);
        let error = Matcher::new(&["abc"], &mut [0; 5]).err().unwrap();
        let (needed, given) = (6, 5);
        assert_eq!(error, GenerateError::HeldTooSmall { needed, given });
    }

    proptest! {
        /// Searching the whole text is the other implementation.
        #[test]
        fn equals_a_search_of_the_whole(
            text in "[ab\u{e9}]{0,40}",
            stops in prop::collection::vec("[ab\u{e9}]{1,4}", 0..3),
            cuts in prop::collection::vec(1usize..5, 0..40),
        ) {
            let stops: Vec<&str> = stops.iter().map(String::as_str).collect();
            let ends = |stop: &&str| text.find(stop).map(|at| at + stop.len());
            let first = stops.iter().filter_map(ends).min();
            // Of those that end there, the one named first.
            let index = first.and_then(|end| stops.iter().position(|s| ends(s) == Some(end)));
            let index_len = index.map_or(0, |index| stops[index].len());
            let expected = first.map_or(&text[..], |end| &text[..end - index_len]);

            let mut parts = Vec::new();
            let mut characters = text.chars().peekable();
            let mut cuts = cuts.into_iter();
            while characters.peek().is_some() {
                let len = cuts.next().unwrap_or(1);
                parts.push(characters.by_ref().take(len).collect::<String>());
            }
            let parts: Vec<&[u8]> = parts.iter().map(|part| part.as_bytes()).collect();
            let (out, stop) = run(&stops, &parts);
            prop_assert_eq!(String::from_utf8(out.concat()).unwrap(), expected);
            prop_assert_eq!(stop, index);
        }
    }
}
