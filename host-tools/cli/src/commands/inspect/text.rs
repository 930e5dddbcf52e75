//! The facts as a page of text.

use std::{fmt::Write as _, path::Path};

use smidgen_core::gguf::{Array, FileName, Gguf, Value};
use smidgen_edit::{PartKind, printable};

use super::{facts::Facts, set::Member};
use crate::{
    commands::verify::file_name,
    output::{self, Align, DIM, HEADING, ODD, Table, counted, cut, human_bytes},
};

const INDENT: usize = 2;

/// What is printed.
pub(super) struct Page<'p, 'a> {
    pub(super) path: &'p Path,
    pub(super) gguf: &'p Gguf<'a>,
    pub(super) members: &'p [Member<'a>],
    pub(super) facts: &'p Facts<'a>,
    pub(super) no_tensors: bool,
    pub(super) full: bool,
}

impl Page<'_, '_> {
    pub(super) fn to_text(&self) -> String {
        let mut text = String::new();
        self.header(&mut text);
        self.name(&mut text);
        if self.members.len() > 1 {
            self.shards(&mut text);
        }
        self.metadata(&mut text);
        if !self.no_tensors && !self.facts.tensors.is_empty() {
            self.tensors(&mut text);
        }
        if !self.facts.tensors.is_empty() {
            self.totals(&mut text);
        }
        self.layout(&mut text);
        text
    }

    fn header(&self, text: &mut String) {
        let gguf = self.gguf;
        let path = printable(self.path.display().to_string().as_bytes());
        let bytes = gguf.bytes().len() as u64;
        let contents = self.members[0].verdict.as_ref();
        let contents = contents.map_or(String::new(), |verdict| verdict.contents_words());
        line(text, format_args!("{HEADING}{path}{HEADING:#}: {contents}"));
        let metadata = match gguf.metadata_count() {
            1 => String::from("1 metadata entry"),
            count => format!("{count} metadata entries"),
        };
        let parts = [
            format!("GGUF version {}", gguf.version()),
            format!("{} ({})", counted(bytes, "byte"), human_bytes(bytes)),
            metadata,
            counted(gguf.tensor_count() as u64, "tensor"),
            format!("alignment {}", gguf.alignment()),
        ];
        line(text, format_args!("  {}", parts.join(", ")));
    }

    fn name(&self, text: &mut String) {
        let Some(file_name) = file_name(self.path) else {
            return;
        };
        heading(text, "Name", "");
        let Some(name) = FileName::parse(file_name) else {
            line(text, format_args!("  does not end in .gguf"));
            return;
        };
        let shard = name
            .shard
            .map(|(number, count)| format!("{number} of {count}"));
        let parts = [
            ("sidecar", name.sidecar),
            ("base name", Some(name.base_name)),
            ("size", name.size_label),
            ("fine-tune", name.fine_tune),
            ("version", name.version),
            ("encoding", name.encoding),
            ("type", name.kind),
            ("shard", shard.as_deref()),
        ];
        let parts = parts.into_iter().filter_map(|(word, part)| {
            let part = part.filter(|part| !part.is_empty())?;
            Some(format!("{word} {}", printable(part.as_bytes())))
        });
        let parts: Vec<_> = parts.collect();
        if !parts.is_empty() {
            line(text, format_args!("  {}", parts.join(", ")));
        }
        for problem in name.problems() {
            let problem = printable(problem.to_string().as_bytes());
            let words = "not by the convention";
            line(text, format_args!("  {ODD}{words}{ODD:#}: {problem}"));
        }
    }

    fn shards(&self, text: &mut String) {
        let there = self.members.iter().filter(|member| !member.is_missing());
        let there = there.count();
        let note = match self.members.len() - there {
            0 => format!("{there}, all there"),
            missing => format!("{missing} of {} missing", self.members.len()),
        };
        heading(text, "Shards", &note);
        let mut table = Table::new(&[
            Align::Right,
            Align::Left,
            Align::Right,
            Align::Right,
            Align::Left,
        ])
        .head(&["#", "file", "tensors", "bytes", ""]);
        // A name can promise 99,999 shards.
        const MOST: usize = 20;
        let mut cut_off = 0;
        for (number, member) in (1..).zip(self.members) {
            if member.is_missing() && number > MOST && !self.full {
                cut_off += 1;
                continue;
            }
            let gguf = member.verdict.as_ref().and_then(|verdict| verdict.gguf);
            let state = match (&member.verdict, &member.error) {
                (Some(verdict), _) if verdict.is_valid() => String::new(),
                (Some(verdict), _) => counted(verdict.faults.len() as u64, "fault"),
                (None, Some(error)) => printable(error.as_bytes()),
                (None, None) => String::from("missing"),
            };
            table.row([
                number.to_string(),
                printable(member.name.as_bytes()),
                gguf.map_or(String::new(), |gguf| gguf.tensor_count().to_string()),
                member
                    .verdict
                    .as_ref()
                    .map_or(String::new(), |_| member.bytes.to_string()),
                state,
            ]);
        }
        table.write(text, INDENT);
        if cut_off > 0 {
            line(
                text,
                format_args!("  and {cut_off} more that are missing (--full)"),
            );
        }
    }

