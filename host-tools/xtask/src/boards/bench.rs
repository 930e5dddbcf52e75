//! `cargo xtask bench boards`: instructions of a step on every board.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::firmware::{Program, Source};
use super::{Board, choose, models};
use crate::process::root;

/// Arguments of `cargo xtask bench boards`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// These boards only (may be given several times); `targets/BENCH.md` is then left as it is.
    #[arg(long = "board", value_name = "BOARD")]
    boards: Vec<String>,
    /// Another model than stories260K (may be given several times).
    #[arg(long = "model", value_name = "GGUF")]
    models: Vec<PathBuf>,
    /// Print a list of rows.
    #[arg(long)]
    json: bool,
}

/// Positions that are measured.
const POSITIONS: &str = "256";

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let boards = choose(&args.boards)?;
    let mut rows = Vec::new();
    let measured = |board: &Board| board.measured && board.row.qemu.is_some();
    for board in boards.into_iter().filter(measured) {
        let mut files = args.models.clone();
        if files.is_empty() {
            files = models::fitting(board)?;
        }
        for model in &files {
            if fs::metadata(model)?.len() > board.row.memory.model.len {
                continue;
            }
            let firmware = Source::new(board, model).build(Program::Bench)?;
            for backend in [None, Some("scalar")] {
                let mut words = vec!["-n", POSITIONS];
                words.extend(backend.iter().flat_map(|name| ["--backend", name]));
                let text = firmware.output(None, &words)?;
                let field = |name| field(&text, name).with_context(|| text.clone());
                let number = |name| -> Result<u64> { Ok(field(name)?.parse()?) };
                rows.push(json!({
                    "board": board.name,
                    "cpu": board.cpu.map_or_else(|| board.row.core.to_lowercase(), str::to_owned),
                    "kernels": field("backend")?,
                    "model": model.file_stem().unwrap_or_default().to_string_lossy(),
                    "type": models::type_of(model),
                    "kv": board.row.options.kv.name(),
                    "window": board.row.options.window,
                    "pos0": number("first")?,
                    "pos255": number("last")?,
                    "mean": number("mean")?,
                }));
            }
        }
    }
    let table = table(&rows);
    if args.json {
        println!("{}", serde_json::to_string_pretty(&rows)?);
    } else {
        print!("{table}");
    }
    if args.boards.is_empty() && args.models.is_empty() {
        let path = root().join("targets/BENCH.md");
        fs::write(&path, format!("{HEAD}{table}"))
            .with_context(|| format!("cannot write {}", path.display()))?;
        eprintln!("written: {}", path.display());
    }
    Ok(ExitCode::SUCCESS)
}

const HEAD: &str = "\
# Instructions of a step

Written by `cargo xtask bench boards`: QEMU counts instructions, which are not cycles. A step takes
one token to the logits behind it; choosing a token is not counted. Where the window has fewer than
256 positions, the cache is a ring.

";

/// The rest of the line that begins with `name`.
fn field<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    text.lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))
}

/// The rows for people.
fn table(rows: &[Value]) -> String {
    let columns = [
        "board", "cpu", "kernels", "model", "kv", "window", "pos0", "pos255", "mean",
    ];
    let cell = |row: &Value, name: &str| match &row[name] {
        Value::String(text) => text.clone(),
        other => grouped(&other.to_string()),
    };
    let mut text = format!("| {} |\n", columns.join(" | "));
    text += "|---|---|---|---|---|--:|--:|--:|--:|\n";
    for row in rows {
        let cells: Vec<_> = columns.iter().map(|name| cell(row, name)).collect();
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
    text
}

/// A number with a comma before each three digits.
fn grouped(digits: &str) -> String {
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_read_and_shown() {
        let text = "backend dsp\nfirst 12\nlast 34567\nmean 1234567\n";
        assert_eq!(field(text, "backend"), Some("dsp"));
        assert_eq!(field(text, "last"), Some("34567"));
        assert_eq!(field(text, "las"), None);
        let row = json!({
            "board": "b", "cpu": "c", "kernels": "dsp", "model": "m", "type": "Q8_0", "kv": "q8",
            "window": 256, "pos0": 12, "pos255": 34567, "mean": 1_234_567,
        });
        let table = table(&[row]);
        let last = table.lines().last().unwrap();
        assert_eq!(
            last,
            "| b | c | dsp | m | q8 | 256 | 12 | 34,567 | 1,234,567 |"
        );
    }
}
