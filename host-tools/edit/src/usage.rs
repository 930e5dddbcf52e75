//! What fills a file: every byte of it belongs to exactly one part.

use std::collections::BTreeMap;

use smidgen_core::gguf::{GgmlType, Gguf, align_up};

/// What a part of a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PartKind {
    /// Magic, version, counts, metadata.
    Metadata,
    /// Names, shapes, types and places of the tensors.
    TensorInfos,
    /// Tensors of one group and type.
    Tensors {
        /// What they are for: `attention`, `feed-forward`, …
        group: &'static str,
        /// Their type.
        ty: GgmlType,
    },
    /// Bytes that only align what follows, or the end.
    Padding,
    /// Bytes between tensors beyond what alignment asks for.
    Gaps,
    /// Bytes after the last tensor and its padding, or behind what could be read.
    Trailing,
}

/// A part of a file and its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// What it is.
    pub kind: PartKind,
    /// How many bytes it takes.
    pub bytes: u64,
}

/// What fills a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// All parts that are not empty, in the order of [`PartKind`].
    pub parts: Vec<Part>,
    /// Padding before the first tensor.
    pub padding_before: u64,
    /// Padding between tensors and behind the last.
    pub padding_between: u64,
    /// Offset and length of every gap.
    pub gaps: Vec<(u64, u64)>,
    /// Offset and length of what trails, if anything does.
    pub trailing: Option<(u64, u64)>,
}

impl Usage {
    /// Goes over the tensors in the order of their places. In a file with faults, tensors count as
    /// far as they lie in the file and over no other.
    #[must_use]
    pub fn of(gguf: &Gguf<'_>) -> Self {
        let file = gguf.bytes().len() as u64;
        let alignment = gguf.alignment();
        let mut usage = Self::default();
        let mut parts: BTreeMap<PartKind, u64> = BTreeMap::new();
        let mut add = |kind, bytes: u64| *parts.entry(kind).or_default() += bytes;

        let infos = gguf.infos_offset();
        let data = gguf.data_offset();
        add(PartKind::Metadata, infos);
        add(PartKind::TensorInfos, gguf.infos_end() - infos);
        let mut at = gguf.infos_end();
        if data != u64::MAX {
            usage.padding_before = data.min(file) - at;
            at = data.min(file);
        }

        let mut tensors: Vec<_> = gguf
            .tensors()
            .filter_map(|info| {
                let start = data.checked_add(info.offset())?;
                let end = start.checked_add(info.byte_len()?)?;
                let group = group(info.name());
                Some((start.min(file), end.min(file), group, info.ty()))
            })
            .collect();
        tensors.sort_by_key(|&(start, end, ..)| (start, end));
        for (start, end, group, ty) in tensors {
            if start > at {
                let aligned = align_up(at, alignment).map_or(start, |aligned| aligned.min(start));
                usage.padding_between += aligned - at;
                if start > aligned {
                    usage.gaps.push((aligned, start - aligned));
                }
                at = start;
            }
            add(PartKind::Tensors { group, ty }, end.saturating_sub(at));
            at = at.max(end);
        }

        let aligned = align_up(at, alignment).map_or(file, |aligned| aligned.min(file));
        if data != u64::MAX && gguf.tensor_count() > 0 {
            usage.padding_between += aligned - at;
            at = aligned;
        }
        if file > at {
            usage.trailing = Some((at, file - at));
        }
        add(
            PartKind::Padding,
            usage.padding_before + usage.padding_between,
        );
        add(PartKind::Gaps, usage.gaps.iter().map(|gap| gap.1).sum());
        add(PartKind::Trailing, usage.trailing.map_or(0, |t| t.1));
        let parts = parts.into_iter().filter(|&(_, bytes)| bytes > 0);
        usage.parts = parts.map(|(kind, bytes)| Part { kind, bytes }).collect();
        usage
    }

    /// Padding, gaps and what trails: bytes that hold nothing.
    #[must_use]
    pub fn bytes_of(&self, kind: PartKind) -> u64 {
        let part = self.parts.iter().find(|part| part.kind == kind);
        part.map_or(0, |part| part.bytes)
    }
}

/// What a tensor is for, by its name.
fn group(name: &str) -> &'static str {
    let last = name.strip_suffix(".weight").or(name.strip_suffix(".bias"));
    let last = last.unwrap_or(name);
    let last = last.rsplit_once('.').map_or(last, |(_, last)| last);
    if last.contains("norm") {
        "norms"
    } else if last.starts_with("token_embd") || last.starts_with("tok") {
        "embedding"
    } else if last.starts_with("attn") {
        "attention"
    } else if last.starts_with("ffn") {
        "feed-forward"
    } else if last == "output" {
        "output"
    } else {
        "other"
    }
}

#[cfg(test)]
mod tests {
    use smidgen_core::gguf::{TensorInfo, Value, Writer};

    use super::*;

    fn file(tensors: &[(&str, u64, u64)], data: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        let sink = |part: &[u8]| -> Result<(), ()> {
            bytes.extend_from_slice(part);
            Ok(())
        };
        let mut writer = Writer::new(sink, 1, tensors.len() as u64).unwrap();
        writer.metadata("a", &Value::U8(1)).unwrap();
        for &(name, len, offset) in tensors {
            let info = TensorInfo::new(name, &[len], GgmlType::I8, offset).unwrap();
            writer.tensor(&info).unwrap();
        }
        writer.finish(32).unwrap();
        bytes.resize(bytes.len() + data, 1);
        bytes
    }

    #[test]
    fn every_byte_is_counted_once() {
        for (tensors, data, padding, gaps, trailing) in [
            (&[][..], 0, 0, 0, 0),
            (&[], 5, 0, 0, 5),
            (&[("token_embd.weight", 40, 0)], 40, 0, 0, 0),
            (&[("token_embd.weight", 40, 0)], 64, 24, 0, 0),
            (&[("token_embd.weight", 40, 0)], 70, 24, 0, 6),
            (
                &[("b", 3, 64), ("blk.0.attn_q.weight", 3, 0)],
                67,
                29,
                32,
                0,
            ),
        ] {
            let bytes = file(tensors, data);
            let gguf = Gguf::parse_small(&bytes).unwrap();
            let usage = Usage::of(&gguf);
            let all: u64 = usage.parts.iter().map(|part| part.bytes).sum();
            assert_eq!(all, bytes.len() as u64);
            assert_eq!(usage.padding_between, padding, "{tensors:?} {data}");
            assert_eq!(usage.bytes_of(PartKind::Gaps), gaps, "{tensors:?} {data}");
            let found = usage.bytes_of(PartKind::Trailing);
            assert_eq!(found, trailing, "{tensors:?} {data}");
            for &(name, len, _) in tensors {
                let group = group(name);
                let ty = GgmlType::I8;
                assert_eq!(usage.bytes_of(PartKind::Tensors { group, ty }), len);
            }
        }
    }

    #[test]
    fn groups_are_told_by_name() {
        for (name, expected) in [
            ("token_embd.weight", "embedding"),
            ("blk.3.attn_q.weight", "attention"),
            ("blk.3.attn_norm.weight", "norms"),
            ("blk.3.ffn_down.weight", "feed-forward"),
            ("output_norm.weight", "norms"),
            ("output.weight", "output"),
            ("rope_freqs.weight", "other"),
        ] {
            assert_eq!(group(name), expected, "{name}");
        }
    }
}
