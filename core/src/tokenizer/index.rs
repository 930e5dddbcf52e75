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

/// An array of unsigned integers.
#[derive(Clone, Copy)]
pub(super) enum Uints<'a> {
    /// u16 in the file, at any address.
    Halves(&'a [u8]),
    /// u32 in the file, at any address.
    Words(&'a [u8]),
    Built(&'a [u32]),
}

impl<'a> Uints<'a> {
    fn new(array: Array<'a>, len: usize) -> Result<Self, IndexFault> {
        let uints = match array.element_type() {
            ValueType::U16 => Self::Halves(array.bytes()),
            ValueType::U32 => Self::Words(array.bytes()),
            _ => return Err(IndexFault::Type),
        };
        if array.len() != len {
            return Err(IndexFault::Len);
        }
        Ok(uints)
    }

    fn get(self, at: usize) -> Option<u32> {
        match self {
            Self::Halves(bytes) => {
                let pair = bytes.get(at.checked_mul(2)?..)?.first_chunk()?;
                Some(u16::from_le_bytes(*pair).into())
            }
            Self::Words(bytes) => word(bytes, at),
            Self::Built(words) => words.get(at).copied(),
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
struct Arrays<'a> {
    offsets: Uints<'a>,
    sorted: Uints<'a>,
}

/// The tokens' texts and how to find one.
#[derive(Clone, Copy)]
pub(super) struct Index<'a> {
    tokens: Array<'a>,
    /// `None` where all texts are walked over.
    arrays: Option<Arrays<'a>>,
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
            arrays: None,
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
        let fits = &mut |at, offset| offsets.get(at) == offset;
        if let Some(at) = first_misfit(tokens, fits) {
            return Err(IndexFault::Offset { at: at as u32 });
        }
        let index = Self {
            tokens,
            arrays: Some(Arrays { offsets, sorted }),
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
        let fits = &mut |at, offset| match (offsets.get_mut(at), offset) {
            (Some(entry), Some(offset)) => {
                *entry = offset;
                true
            }
            _ => false,
        };
        if first_misfit(tokens, fits).is_some() {
            return None;
        }
        for (entry, id) in sorted.iter_mut().zip(0u32..) {
            *entry = id;
        }
        let offsets = Uints::Built(offsets);
        let by_offset = |id: u32| text_at(tokens, offsets, id);
        sort_unstable_by(sorted, |a, b| {
            by_offset(*a).cmp(&by_offset(*b)).then(a.cmp(b))
        });
        let sorted = Uints::Built(sorted);
        Some(Self {
            tokens,
            arrays: Some(Arrays { offsets, sorted }),
        })
    }

    pub(super) const fn kind(&self) -> IndexKind {
        match self.arrays {
            Some(Arrays {
                offsets: Uints::Built(_),
                ..
            }) => IndexKind::Built,
            Some(_) => IndexKind::Stored,
            None => IndexKind::Walk,
        }
    }

    pub(super) const fn tokens(&self) -> Array<'a> {
        self.tokens
    }

    /// The text of a token as it is stored.
    pub(super) fn text(&self, id: u32) -> Option<&'a [u8]> {
        match self.arrays {
            Some(arrays) => text_at(self.tokens, arrays.offsets, id),
            None => self.tokens.strings().nth(usize::try_from(id).ok()?),
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
        match short.get(..len) {
            Some(short) if len < 48 => self.search(&|token| token.cmp(short)),
            _ => self.search(&|token| token.iter().copied().cmp(text.clone())),
        }
    }

    /// The first token, by text and id, that `compare` finds equal.
    fn search(&self, compare: &dyn Fn(&[u8]) -> Ordering) -> Option<u32> {
        let tokens = self.tokens;
        let Some(Arrays { offsets, sorted }) = self.arrays else {
            let mut all = (0u32..).zip(tokens.strings());
            let found = all.find(|(_, token)| compare(token).is_eq());
            return found.map(|(id, _)| id);
        };
        let entry = |at| {
            let id = sorted.get(at)?;
            Some((id, compare(text_at(tokens, offsets, id)?)))
        };
        let (mut low, mut high) = (0, tokens.len());
        while low < high {
            let middle = low + (high - low) / 2;
            match entry(middle)?.1 {
                Ordering::Less => low = middle + 1,
                _ => high = middle,
            }
        }
        let (id, order) = entry(low)?;
        order.is_eq().then_some(id)
    }
}

/// Goes through the places where each text begins in the bytes of `tokens`, and where a next one
/// would, `None` for what a u32 cannot hold; the answer is the first that does not fit.
fn first_misfit(
    tokens: Array<'_>,
    fits: &mut dyn FnMut(usize, Option<u32>) -> bool,
) -> Option<usize> {
    let mut start = tokens.length_width();
    for (at, text) in tokens.strings().enumerate() {
        if !fits(at, u32::try_from(start).ok()) {
            return Some(at);
        }
        start += text.len() + tokens.length_width();
    }
    let end = tokens.len();
    (!fits(end, u32::try_from(start).ok())).then_some(end)
}

/// The text of `id` by the offsets of texts.
fn text_at<'a>(tokens: Array<'a>, offsets: Uints<'_>, id: u32) -> Option<&'a [u8]> {
    let at = usize::try_from(id).ok()?;
    let start = usize::try_from(offsets.get(at)?).ok()?;
    let next = usize::try_from(offsets.get(at.checked_add(1)?)?).ok()?;
    tokens
        .bytes()
        .get(start..next.checked_sub(tokens.length_width())?)
}
