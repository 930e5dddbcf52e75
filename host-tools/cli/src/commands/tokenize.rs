//! `smidgen tokenize`: a text's tokens.

use std::{ffi::OsString, path::PathBuf, process::ExitCode};

use anyhow::bail;
use serde_json::json;
use smidgen_edit::{json, printable};
use smidgen_io::FileBytes;

use crate::{
    engine::{self, ModelArg, ModelFiles},
    output::{self, Align, Table},
};

/// Split a text into the tokens of a model's vocabulary.
///
/// Each token is a line: its id and its piece as the vocabulary has it, in which U+2581 stands for
/// a space. Bytes that have no other token are pieces like <0x0A>. The model may be a file that
/// holds a vocabulary only.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
With --json:

{\"ids\": [1, 403, …], \"pieces\": [\"<s>\", \"▁Once\", …]}

A piece that is not UTF-8 is {\"hex\": \"…\"}.")]
pub(crate) struct Args {
    #[command(flatten)]
    model: ModelArg,

    /// A file with the text; `-` is standard input.
    #[arg(
        value_name = "FILE",
        required_unless_present = "text",
        conflicts_with = "text"
    )]
    file: Option<PathBuf>,

    /// The text itself.
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    text: Option<OsString>,

    /// Do not put BOS first.
    #[arg(long)]
    no_bos: bool,

    /// Take the text of special tokens, such as `</s>`, for these tokens.
    #[arg(long)]
    special: bool,

    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let text = match (args.text, &args.file) {
        (Some(text), _) => text.into_encoded_bytes(),
        (None, Some(file)) => {
            if file.as_os_str() == "-" && args.model.is_stdin() {
                bail!("model and text cannot both be read from standard input");
            }
            FileBytes::read(file)?.to_vec()
        }
        (None, None) => bail!("no text given"),
    };
    let files = ModelFiles::of(&args.model)?;
    let ggufs = files.parse()?;
    let mut index = Vec::new();
    let vocabulary = files.vocabulary(&ggufs, &mut index)?;
    let mut options = vocabulary.encode_options();
    options.add_bos &= !args.no_bos;
    options.parse_special = args.special;
    let ids = engine::encode(&vocabulary, &text, options)?;
    let piece = |id: &u32| vocabulary.piece(*id).unwrap_or_default();
    if args.json {
        let pieces: Vec<_> = ids.iter().map(|id| json::text(piece(id))).collect();
        output::print_json(&json!({ "ids": ids, "pieces": pieces }))?;
    } else {
        let mut table = Table::new(&[Align::Right, Align::Left]);
        for id in &ids {
            table.row([id.to_string(), printable(piece(id))]);
        }
        let mut text = String::new();
        table.write(&mut text, 0);
        output::print(&text)?;
    }
    Ok(ExitCode::SUCCESS)
}
