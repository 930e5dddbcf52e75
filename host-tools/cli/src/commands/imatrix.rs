//! `smidgen imatrix`: how large what goes into each matrix is.

use std::{num::NonZeroUsize, path::PathBuf, process::ExitCode};

use anyhow::{anyhow, bail};
use serde_json::json;
use smidgen_core::tokenizer::EncodeOptions;
use smidgen_io::{FileBytes, Overwrite, same_file};
use smidgen_quantize::{Calibration, Material, Padding, as_f32, cut_text, with_threads};

use crate::{
    engine::{self, ModelArg, ModelFiles},
    output::{self, counted},
};

/// Measure how large what goes into each matrix is, for `smidgen quantize --imatrix`.
///
/// The model reads a text, or samples of its own if none is given. The file has the form of
/// llama-imatrix, and llama-quantize takes it.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
With --json: {\"schema\": 1, \"output\", \"bytes\", \"entries\", \"tokens\", \"chunks\"}")]
pub(crate) struct Args {
    #[command(flatten)]
    model: ModelArg,

    /// The text; `-` is standard input [default: samples of the model's own].
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,

    /// The file to write.
    #[arg(short, long, value_name = "GGUF", default_value = "imatrix.gguf")]
    output: PathBuf,

    /// Also of output.weight, which llama-quantize does not look for.
    #[arg(long)]
    process_output: bool,

    /// Seed of the model's own samples.
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    seed: u64,

    /// Threads [default: one for each processor].
    #[arg(short, long, value_name = "N")]
    threads: Option<NonZeroUsize>,

    /// Overwrite the output if it exists.
    #[arg(long)]
    force: bool,

    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let input = args.model.file();
    if input.is_some_and(|input| same_file(input, &args.output)) {
        bail!(
            "{}: input and output are the same file",
            args.output.display()
        );
    }
    let files = ModelFiles::of(&args.model)?;
    let ggufs = files.parse()?;
    let mut index = Vec::new();
    let vocabulary = files.vocabulary(&ggufs, &mut index)?;
    let bos = vocabulary.bos();
    let (material, dataset) = match &args.file {
        None => (Material::Own { seed: args.seed }, "self".to_owned()),
        Some(path) => {
            let text = FileBytes::read(path)?;
            let options = EncodeOptions {
                add_bos: false,
                ..vocabulary.prompt_options()
            };
            let ids = engine::encode(&vocabulary, &text, options)?;
            if ids.len() < 2 {
                bail!("{}: a text of two tokens or more is needed", path.display());
            }
            let material = Material::Text(cut_text(&ids, bos));
            (material, path.display().to_string())
        }
    };
    let shown = args.model.path().display();
    let file = as_f32(&ggufs, Padding::Off, args.threads);
    let file = file.map_err(|error| anyhow!("{shown}: {error}"))?;
    let calibration = with_threads(args.threads, || Calibration::new(file, bos, material))?;
    let calibration = calibration.map_err(|error| anyhow!("{shown}: {error}"))?;
    let mut imatrix = calibration.imatrix().clone();
    imatrix.datasets.push(dataset);
    if !args.process_output {
        // What is known of the embeddings is what goes into them as the output.
        for name in ["output.weight", "token_embd.weight"] {
            imatrix.entries.remove(name);
        }
    }
    let overwrite = match args.force {
        true => Overwrite::Replace,
        false => Overwrite::Refuse,
    };
    let bytes = imatrix.write_file(&args.output, overwrite)?;
    if args.json {
        output::print_json(&json!({
            "schema": 1,
            "output": args.output.display().to_string(),
            "bytes": bytes,
            "entries": imatrix.entries.len(),
            "tokens": calibration.tokens(),
            "chunks": imatrix.chunks,
        }))?;
    } else {
        eprintln!(
            "{}: {}, measured with {}",
            args.output.display(),
            counted(imatrix.entries.len() as u64, "matrix").replace("matrixs", "matrices"),
            counted(calibration.tokens() as u64, "token"),
        );
    }
    Ok(ExitCode::SUCCESS)
}
