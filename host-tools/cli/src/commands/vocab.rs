//! `smidgen vocab FILE`, `smidgen vocab escape|unescape`.

use std::{
    fmt::Write as _,
    io::{self, IsTerminal, Read},
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, anyhow, bail};
use serde_json::{Value as Json, json};
use smidgen_core::gguf::{Array, Gguf, Value, ValueType, keys};
use smidgen_edit::{escape, json as value, printable, unescape};
use smidgen_io::FileBytes;

use crate::output::{self, Align, Table};

/// Show a vocabulary, or turn text into the form of one and back.
///
/// `escape` and `unescape` read standard input and write standard output: spaces become U+2581,
/// what is no UTF-8 becomes byte tokens such as <0xFF>. Any bytes come back the same.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(after_long_help = "\
With --json: {\"schema\": 1, \"file\", \"model\", \"special\": {NAME: id}, \"tokens\": [{\"id\", \"text\",
\"type\", \"score\"}]}. With --tsv: a line of headings, then id, type, score and text, in which tabs,
line ends, backslashes and bytes that are no UTF-8 are escaped as \\t, \\n, \\r, \\\\ and \\xNN.")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,

    /// The file; `-` is standard input.
    #[arg(required = true)]
    file: Option<PathBuf>,

    /// Print JSON.
    #[arg(long)]
    json: bool,

    /// Print a table of columns parted by tabs.
    #[arg(long, conflicts_with = "json")]
    tsv: bool,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Turn text on standard input into the form in which a vocabulary stores it.
    Escape,
    /// Turn text in the form of a vocabulary on standard input back.
    Unescape,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    match (&args.command, &args.file) {
        (Some(Command::Escape), _) => output::print_bytes(escape(&stdin()?).as_bytes())?,
        (Some(Command::Unescape), _) => {
            let bytes = unescape(&stdin()?);
            let moves = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
            let is_text = std::str::from_utf8(&bytes).is_ok_and(|text| !text.contains(moves));
            if io::stdout().is_terminal() && !is_text {
                bail!("this is no plain text: it is not written to a terminal");
            }
            output::print_bytes(&bytes)?;
        }
        (None, Some(file)) => show(file, args)?,
        (None, None) => bail!("no file"),
    }
    Ok(ExitCode::SUCCESS)
}

fn stdin() -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = io::stdin().lock().read_to_end(&mut bytes);
    read.context("cannot read standard input")?;
    Ok(bytes)
}

/// A vocabulary's arrays.
struct Vocabulary<'a> {
    tokens: Array<'a>,
    scores: Option<Array<'a>>,
    types: Option<Array<'a>>,
}

impl<'a> Vocabulary<'a> {
    fn of(gguf: &Gguf<'a>, file: &Path) -> anyhow::Result<Self> {
        let shown = printable(file.display().to_string().as_bytes());
        let fail = |error: &dyn std::fmt::Display| anyhow!("{shown}: {error}");
        let tokens = gguf
            .get_array(keys::TOKENIZER_GGML_TOKENS, ValueType::String)
            .map_err(|error| fail(&error))?
            .ok_or_else(|| fail(&"no vocabulary: tokenizer.ggml.tokens is missing"))?;
        let other = |key| match gguf.get(key) {
            None => Ok(None),
            Some(Value::Array(array)) if array.len() == tokens.len() => Ok(Some(array)),
            Some(_) => Err(fail(&format!("{key} does not have one entry a token"))),
        };
        Ok(Self {
            tokens,
            scores: other(keys::TOKENIZER_GGML_SCORES)?,
            types: other(keys::TOKENIZER_GGML_TOKEN_TYPE)?,
        })
    }

    /// Id, text, type and score of every token.
    fn rows(
        &self,
    ) -> impl Iterator<Item = (usize, &'a [u8], Option<Value<'a>>, Option<Value<'a>>)> {
        let at = |array: Option<Array<'a>>, id| array.and_then(|array| array.get(id));
        let (scores, types) = (self.scores, self.types);
        let texts = self.tokens.strings().enumerate();
        texts.map(move |(id, text)| (id, text, at(types, id), at(scores, id)))
    }
}

fn show(file: &Path, args: &Args) -> anyhow::Result<()> {
    let bytes = FileBytes::open(file)?;
    let gguf = bytes.gguf()?;
    let vocabulary = Vocabulary::of(&gguf, file)?;
    if args.json {
        let tokens: Json = vocabulary
            .rows()
            .map(|(id, text, ty, score)| {
                json!({
                    "id": id,
                    "text": value::text(text),
                    "type": ty.map(|ty| type_name(&ty)),
                    "score": score.map(|score| value::value(&score)),
                })
            })
            .collect();
        output::print_json(&json!({
            "schema": 1,
            "file": file.display().to_string(),
            "model": gguf.get(keys::TOKENIZER_GGML_MODEL).map(|model| value::value(&model)),
            "special": special(&gguf),
            "tokens": tokens,
        }))?;
        return Ok(());
    }
    let mut text = String::new();
    let cell = |cell: Option<Value<'_>>| cell.map_or(String::new(), |v| number(&v));
    if args.tsv {
        text.push_str("id\ttype\tscore\ttext\n");
        for (id, token, ty, score) in vocabulary.rows() {
            let ty = ty.map_or(String::new(), |ty| type_name(&ty));
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{id}\t{ty}\t{}\t{}", cell(score), tsv_cell(token));
        }
    } else {
        let aligns = [Align::Right, Align::Left, Align::Right, Align::Left];
        let mut table = Table::new(&aligns).head(&["id", "type", "score", "text"]);
        for (id, token, ty, score) in vocabulary.rows() {
            let ty = ty.map_or(String::new(), |ty| type_name(&ty));
            table.row([id.to_string(), ty, cell(score), printable(token)]);
        }
        table.write(&mut text, 0);
    }
    output::print(&text)?;
    Ok(())
}

/// The ids of tokens that have a part of their own, by what that is: `bos`, `eos`.
fn special(gguf: &Gguf<'_>) -> Json {
    let entries = gguf.metadata().filter_map(|entry| {
        let name = entry.key().strip_prefix("tokenizer.ggml.")?;
        let name = name.strip_suffix("_token_id")?;
        Some((name.to_owned(), value::value(&entry.value)))
    });
    Json::Object(entries.collect())
}

/// The name of a token type by its number.
fn type_name(ty: &Value<'_>) -> String {
    match ty.as_integer() {
        Some(1) => "normal".into(),
        Some(2) => "unknown".into(),
        Some(3) => "control".into(),
        Some(4) => "user_defined".into(),
        Some(5) => "unused".into(),
        Some(6) => "byte".into(),
        _ => number(ty),
    }
}

fn number(value: &Value<'_>) -> String {
    match value {
        Value::F32(v) => format!("{v:?}"),
        Value::F64(v) => format!("{v:?}"),
        other => other.as_integer().map_or(String::new(), |n| n.to_string()),
    }
}

/// A text as a cell: all text is kept but what would end the cell.
fn tsv_cell(text: &[u8]) -> String {
    let mut cell = String::new();
    for chunk in text.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\t' => cell.push_str("\\t"),
                '\n' => cell.push_str("\\n"),
                '\r' => cell.push_str("\\r"),
                '\\' => cell.push_str("\\\\"),
                c => cell.push(c),
            }
        }
        for byte in chunk.invalid() {
            // Writing to a string cannot fail.
            let _ = write!(cell, "\\x{byte:02x}");
        }
    }
    cell
}