    fn metadata(&self, text: &mut String) {
        let gguf = self.gguf;
        let (from, to) = (gguf.metadata_offset(), gguf.infos_offset());
        heading(text, "Metadata", &format!("bytes {from} to {to}"));
        let mut table = Table::new(&[Align::Left, Align::Left, Align::Left]);
        let rows: Vec<_> = gguf
            .metadata()
            .map(|entry| {
                let key = printable(entry.key_bytes());
                let ty = match entry.value {
                    Value::Array(array) => format!("[{}; {}]", array.element_type(), array.len()),
                    other => other.value_type().to_string(),
                };
                (self.cut(&key, 60), ty, entry.value)
            })
            .collect();
        let widest = |lengths: &mut dyn Iterator<Item = usize>| lengths.max().unwrap_or(0);
        let keys = widest(&mut rows.iter().map(|row| row.0.chars().count()));
        let types = widest(&mut rows.iter().map(|row| row.1.chars().count()));
        let room = output::width()
            .saturating_sub(INDENT + keys + types + 4)
            .max(12);
        for (key, ty, value) in rows {
            table.row([key, ty, self.value(&value, room)]);
        }
        table.write(text, INDENT);
    }

    fn tensors(&self, text: &mut String) {
        let data = self.gguf.data_offset();
        let note = match data {
            u64::MAX => String::from("where their data begin is not known"),
            data => format!("offsets count from byte {data}"),
        };
        let sharded = self.members.len() > 1;
        let note = if sharded {
            "offsets count from each shard's data"
        } else {
            &note
        };
        heading(text, "Tensors", note);
        let mut aligns = vec![Align::Right, Align::Left, Align::Left, Align::Left];
        let mut head = vec!["#", "name", "type", "shape"];
        aligns.extend([Align::Right, Align::Right, Align::Right]);
        head.extend(["elements", "offset", "bytes"]);
        if sharded {
            aligns.push(Align::Right);
            head.push("shard");
        }
        let mut table = Table::new(&aligns).head(&head);
        for (number, tensor) in self.facts.tensors.iter().enumerate() {
            let info = &tensor.info;
            let dims: Vec<_> = info.dims().iter().map(u64::to_string).collect();
            let known = |n: Option<u64>| n.map_or(String::from("?"), |n| n.to_string());
            let mut row = vec![
                number.to_string(),
                printable(info.name_bytes()),
                info.ty().to_string(),
                dims.join(" x "),
                known(info.elements()),
                info.offset().to_string(),
                known(info.byte_len()),
            ];
            if sharded {
                row.push(tensor.shard.to_string());
            }
            table.row(row);
        }
        table.write(text, INDENT);
    }

    fn totals(&self, text: &mut String) {
        let facts = self.facts;
        let bits = facts.bits_per_weight();
        let note = bits.map_or(String::new(), |bits| format!("{bits:.3} bits per weight"));
        heading(text, "Totals", &note);
        let mut table = Table::new(&[
            Align::Left,
            Align::Right,
            Align::Right,
            Align::Right,
            Align::Right,
        ])
        .head(&["type", "tensors", "parameters", "bytes", "bits"]);
        for (ty, sum) in &facts.types {
            let known = ty.geometry().is_some();
            let bits = sum.bytes as f64 * 8.0 / sum.elements as f64;
            let shown_bits = (known && sum.elements > 0).then(|| format!("{bits:.3}"));
            table.row([
                ty.to_string(),
                sum.tensors.to_string(),
                sum.elements.to_string(),
                if known {
                    sum.bytes.to_string()
                } else {
                    String::from("?")
                },
                shown_bits.unwrap_or_default(),
            ]);
        }
        if facts.types.len() > 1 {
            table.row([
                String::from("all"),
                facts.tensors.len().to_string(),
                facts.parameters().to_string(),
                facts.tensor_bytes().to_string(),
                bits.map_or(String::new(), |bits| format!("{bits:.3}")),
            ]);
        }
        table.write(text, INDENT);
    }

