//! How much a shard may hold.

use std::{
    fmt,
    num::{NonZeroU32, NonZeroU64},
    str::FromStr,
};

/// How much a shard may hold. As in llama.cpp, only tensors count, not the metadata before them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// So many tensors.
    Tensors(NonZeroU32),
    /// So many bytes of tensors, the padding behind each included.
    Bytes(Size),
}

impl Default for Limit {
    /// 128 tensors.
    fn default() -> Self {
        const DEFAULT: NonZeroU32 = NonZeroU32::new(128).unwrap();
        Self::Tensors(DEFAULT)
    }
}

/// A number of bytes, written as `500K`, `300M` or `2G`: thousands, millions, thousands of
/// millions.
///
/// ```
/// use smidgen_shards::Size;
/// assert_eq!("2G".parse::<Size>().unwrap().bytes(), 2_000_000_000);
/// assert!("2".parse::<Size>().is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size(NonZeroU64);

impl Size {
    /// `bytes` bytes; `None` for none.
    #[must_use]
    pub fn new(bytes: u64) -> Option<Self> {
        NonZeroU64::new(bytes).map(Self)
    }

    /// How many bytes.
    #[must_use]
    pub fn bytes(self) -> u64 {
        self.0.get()
    }
}

/// Why a text is no size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SizeError {
    /// No whole number before the unit.
    Number,
    /// No unit, or another than K, M and G.
    Unit,
    /// Nothing.
    Zero,
    /// More than 64 bits hold.
    TooLarge,
}

impl fmt::Display for SizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Number => "a size is a whole number and a unit, as 300M",
            Self::Unit => "a size needs a unit: K, M or G (1M is 1,000,000 bytes)",
            Self::Zero => "a size must be positive",
            Self::TooLarge => "the size is too large",
        })
    }
}

impl std::error::Error for SizeError {}

impl FromStr for Size {
    type Err = SizeError;

    fn from_str(text: &str) -> Result<Self, SizeError> {
        let unit = match text.bytes().last() {
            Some(b'K') => 1_000,
            Some(b'M') => 1_000_000,
            Some(b'G') => 1_000_000_000,
            _ => return Err(SizeError::Unit),
        };
        let number = &text[..text.len() - 1];
        if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(SizeError::Number);
        }
        let number: u64 = number.parse().map_err(|_| SizeError::TooLarge)?;
        let bytes = number.checked_mul(unit).ok_or(SizeError::TooLarge)?;
        Self::new(bytes).ok_or(SizeError::Zero)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_decimal() {
        for (text, bytes) in [("1K", 1_000), ("007M", 7_000_000), ("3G", 3_000_000_000)] {
            assert_eq!(text.parse().map(Size::bytes), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn anything_else_is_an_error() {
        use SizeError::{Number, TooLarge, Unit, Zero};
        for (text, error) in [
            ("", Unit),
            ("100", Unit),
            ("1m", Unit),
            ("1T", Unit),
            ("1µ", Unit),
            ("G", Number),
            ("-3M", Number),
            ("+3M", Number),
            ("1.5G", Number),
            ("5xM", Number),
            (" 5M", Number),
            ("0K", Zero),
            ("0G", Zero),
            ("99999999999G", TooLarge),
            ("99999999999999999999999K", TooLarge),
        ] {
            assert_eq!(text.parse::<Size>(), Err(error), "{text}");
        }
    }
}
