//! What all commands print alike: data, warnings, errors, tables, numbers.

use std::{
    fmt::{self, Display, Write as _},
    io::{self, Write as _},
};

use anstream::AutoStream;
use anstyle::{AnsiColor, Style};
use anyhow::Context;
use serde_json::Value as Json;

/// Headings.
pub(crate) const HEADING: Style = Style::new().bold();
/// What is there to be passed over.
pub(crate) const DIM: Style = Style::new().dimmed();
/// What is wrong.
pub(crate) const BAD: Style = AnsiColor::Red.on_default().bold();
/// What is odd.
pub(crate) const ODD: Style = AnsiColor::Yellow.on_default();
/// What is right.
pub(crate) const GOOD: Style = AnsiColor::Green.on_default();

/// Writes data to standard output. Styles in it are taken out where there should be none.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    let stdout = io::stdout().lock();
    let choice = AutoStream::choice(&stdout);
    write_all(AutoStream::new(stdout, choice), text.as_bytes())
}

/// Writes bytes to standard output as they are.
pub(crate) fn print_bytes(bytes: &[u8]) -> anyhow::Result<()> {
    write_all(io::stdout().lock(), bytes)
}

fn write_all(mut out: impl io::Write, bytes: &[u8]) -> anyhow::Result<()> {
    let written = out.write_all(bytes).and_then(|()| out.flush());
    written.context("cannot write to standard output")
}

/// Writes a JSON value to standard output, indented, with a line's end.
pub(crate) fn print_json(json: &Json) -> anyhow::Result<()> {
    print_bytes(format!("{json:#}\n").as_bytes())
}

/// Writes words to standard error: what is neither data nor wrong.
pub(crate) fn say(words: impl Display) {
    // Where standard error is closed there is nobody to tell.
    let _ = writeln!(io::stderr(), "{words}");
}

/// Writes a line `smidgen: …` about something that does not stop the work.
pub(crate) fn warn(message: impl Display) {
    eprintln_styled(ODD, "warning: ", &message.to_string());
}

/// Writes an error with its causes as one line, and its hint, if it has one, as a second.
pub(crate) fn error(error: &anyhow::Error) {
    match error.downcast_ref::<Hinted>() {
        Some(Hinted { error, hint }) => {
            eprintln_styled(BAD, "", &format!("{error:#}"));
            let _ = writeln!(io::stderr(), "hint: {hint}");
        }
        None => eprintln_styled(BAD, "", &format!("{error:#}")),
    }
}

fn eprintln_styled(style: Style, kind: &str, message: &str) {
    let stderr = io::stderr().lock();
    let choice = AutoStream::choice(&stderr);
    let mut out = AutoStream::new(stderr, choice);
    // Where standard error is closed there is nobody to tell.
    let _ = writeln!(out, "{style}smidgen: {kind}{style:#}{message}");
}

/// An error with a hint at what to do.
#[derive(Debug)]
pub(crate) struct Hinted {
    error: anyhow::Error,
    hint: String,
}

impl Display for Hinted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#}", self.error)
    }
}

impl std::error::Error for Hinted {}

/// An error and what its user could do.
pub(crate) fn hinted(error: impl Into<anyhow::Error>, hint: impl Into<String>) -> anyhow::Error {
    anyhow::Error::new(Hinted {
        error: error.into(),
        hint: hint.into(),
    })
}

/// Columns of the terminal, 100 where there is none.
pub(crate) fn width() -> usize {
    let terminal = terminal_size::terminal_size().map(|(width, _)| usize::from(width.0));
    let columns = || std::env::var("COLUMNS").ok()?.parse().ok();
    terminal.or_else(columns).unwrap_or(100).clamp(40, 200)
}

/// Whether the locale takes more than ASCII.
pub(crate) fn is_unicode() -> bool {
    let set = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    let locale = set("LC_ALL").or(set("LC_CTYPE")).or(set("LANG"));
    locale.is_some_and(|locale| {
        let locale = locale.to_ascii_lowercase();
        locale.contains("utf-8") || locale.contains("utf8")
    })
}

/// Bytes as a person reads them: `512 B`, `270.5 KiB`.
pub(crate) fn human_bytes(bytes: u64) -> String {
    let mut value = bytes as f64;
    let mut unit = 0;
    const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    match unit {
        0 => format!("{bytes} B"),
        _ => format!("{value:.1} {}", UNITS[unit]),
    }
}

/// A count with its word: `1 tensor`, `3 tensors`.
pub(crate) fn counted(count: impl Into<u64>, word: &str) -> String {
    match count.into() {
        1 => format!("1 {word}"),
        count => format!("{count} {word}s"),
    }
}

/// The text, cut to `width` characters with an ellipsis.
pub(crate) fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().take(width.saturating_sub(1)).collect();
    format!("{kept}…")
}

/// How a column is aligned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

/// Rows of cells in aligned columns, two spaces apart; the last column is not padded.
#[derive(Debug)]
pub(crate) struct Table {
    aligns: Vec<Align>,
    head: Option<Vec<String>>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(aligns: &[Align]) -> Self {
        Self {
            aligns: aligns.to_vec(),
            head: None,
            rows: Vec::new(),
        }
    }

    pub(crate) fn head(mut self, head: &[&str]) -> Self {
        self.head = Some(head.iter().map(|&cell| cell.to_owned()).collect());
        self
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Appends the table, each line after `indent` spaces.
    pub(crate) fn write(&self, text: &mut String, indent: usize) {
        let lines = || self.head.iter().chain(&self.rows);
        let length = |cell: &String| cell.chars().count();
        let widths: Vec<_> = (0..self.aligns.len())
            .map(|column| {
                let cells = lines().filter_map(|row| row.get(column));
                cells.map(length).max().unwrap_or(0)
            })
            .collect();
        for (number, row) in lines().enumerate() {
            let mut line = " ".repeat(indent);
            for (column, cell) in row.iter().enumerate() {
                let pad = " ".repeat(widths[column] - length(cell));
                match self.aligns[column] {
                    Align::Left => line.extend([cell, &pad[..]]),
                    Align::Right => line.extend([&pad[..], cell]),
                }
                line.push_str("  ");
            }
            let line = line.trim_end();
            // Writing to a string cannot fail.
            let _ = match self.head {
                Some(_) if number == 0 => writeln!(text, "{DIM}{line}{DIM:#}"),
                _ => writeln!(text, "{line}"),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_units_of_1024() {
        let shown = [0, 1023, 1024, 277_024, u64::MAX].map(human_bytes);
        assert_eq!(shown, ["0 B", "1023 B", "1.0 KiB", "270.5 KiB", "16.0 EiB"]);
    }

    #[test]
    fn text_is_cut_between_characters() {
        assert_eq!(cut("▁▁▁", 3), "▁▁▁");
        assert_eq!(cut("▁▁▁▁", 3), "▁▁…");
    }

    #[test]
    fn columns_are_aligned() {
        let mut table =
            Table::new(&[Align::Left, Align::Right, Align::Left]).head(&["a", "b", "c"]);
        table.row(["▁".into(), "10".into(), "x".into()]);
        table.row(["long".into(), "7".into(), String::new()]);
        let mut text = String::new();
        table.write(&mut text, 1);
        let plain = anstream::adapter::strip_str(&text).to_string();
        assert_eq!(plain, " a      b  c\n ▁     10  x\n long   7\n");
    }
}
