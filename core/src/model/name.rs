//! A name from a file, copied.

use crate::gguf::MAX_NAME_LEN;

/// A name from a file, so that an error need not borrow the file: the first 64 bytes, which is the
/// whole name of any tensor.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Name {
    bytes: [u8; MAX_NAME_LEN],
    len: usize,
}

impl Name {
    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        let bytes = self.bytes.get(..self.len).unwrap_or_default();
        // Always whole: it is cut between characters.
        core::str::from_utf8(bytes).unwrap_or_default()
    }
}

impl From<&str> for Name {
    /// Cut between characters if it is too long.
    fn from(name: &str) -> Self {
        let mut len = name.len().min(MAX_NAME_LEN);
        while !name.is_char_boundary(len) {
            len -= 1;
        }
        let mut bytes = [0; MAX_NAME_LEN];
        for (to, from) in bytes.iter_mut().zip(name.bytes().take(len)) {
            *to = from;
        }
        Self { bytes, len }
    }
}

impl core::fmt::Display for Name {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl core::fmt::Debug for Name {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.as_str().fmt(f)
    }
}

#[cfg(feature = "defmt")]
impl defmt::Format for Name {
    fn format(&self, f: defmt::Formatter<'_>) {
        defmt::write!(f, "{=str}", self.as_str());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn long_names_are_cut_between_characters() {
        assert_eq!(Name::from("blk.0.attn_q").to_string(), "blk.0.attn_q");
        assert_eq!(Name::from("").as_str(), "");
        let full = "x".repeat(MAX_NAME_LEN);
        assert_eq!(Name::from(full.as_str()).as_str(), full);
        // The last character would need byte 65.
        let long = std::format!("{}é", "x".repeat(MAX_NAME_LEN - 1));
        assert_eq!(Name::from(long.as_str()).as_str(), &full[1..]);
    }
}
