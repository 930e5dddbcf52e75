//! `smidgen detokenize`: the text of tokens.

use std::process::ExitCode;

use anyhow::Context;
use smidgen_core::tokenizer::Decoder;

use crate::{
    engine::{ModelArg, ModelFiles},
    ids::Ids,
    output,
};

/// Print the text that token ids stand for.
///
/// The bytes are printed as they are, and nothing is added. The space that encoding puts before a
/// text is taken away, and tokens like BOS have no text. The model may be a file that holds a
/// vocabulary only.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    model: ModelArg,

    /// The ids, with commas between them.
    #[arg(long, value_name = "ID,…")]
    ids: Ids,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let files = ModelFiles::of(&args.model)?;
    let ggufs = files.parse()?;
    let mut index = Vec::new();
    let vocabulary = files.vocabulary(&ggufs, &mut index)?;
    let mut decoder = Decoder::new();
    let mut text = Vec::new();
    for &id in &args.ids.0 {
        decoder
            .push(&vocabulary, id, &mut |bytes| text.extend(bytes))
            .with_context(|| args.model.path().display().to_string())?;
    }
    decoder.finish(&mut |bytes| text.extend(bytes));
    output::print_bytes(&text)?;
    Ok(ExitCode::SUCCESS)
}
