//! Where each token's text lies, and which token has a text.

use core::cmp::Ordering;
use core::fmt;

use crate::gguf::{Array, ValueType};
use crate::sort::sort_unstable_by;

/// How tokens are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum IndexKind {
    /// By the arrays `smidgen.tokenizer.offsets` and `smidgen.tokenizer.sorted` of the file: a
    /// step for a text, a binary search for a token, no RAM.
    Stored,
    /// By the same arrays, built in the caller's buffer.
    Built,
    /// By walking over all tokens before the one that is looked for.
    Walk,
}

/// What is wrong with the index arrays of a file, which then are not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum IndexFault {
    /// Only one of the two is there.
    Half,
    /// An array is not one of u16 or u32.
    Type,
    /// An array has the wrong number of entries.
    Len,
    /// An entry of the offsets is not where the text of that token begins.
    Offset {
        /// The entry.
        at: u32,
    },
    /// An entry of the sorted ids is no id, or does not come after the entry before it.
    Order {
        /// The entry.
        at: u32,
    },
}

impl fmt::Display for IndexFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, at) = match self {
            Self::Half => return f.write_str("one of the two index arrays is missing"),
            Self::Type => return f.write_str("an index array is not one of u16 or u32"),
            Self::Len => return f.write_str("an index array has the wrong number of entries"),
            Self::Offset { at } => ("offsets", at),
            Self::Order { at } => ("sorted", at),
        };
        write!(f, "entry {at} of {name} does not fit the vocabulary")
    }
}

/// An array of u16 or u32 in the file, at any address.
#[derive(Clone, Copy)]
pub(super) struct Uints<'a> {
    bytes: &'a [u8],
    wide: bool,
}

impl<'a> Uints<'a> {
    fn new(array: Array<'a>, len: usize) -> Result<Self, IndexFault> {
        let wide = match array.element_type() {
            ValueType::U16 => false,
            ValueType::U32 => true,
            _ => return Err(IndexFault::Type),
        };
        if array.len() != len {
            return Err(IndexFault::Len);
        }
        let bytes = array.bytes();
        Ok(Self { bytes, wide })
    }

    fn get(self, at: usize) -> Option<u32> {
        if self.wide {
            word(self.bytes, at)
        } else {
            let pair = self.bytes.get(at.checked_mul(2)?..)?.first_chunk()?;
            Some(u16::from_le_bytes(*pair).into())
        }
    }
}

/// The little-endian word `at` of bytes at any address.
pub(super) fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let word = bytes.get(at.checked_mul(4)?..)?.first_chunk()?;
    Some(u32::from_le_bytes(*word))
}

/// The two arrays, wherever they are.
#[derive(Clone, Copy)]
enum Arrays<'a> {
    Stored {
        offsets: Uints<'a>,
        sorted: Uints<'a>,
    },
    Built {
        offsets: &'a [u32],
        sorted: &'a [u32],
    },
    Walk,
}

/// The tokens' texts and how to find one.
#[derive(Clone, Copy)]
pub(super) struct Index<'a> {
    tokens: Array<'a>,
    arrays: Arrays<'a>,
}

impl<'a> Index<'a> {
    /// Words to build the index of `count` tokens in.
    pub(super) const fn built_len(count: usize) -> usize {
        count.saturating_mul(2).saturating_add(1)
    }

    /// Without arrays.
    pub(super) const fn walk(tokens: Array<'a>) -> Self {
        Self {
            tokens,
            arrays: Arrays::Walk,
        }
    }

    /// Over arrays of the file, after a check in linear time that they are what they should be.
    pub(super) fn stored(
        tokens: Array<'a>,
        offsets: Array<'a>,
        sorted: Array<'a>,
    ) -> Result<Self, IndexFault> {
        let offsets = Uints::new(offsets, tokens.len().saturating_add(1))?;
        let sorted = Uints::new(sorted, tokens.len())?;
        for (at, offset) in (0u32..).zip(text_offsets(tokens)) {
            if offsets.get(at as usize) != offset {
                return Err(IndexFault::Offset { at });
            }
        }
        let index = Self {
            tokens,
            arrays: Arrays::Stored { offsets, sorted },
        };
        // Entries that are ids and grow strictly are all different, so all ids are there.
        let mut before = None;
        for at in 0..tokens.len() {
            let fault = IndexFault::Order { at: at as u32 };
            let id = sorted.get(at).ok_or(fault)?;
            let text = index.text(id).ok_or(fault)?;
            if before.is_some_and(|before| before >= (text, id)) {
                return Err(fault);
            }
            before = Some((text, id));
        }
        Ok(index)
    }

