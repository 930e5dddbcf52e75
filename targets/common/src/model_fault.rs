//! What is wrong with the bytes where the model should be.

use core::fmt;

use smidgen_core::{Hex, Number};

/// What is wrong with the bytes where the model should be: flash can be read wrongly, or have been
/// written wrongly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "rtt", derive(defmt::Format))]
pub enum ModelFault {
    /// Nothing was written.
    Empty,
    /// They do not begin as a GGUF file does.
    Foreign {
        /// The first bytes, in their order.
        found: u32,
    },
    /// The end was not written.
    Cut {
        /// Bytes that were.
        written: usize,
        /// Bytes of the model.
        of: usize,
    },
    /// Some are others than those that were linked.
    Damaged {
        /// Their checksum.
        found: u64,
        /// That of the model.
        expected: u64,
    },
}

/// So many bytes at the end that are all one of those that flash has before it is written are no
/// chance.
const UNWRITTEN: usize = 64;

/// FNV-1a with 64 bits.
fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    })
}

impl ModelFault {
    /// Looks for it in the bytes of a model with this checksum.
    pub(crate) fn find(bytes: &[u8], expected: u64) -> Option<Self> {
        let found = checksum(bytes);
        if found == expected {
            return None;
        }
        let written = match bytes.last() {
            Some(&last @ (0 | 0xff)) => {
                let other = bytes.iter().rposition(|&byte| byte != last);
                other.map_or(0, |at| at + 1)
            }
            _ => bytes.len(),
        };
        if written == 0 {
            return Some(Self::Empty);
        }
        let first = bytes.first_chunk().copied().unwrap_or_default();
        Some(if first != *b"GGUF" {
            let found = u32::from_be_bytes(first);
            Self::Foreign { found }
        } else if bytes.len() - written >= UNWRITTEN {
            let of = bytes.len();
            Self::Cut { written, of }
        } else {
            Self::Damaged { found, expected }
        })
    }
}

impl fmt::Display for ModelFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Empty => f.write_str("no model: its flash is empty"),
            Self::Foreign { found } => {
                f.write_str("no GGUF file: it begins with ")?;
                Hex::<8>(found.into()).fmt(f)
            }
            Self::Cut { written, of } => {
                f.write_str("the model is cut: ")?;
                Number(written as u64).fmt(f)?;
                f.write_str(" of ")?;
                Number(of as u64).fmt(f)?;
                f.write_str(" bytes")
            }
            Self::Damaged { found, expected } => {
                f.write_str("the model is damaged: checksum ")?;
                Hex::<16>(found).fmt(f)?;
                f.write_str(", not ")?;
                Hex::<16>(expected).fmt(f)
            }
        }
    }
}