    fn layout(&self, text: &mut String) {
        let facts = self.facts;
        let note = match self.gguf.data_offset() {
            _ if self.members.len() > 1 => String::from("all shards together"),
            u64::MAX => String::new(),
            data if self.gguf.tensor_count() > 0 => format!("data begin at byte {data}"),
            _ => String::new(),
        };
        heading(text, "Layout", &note);
        let share = |bytes: u64| bytes as f64 / facts.bytes.max(1) as f64;
        let rows: Vec<_> = facts
            .parts
            .iter()
            .map(|(kind, &bytes)| (part_words(*kind), bytes, share(bytes)))
            .collect();
        let labels = rows.iter().map(|row| row.0.chars().count()).max();
        let bytes = rows.iter().map(|row| row.1.to_string().len()).max();
        let taken = INDENT + labels.unwrap_or(0) + bytes.unwrap_or(0) + 14;
        let room = output::width().saturating_sub(taken).clamp(10, 60);
        let mut table = Table::new(&[Align::Left, Align::Right, Align::Right, Align::Left]);
        for (label, bytes, share) in rows {
            let percent = format!("{:.1} %", share * 100.0);
            table.row([
                label,
                bytes.to_string(),
                percent,
                bar(share, room, output::is_unicode()),
            ]);
        }
        table.write(text, INDENT);
    }

    /// A value on one line, cut to `room` characters unless all is asked for.
    fn value(&self, value: &Value<'_>, room: usize) -> String {
        match value {
            Value::String(bytes) => self.cut(&printable(bytes), room),
            Value::Array(array) => self.array(array, room),
            scalar => scalar_words(scalar),
        }
    }

    fn array(&self, array: &Array<'_>, room: usize) -> String {
        let mut text = String::new();
        for (at, element) in array.iter().enumerate() {
            let separator = if at == 0 { "" } else { ", " };
            let element = match element {
                Value::String(bytes) => format!("\"{}\"", printable(bytes)),
                other => scalar_words(&other),
            };
            let length = text.chars().count() + separator.len() + element.chars().count();
            let last = at + 1 == array.len();
            if !self.full && length + if last { 0 } else { 3 } > room {
                return if at == 0 {
                    cut(&element, room)
                } else {
                    text + ", …"
                };
            }
            text.extend([separator, &element[..]]);
        }
        text
    }

    fn cut(&self, text: &str, room: usize) -> String {
        if self.full {
            text.to_owned()
        } else {
            cut(text, room)
        }
    }
}

fn scalar_words(value: &Value<'_>) -> String {
    match value {
        Value::F32(v) => format!("{v:?}"),
        Value::F64(v) => format!("{v:?}"),
        Value::Bool(v) => v.to_string(),
        other => other.as_integer().map_or(String::new(), |n| n.to_string()),
    }
}

fn part_words(kind: PartKind) -> String {
    match kind {
        PartKind::Metadata => String::from("metadata"),
        PartKind::TensorInfos => String::from("tensor infos"),
        PartKind::Tensors { group, ty } => format!("{group}, {ty}"),
        PartKind::Padding => String::from("padding"),
        PartKind::Gaps => String::from("gaps"),
        PartKind::Trailing => String::from("behind the data"),
    }
}

/// A bar for a share of `room` characters: eighths of them where more than ASCII can be shown.
/// Whatever is there at all is seen.
fn bar(share: f64, room: usize, unicode: bool) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    if unicode {
        let eighths = ((share * room as f64 * 8.0).round() as usize).max(1);
        "█".repeat(eighths / 8) + EIGHTHS[eighths % 8]
    } else {
        "#".repeat(((share * room as f64).round() as usize).max(1))
    }
}

fn heading(text: &mut String, title: &str, note: &str) {
    line(text, format_args!(""));
    if note.is_empty() {
        line(text, format_args!("{HEADING}{title}{HEADING:#}"));
    } else {
        line(
            text,
            format_args!("{HEADING}{title}{HEADING:#} {DIM}({note}){DIM:#}"),
        );
    }
}

fn line(text: &mut String, words: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{words}");
}

#[cfg(test)]
mod tests {
    use super::bar;

    #[test]
    fn bars_fill_their_room_and_never_vanish() {
        assert_eq!(bar(1.0, 4, true), "████");
        assert_eq!(bar(0.5, 3, true), "█▌");
        assert_eq!(bar(0.0001, 4, true), "▏");
        assert_eq!(bar(0.5, 4, false), "##");
        assert_eq!(bar(0.0001, 4, false), "#");
    }
}