    /// With arrays built in `buffer`, which holds [`Index::built_len`] words; `None` if it holds
    /// fewer or the array of tokens is larger than 4 GiB.
    pub(super) fn build(tokens: Array<'a>, buffer: &'a mut [u32]) -> Option<Self> {
        let (offsets, rest) = buffer.split_at_mut_checked(tokens.len().checked_add(1)?)?;
        let sorted = rest.get_mut(..tokens.len())?;
        for (entry, offset) in offsets.iter_mut().zip(text_offsets(tokens)) {
            *entry = offset?;
        }
        for (entry, id) in sorted.iter_mut().zip(0u32..) {
            *entry = id;
        }
        let offsets = &*offsets;
        let by_offset = |id: u32| text_at(tokens, |at| offsets.get(at).copied(), id);
        sort_unstable_by(sorted, |a, b| {
            by_offset(*a).cmp(&by_offset(*b)).then(a.cmp(b))
        });
        Some(Self {
            tokens,
            arrays: Arrays::Built { offsets, sorted },
        })
    }

    pub(super) const fn kind(&self) -> IndexKind {
        match self.arrays {
            Arrays::Stored { .. } => IndexKind::Stored,
            Arrays::Built { .. } => IndexKind::Built,
            Arrays::Walk => IndexKind::Walk,
        }
    }

    pub(super) const fn tokens(&self) -> Array<'a> {
        self.tokens
    }

    /// The text of a token as it is stored.
    pub(super) fn text(&self, id: u32) -> Option<&'a [u8]> {
        match self.arrays {
            Arrays::Stored { offsets, .. } => text_at(self.tokens, |at| offsets.get(at), id),
            Arrays::Built { offsets, .. } => {
                text_at(self.tokens, |at| offsets.get(at).copied(), id)
            }
            Arrays::Walk => self.tokens.strings().nth(usize::try_from(id).ok()?),
        }
    }

    /// The token whose text is `text`, of several the lowest id.
    pub(super) fn find(&self, text: impl Iterator<Item = u8> + Clone) -> Option<u32> {
        // Slices compare faster than iterators; few tokens are longer than this.
        let mut short = [0; 48];
        let mut len = 0;
        for (slot, byte) in short.iter_mut().zip(text.clone()) {
            *slot = byte;
            len += 1;
        }
        if len < short.len() {
            self.search(|token| token.cmp(&short[..len]))
        } else {
            self.search(|token| token.iter().copied().cmp(text.clone()))
        }
    }

    /// The first token, by text and id, that `compare` finds equal.
    fn search(&self, compare: impl Fn(&[u8]) -> Ordering) -> Option<u32> {
        let tokens = self.tokens;
        match self.arrays {
            Arrays::Stored { offsets, sorted } => halve(tokens.len(), compare, |at| {
                let id = sorted.get(at)?;
                Some((id, text_at(tokens, |at| offsets.get(at), id)?))
            }),
            Arrays::Built { offsets, sorted } => halve(tokens.len(), compare, |at| {
                let id = *sorted.get(at)?;
                Some((id, text_at(tokens, |at| offsets.get(at).copied(), id)?))
            }),
            Arrays::Walk => (0u32..)
                .zip(tokens.strings())
                .find(|(_, token)| compare(token) == Ordering::Equal)
                .map(|(id, _)| id),
        }
    }
}

/// The first entry of `len` sorted ones that `compare` finds equal.
fn halve<'a>(
    len: usize,
    compare: impl Fn(&[u8]) -> Ordering,
    entry: impl Fn(usize) -> Option<(u32, &'a [u8])>,
) -> Option<u32> {
    let (mut low, mut high) = (0, len);
    while low < high {
        let middle = low + (high - low) / 2;
        match compare(entry(middle)?.1) {
            Ordering::Less => low = middle + 1,
            _ => high = middle,
        }
    }
    let (id, text) = entry(low)?;
    (compare(text) == Ordering::Equal).then_some(id)
}

/// Where each text begins in the bytes of `tokens`, and where a next one would; `None` for what a
/// u32 cannot hold.
fn text_offsets(tokens: Array<'_>) -> impl Iterator<Item = Option<u32>> {
    let length = tokens.length_width();
    let mut at = Some(length);
    let next = move |text: &[u8]| at.replace(at? + text.len() + length);
    tokens
        .strings()
        .map(next)
        .chain(core::iter::once_with(move || {
            Some(tokens.bytes().len() + length)
        }))
        .map(|at| u32::try_from(at?).ok())
}

/// The text of `id` by the offsets of texts.
fn text_at<'a>(
    tokens: Array<'a>,
    offset: impl Fn(usize) -> Option<u32>,
    id: u32,
) -> Option<&'a [u8]> {
    let at = usize::try_from(id).ok()?;
    let start = usize::try_from(offset(at)?).ok()?;
    let next = usize::try_from(offset(at.checked_add(1)?)?).ok()?;
    tokens
        .bytes()
        .get(start..next.checked_sub(tokens.length_width())?)
}
