//! The words of errors: a text with places for names and numbers.
//!
//! All errors share the code that prints them, as `write!` takes flash for each.

use core::fmt::{self, Display as _};

use crate::number::{Decimal, Hex, Number};

/// A text in which `$` stands for the next word, `#` for the next number, and `%` for the next number
/// as eight hexadecimal digits.
#[derive(Debug, Default)]
pub(crate) struct Message<'a> {
    offset: Option<u64>,
    text: &'static str,
    words: [&'a str; 3],
    numbers: [u64; 4],
    decimal: Option<f32>,
}

impl<'a> Message<'a> {
    /// Prints what `describe` says.
    pub(crate) fn print(
        f: &mut fmt::Formatter<'_>,
        describe: impl FnOnce(&mut Self),
    ) -> fmt::Result {
        let mut message = Message::default();
        describe(&mut message);
        message.write(f)
    }

    /// What it says.
    #[inline(always)]
    pub(crate) fn say(&mut self, text: &'static str) -> &mut Self {
        self.text = text;
        self
    }

    /// The byte of a file that it is about.
    #[inline(always)]
    pub(crate) fn at_byte(&mut self, offset: u64) -> &mut Self {
        self.offset = Some(offset);
        self
    }

    /// The words, at most three.
    #[inline(always)]
    pub(crate) fn words<const N: usize>(&mut self, words: [&'a str; N]) -> &mut Self {
        if let Some(place) = self.words.first_chunk_mut() {
            *place = words;
        }
        self
    }

    /// The numbers, at most four.
    #[inline(always)]
    pub(crate) fn numbers<const N: usize>(&mut self, numbers: [u64; N]) -> &mut Self {
        if let Some(place) = self.numbers.first_chunk_mut() {
            *place = numbers;
        }
        self
    }

    /// The numbers, at most four.
    #[inline(always)]
    pub(crate) fn sizes<const N: usize>(&mut self, sizes: [usize; N]) -> &mut Self {
        self.numbers(sizes.map(|size| size as u64))
    }

    /// A number that stands for the next `#` in place of an integer.
    #[inline(always)]
    pub(crate) fn decimal(&mut self, decimal: f32) -> &mut Self {
        self.decimal = Some(decimal);
        self
    }

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(offset) = self.offset {
            f.write_str("at byte ")?;
            Number(offset).fmt(f)?;
            f.write_str(": ")?;
        }
        let (mut words, mut numbers) = (self.words.iter(), self.numbers.iter());
        let mut rest = self.text;
        let is_mark = |byte: u8| matches!(byte, b'$' | b'#' | b'%');
        while let Some(at) = rest.bytes().position(is_mark) {
            let (before, mark) = rest.split_at_checked(at).unwrap_or_default();
            let (mark, behind) = mark.split_at_checked(1).unwrap_or_default();
            f.write_str(before)?;
            let mut number = || numbers.next().copied().unwrap_or(0);
            match (mark, self.decimal) {
                ("$", _) => f.write_str(words.next().unwrap_or(&""))?,
                ("%", _) => Hex::<8>(number()).fmt(f)?,
                (_, Some(decimal)) => Decimal(decimal).fmt(f)?,
                _ => Number(number()).fmt(f)?,
            }
            rest = behind;
        }
        f.write_str(rest)
    }
}

/// `Display` by the error's own `describe`.
macro_rules! display_message {
    ($error:ty) => {
        impl core::fmt::Display for $error {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                crate::message::Message::print(f, |message| self.describe(message))
            }
        }

        impl core::error::Error for $error {}
    };
}
pub(crate) use display_message;

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString as _;

    struct Told<F>(F);

    impl<F: Fn(&mut Message<'static>)> fmt::Display for Told<F> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            Message::print(f, &self.0)
        }
    }

    #[test]
    fn words_and_numbers_are_put_in() {
        let told = Told(|m: &mut Message<'static>| {
            m.say("$ has #, % of #$")
                .words(["a", "é"])
                .sizes([1, 255, 20]);
        });
        assert_eq!(told.to_string(), "a has 1, 000000ff of 20é");
        let told = Told(|m: &mut Message<'static>| {
            m.at_byte(7).say("# is wrong").decimal(0.5);
        });
        assert_eq!(told.to_string(), "at byte 7: 0.5 is wrong");
        let told = Told(|m: &mut Message<'static>| {
            m.say("nothing");
        });
        assert_eq!(told.to_string(), "nothing");
    }
}
