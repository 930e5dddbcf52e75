//! One number for many logits, by which two chips are compared.

use core::hash::Hasher;

use fnv::FnvHasher;

/// FNV-1a with 64 bits over logits: the little-endian bytes of each f32, in the order of token ids,
/// position after position.
///
/// ```
/// let mut hash = smidgen_core::LogitsHash::new();
/// hash.update(&[1.0, -2.5]);
/// assert_eq!(hash.value(), 0x09e6_29ee_2dfd_b3f8);
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct LogitsHash(u64);

impl LogitsHash {
    /// The hash of nothing.
    #[must_use]
    pub fn new() -> Self {
        Self(FnvHasher::default().finish())
    }

    /// Appends the logits of a position.
    pub fn update(&mut self, logits: &[f32]) {
        let mut hasher = FnvHasher::with_key(self.0);
        for logit in logits {
            hasher.write(&logit.to_le_bytes());
        }
        self.0 = hasher.finish();
    }

    /// The hash of all so far; printed as 16 hexadecimal digits.
    #[must_use]
    pub fn value(&self) -> u64 {
        self.0
    }
}

impl Default for LogitsHash {
    fn default() -> Self {
        Self::new()
    }
}

impl core::fmt::Debug for LogitsHash {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "LogitsHash({:016x})", self.value())
    }
}
