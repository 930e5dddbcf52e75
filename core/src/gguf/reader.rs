//! A cursor over the file's bytes that knows the width of counts in each version.

use super::{Error, ErrorKind};

/// The bytes of a file, a position in them, and whether counts are 64 bits wide (version 2 and up).
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    wide: bool,
}

/// A length in memory as the file's 64-bit number.
pub(super) fn to_u64(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8], at: usize, wide: bool) -> Self {
        Self { bytes, at, wide }
    }

    pub(super) fn at(&self) -> usize {
        self.at
    }

    pub(super) fn offset(&self) -> u64 {
        to_u64(self.at)
    }

    pub(super) fn left(&self) -> usize {
        self.bytes.len().saturating_sub(self.at)
    }

    /// A reader of the same bytes at another place.
    pub(super) fn moved_to(&self, at: usize) -> Self {
        Self { at, ..*self }
    }

    pub(super) fn wide(&self) -> bool {
        self.wide
    }

    /// Bytes of a count: 8, or 4 in version 1.
    pub(super) fn count_width(&self) -> usize {
        if self.wide { 8 } else { 4 }
    }

    pub(super) fn take(&mut self, len: usize, what: &'static str) -> Result<&'a [u8], Error> {
        let end = self.at.checked_add(len);
        let Some(taken) = end.and_then(|end| self.bytes.get(self.at..end)) else {
            return Err(self.truncated(len, what));
        };
        self.at = self.at.saturating_add(len);
        Ok(taken)
    }

    #[cold]
    #[inline(never)] // Errors are large, and boards have little stack.
    fn truncated(&self, len: usize, what: &'static str) -> Error {
        Error {
            kind: ErrorKind::Truncated {
                what,
                needed: to_u64(len),
                left: to_u64(self.left()),
            },
            offset: self.offset(),
        }
    }

    /// The next bytes, if there are as many.
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let array = self.bytes.get(self.at..)?.first_chunk::<N>()?;
        self.at = self.at.saturating_add(N);
        Some(*array)
    }

    pub(super) fn u32(&mut self, what: &'static str) -> Result<u32, Error> {
        match self.array() {
            Some(bytes) => Ok(u32::from_le_bytes(bytes)),
            None => Err(self.truncated(4, what)),
        }
    }

    pub(super) fn u64(&mut self, what: &'static str) -> Result<u64, Error> {
        match self.array() {
            Some(bytes) => Ok(u64::from_le_bytes(bytes)),
            None => Err(self.truncated(8, what)),
        }
    }

    pub(super) fn count(&mut self, what: &'static str) -> Result<u64, Error> {
        let count = if self.wide {
            self.array().map(u64::from_le_bytes)
        } else {
            self.array().map(u32::from_le_bytes).map(u64::from)
        };
        match count {
            Some(count) => Ok(count),
            None => Err(self.truncated(self.count_width(), what)),
        }
    }

    /// A length and that many bytes.
    #[inline]
    pub(super) fn string(&mut self, what: &'static str) -> Result<&'a [u8], Error> {
        let offset = self.offset();
        let found = self.count(what)?;
        let left = self.left();
        match usize::try_from(found) {
            Ok(len) if len <= left => self.take(len, what),
            _ => Err(Error {
                kind: ErrorKind::StringLength {
                    found,
                    left: to_u64(left),
                },
                offset,
            }),
        }
    }
}
