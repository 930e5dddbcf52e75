//! llama2.c's `tokenizer.bin`.

use crate::{VocabularyError, foreign};

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
        let len = count(tokens)?;
        Ok(Self { tokens, len })
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

#[cfg(test)]
mod tests {
    use super::*;

    fn file(tokens: &[(f32, &[u8])]) -> Vec<u8> {
        let mut bytes = vec![9, 0, 0, 0];
        for (score, text) in tokens {
            bytes.extend(score.to_le_bytes());
            bytes.extend(i32::try_from(text.len()).unwrap().to_le_bytes());
            bytes.extend(*text);
        }
        bytes
    }

    const TOKENS: [(f32, &[u8]); 4] = [
        (0.0, b"<unk>"),
        (-1.5, b""),
        (f32::NEG_INFINITY, b" \0\xff"),
        (7.0, b"x"),
    ];

    #[test]
    fn tokens_come_as_they_are() {
        let bytes = file(&TOKENS);
        let tokenizer = TokenizerBin::parse(&bytes).unwrap();
        assert_eq!(tokenizer.len(), 4);
        assert!(tokenizer.iter().eq(TOKENS));
    }

    #[test]
    fn a_file_that_ends_early_says_where() {
        let bytes = file(&TOKENS);
        // Where each token ends, and a shorter file is whole.
        let ends = [17, 25, 36, 45];
        assert_eq!(bytes.len(), ends[3]);
        for len in 0..bytes.len() {
            let parsed = TokenizerBin::parse(&bytes[..len]);
            let id = ends.iter().filter(|&&end| end <= len).count();
            let start = if id == 0 { 4 } else { ends[id - 1] };
            match parsed {
                Ok(tokenizer) => assert!(tokenizer.len() == id && len == start),
                Err(VocabularyError::NoTokens { found }) => assert!(found == len && len <= 4),
                Err(VocabularyError::CutShort { id: at }) => {
                    assert!(at == id && len - start < 8);
                }
                Err(VocabularyError::TextLength { id: at, left, .. }) => {
                    assert!(at == id && left == len - start - 8);
                }
                Err(other) => panic!("{other}"),
            }
        }
    }

    #[test]
    fn lengths_and_scores_are_checked() {
        for len in [-1, i32::MIN, i32::MAX, 2] {
            let mut bytes = file(&TOKENS);
            let at = bytes.len() - 5;
            bytes[at..][..4].copy_from_slice(&len.to_le_bytes());
            let error = VocabularyError::TextLength {
                id: 3,
                len,
                left: 1,
            };
            assert_eq!(TokenizerBin::parse(&bytes).unwrap_err(), error);
        }
        let bytes = file(&[(0.0, b"a"), (f32::NAN, b"b")]);
        let error = VocabularyError::Score { id: 1 };
        assert_eq!(TokenizerBin::parse(&bytes).unwrap_err(), error);
    }
}
