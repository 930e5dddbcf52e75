//! llama2.c's `tokenizer.bin`.

use crate::{Format, VocabularyError, foreign};

/// A `tokenizer.bin`, where it lies: the length of the longest text (a `u32` that nobody needs and
/// that is not always right), then for each token its score, the length of its text and the text.
/// The number of tokens is nowhere but in the length of the file.
#[derive(Clone, Copy, Debug)]
pub struct TokenizerBin<'a> {
    tokens: &'a [u8],
    len: usize,
}

impl<'a> TokenizerBin<'a> {
    /// Walks over all tokens and checks them.
    ///
    /// # Errors
    /// It is something else, a length is wrong, the file ends inside a token or before the first.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, VocabularyError> {
        if let Some(format) = foreign::recognize(bytes) {
            return Err(VocabularyError::Foreign { format });
        }
        let Some(tokens) = bytes.get(4..).filter(|tokens| !tokens.is_empty()) else {
            let found = bytes.len();
            return Err(VocabularyError::NoTokens { found });
        };
        match count(tokens) {
            Ok(len) => Ok(Self { tokens, len }),
            Err(_) if is_without_scores(bytes) => Err(VocabularyError::Foreign {
                format: Format::OldTokenizerBin,
            }),
            Err(error) => Err(error),
        }
    }

    /// How many tokens there are, at least one.
    #[must_use]
    #[allow(clippy::len_without_is_empty)] // It never is.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Each token's score and text, in the order of their ids.
    pub fn iter(&self) -> impl Iterator<Item = (f32, &'a [u8])> + use<'a> {
        let mut rest = self.tokens;
        std::iter::from_fn(move || {
            let (score, text, after) = token(rest)?.ok()?;
            rest = after;
            Some((score, text))
        })
    }
}

/// The token at the start of `bytes` and what follows it; `None` at the end; the length and how
/// many bytes are left for it, or `None` for them when the file ends before.
#[allow(clippy::type_complexity)]
fn token(bytes: &[u8]) -> Option<Result<(f32, &[u8], &[u8]), Option<(i32, usize)>>> {
    if bytes.is_empty() {
        return None;
    }
    let Some((head, rest)) = bytes.split_first_chunk::<8>() else {
        return Some(Err(None));
    };
    let [a, b, c, d, len @ ..] = *head;
    let len = i32::from_le_bytes(len);
    let text = usize::try_from(len)
        .ok()
        .and_then(|n| rest.split_at_checked(n));
    Some(match text {
        Some((text, after)) => Ok((f32::from_le_bytes([a, b, c, d]), text, after)),
        None => Err(Some((len, rest.len()))),
    })
}

fn count(tokens: &[u8]) -> Result<usize, VocabularyError> {
    let mut rest = tokens;
    let mut id = 0;
    while let Some(read) = token(rest) {
        match read {
            Ok((score, _, _)) if score.is_nan() => return Err(VocabularyError::Score { id }),
            Ok((_, _, after)) => rest = after,
            Err(None) => return Err(VocabularyError::CutShort { id }),
            Err(Some((len, left))) => {
                return Err(VocabularyError::TextLength { id, len, left });
            }
        }
        id += 1;
    }
    Ok(id)
}

/// Whether this is the format of before scores were added: length and text of each token.
fn is_without_scores(bytes: &[u8]) -> bool {
    let mut rest = bytes;
    while let Some((len, after)) = rest.split_first_chunk::<4>() {
        let len = usize::try_from(u32::from_le_bytes(*len)).unwrap_or(usize::MAX);
        match after.get(len..) {
            Some(after) => rest = after,
            None => return false,
        }
    }
    rest.is_empty()
}
