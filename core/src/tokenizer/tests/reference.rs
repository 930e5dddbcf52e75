//! What llama.cpp does, done plainly.

use std::collections::HashMap;
use std::vec;
use std::vec::Vec;

use super::file::{CONTROL, Token, UNKNOWN, USER_DEFINED};

/// llama.cpp's rules in the plainest way: a list of fragments, a copy of each text, and a search
/// over all pairs for every merge.
pub(super) fn reference(
    tokens: &[Token],
    text: &[u8],
    prefix: bool,
    parse_special: bool,
) -> Vec<u32> {
    let mut by_text: HashMap<&[u8], u32> = HashMap::new();
    for (id, (text, ..)) in tokens.iter().enumerate() {
        by_text.entry(text).or_insert(id as u32);
    }

    let mut fragments: Vec<Result<u32, Vec<u8>>> = vec![Err(text.to_vec())];
    let mut wanted: Vec<usize> = (0..tokens.len())
        .filter(|i| match tokens[*i].2 {
            USER_DEFINED => true,
            UNKNOWN | CONTROL => parse_special,
            _ => false,
        })
        .collect();
    wanted.sort_by_key(|i| std::cmp::Reverse(tokens[*i].0.len()));
    for special in wanted {
        let needle = &tokens[special].0;
        let mut split = Vec::new();
        for fragment in fragments {
            let mut rest = match fragment {
                Ok(id) => {
                    split.push(Ok(id));
                    continue;
                }
                Err(text) => text,
            };
            while let Some(at) = rest.windows(needle.len()).position(|w| w == needle) {
                split.push(Err(rest[..at].to_vec()));
                split.push(Ok(special as u32));
                rest = rest[at + needle.len()..].to_vec();
            }
            split.push(Err(rest));
        }
        split.retain(|fragment| !matches!(fragment, Err(text) if text.is_empty()));
        fragments = split;
    }

    let mut ids = Vec::new();
    let mut after_special = true;
    for fragment in fragments {
        let text = match fragment {
            Ok(id) => {
                ids.push(id);
                after_special = true;
                continue;
            }
            Err(text) if text.is_empty() => continue,
            Err(text) => text,
        };
        let mut escaped = Vec::new();
        if prefix && after_special {
            escaped.extend("\u{2581}".bytes());
        }
        after_special = false;
        for byte in text {
            match byte {
                b' ' => escaped.extend("\u{2581}".bytes()),
                _ => escaped.push(byte),
            }
        }
        let mut symbols: Vec<Vec<u8>> = Vec::new();
        let mut rest = &escaped[..];
        while !rest.is_empty() {
            let len = [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 3, 4][usize::from(rest[0] >> 4)];
            let (symbol, after) = rest.split_at(rest.len().min(len));
            symbols.push(symbol.to_vec());
            rest = after;
        }
        loop {
            let mut best: Option<(f32, usize)> = None;
            for i in 1..symbols.len() {
                let pair = [&symbols[i - 1][..], &symbols[i]].concat();
                if let Some(id) = by_text.get(&pair[..]) {
                    let score = tokens[*id as usize].1;
                    if best.is_none_or(|(highest, _)| score > highest) {
                        best = Some((score, i));
                    }
                }
            }
            let Some((_, i)) = best else { break };
            let right = symbols.remove(i);
            symbols[i - 1].extend(right);
        }
        for symbol in symbols {
            if let Some(id) = by_text.get(&symbol[..]) {
                ids.push(*id);
                continue;
            }
            let bytes = symbol.iter().map(|b| {
                let name = std::format!("<0x{b:02X}>");
                by_text.get(name.as_bytes()).or(by_text.get(&[*b][..]))
            });
            match bytes.collect::<Option<Vec<_>>>() {
                Some(bytes) => ids.extend(bytes),
                None => ids.push(0),
            }
        }
    }
    ids
}
