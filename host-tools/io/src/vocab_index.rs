//! The two arrays by which a board finds tokens without RAM.

use smidgen_core::gguf::{Array, ValueType};

use crate::OwnedValue;

/// Builds `smidgen.tokenizer.offsets` and `smidgen.tokenizer.sorted` for an array of tokens.
///
/// `offsets` has one entry more than there are tokens; an entry is where the token's text begins,
/// behind its length, counted from the first byte after the array's element count; the last is
/// where a next text would begin. `sorted` has the ids in the order of the stored bytes, ties by
/// id. Both are arrays of u16 where the values fit, else of u32; `None` where not even those do,
/// or `tokens` is no array of strings.
///
/// ```
/// use smidgen_core::gguf::Value;
/// use smidgen_io::{OwnedValue, vocab_index};
/// let tokens = OwnedValue::strings(["b", "aa"]);
/// let Value::Array(tokens) = tokens.as_value() else { unreachable!() };
/// let (offsets, sorted) = vocab_index(&tokens).unwrap();
/// assert_eq!(offsets, OwnedValue::from(&[8_u16, 17, 27][..]));
/// assert_eq!(sorted, OwnedValue::from(&[1_u16, 0][..]));
/// ```
#[must_use]
pub fn vocab_index(tokens: &Array<'_>) -> Option<(OwnedValue, OwnedValue)> {
    if tokens.element_type() != ValueType::String {
        return None;
    }
    // As the file will have it: version 1, with shorter lengths, is written as version 3.
    const LENGTH: usize = 8;
    let mut offsets = Vec::with_capacity(tokens.len() + 1);
    let mut at = LENGTH;
    offsets.push(u32::try_from(at).ok()?);
    for text in tokens.strings() {
        at = at.checked_add(text.len())?.checked_add(LENGTH)?;
        offsets.push(u32::try_from(at).ok()?);
    }
    let texts: Vec<_> = tokens.strings().collect();
    let mut sorted: Vec<u32> = (0..u32::try_from(texts.len()).ok()?).collect();
    sorted.sort_by_key(|&id| (texts[id as usize], id));
    Some((narrowest(&offsets), narrowest(&sorted)))
}

fn narrowest(numbers: &[u32]) -> OwnedValue {
    let narrow: Result<Vec<u16>, _> = numbers.iter().map(|&n| u16::try_from(n)).collect();
    match narrow {
        Ok(narrow) => narrow[..].into(),
        Err(_) => numbers.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use smidgen_core::gguf::Value;

    fn index(tokens: &[&str]) -> Option<(OwnedValue, OwnedValue)> {
        let tokens = OwnedValue::strings(tokens);
        match tokens.as_value() {
            Value::Array(tokens) => vocab_index(&tokens),
            _ => None,
        }
    }

    #[test]
    fn ties_go_by_id_and_shorter_comes_first() {
        let (_, sorted) = index(&["b", "a", "ab", "a", ""]).unwrap();
        assert_eq!(sorted, OwnedValue::from(&[4_u16, 1, 3, 2, 0][..]));
    }

    #[test]
    fn offsets_lead_to_the_texts() {
        let long = "x".repeat(70_000);
        let tokens = ["<s>", "", &long, "end"];
        let (offsets, sorted) = index(&tokens).unwrap();
        // Each array has a width of its own.
        let wide = OwnedValue::from(&[8_u32, 19, 27, 70_035, 70_046][..]);
        assert_eq!(offsets, wide);
        assert_eq!(sorted, OwnedValue::from(&[1_u16, 0, 3, 2][..]));
        let stored = OwnedValue::strings(tokens);
        let Value::Array(array) = stored.as_value() else {
            unreachable!()
        };
        let Value::Array(offsets) = offsets.as_value() else {
            unreachable!()
        };
        for (id, token) in tokens.iter().enumerate() {
            let start = offsets.u32_at(id).unwrap() as usize;
            let next = offsets.u32_at(id + 1).unwrap() as usize;
            assert_eq!(&array.bytes()[start..next - 8], token.as_bytes());
        }
    }

    #[test]
    fn no_tokens_and_no_strings() {
        let (offsets, sorted) = index(&[]).unwrap();
        assert_eq!(offsets, OwnedValue::from(&[8_u16][..]));
        assert_eq!(sorted, OwnedValue::from(&[0_u16; 0][..]));
        let numbers = OwnedValue::from(&[1_u8, 2][..]);
        let Value::Array(numbers) = numbers.as_value() else {
            unreachable!()
        };
        assert_eq!(vocab_index(&numbers), None);
    }
}
