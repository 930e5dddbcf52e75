//! `smidgen compare`: how far two models are apart.

use std::{num::NonZeroUsize, path::PathBuf, process::ExitCode};

use anyhow::{anyhow, bail};
use serde_json::json;
use smidgen_io::FileBytes;
use smidgen_quantize::{compare, own_samples, with_threads};

use crate::{
    engine::{self, ModelFiles},
    output::{self, Align, Table, counted, hinted},
};

/// Measure how far a model is from another, such as a quantized one from its original.
///
/// Both read a text in chunks as `smidgen perplexity` does it, or, if none is given, samples that A
/// makes. The divergence is that of Kullback and Leibler: how much is lost, in nats a token, if B
/// speaks for A.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
With --json: {\"schema\": 1, \"a\", \"b\": {\"path\", \"bytes\", \"perplexity\"}, \"divergence\",
\"agreement\", \"predictions\", \"text\"}; \"agreement\" is the share of predictions with the same
likeliest token, \"text\" is null for samples.")]
pub(crate) struct Args {
    /// The model to compare with.
    #[arg(value_name = "A")]
    a: PathBuf,

    /// The model to be compared.
    #[arg(value_name = "B")]
    b: PathBuf,

    /// The text; `-` is standard input [default: samples of A].
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,

    /// Tokens of a chunk.
    #[arg(short, long, value_name = "N", default_value_t = 512)]
    #[arg(value_parser = clap::value_parser!(u32).range(4..))]
    ctx_size: u32,

    /// Seed of the samples.
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    seed: u64,

    /// Threads [default: one for each processor].
    #[arg(short, long, value_name = "N")]
    threads: Option<NonZeroUsize>,

    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let (files_a, files_b) = (ModelFiles::open(&args.a)?, ModelFiles::open(&args.b)?);
    let (ggufs_a, ggufs_b) = (files_a.parse()?, files_b.parse()?);
    let (mut layers_a, mut layers_b) = (Vec::new(), Vec::new());
    let a = files_a.load(&ggufs_a, &mut layers_a)?;
    let b = files_b.load(&ggufs_b, &mut layers_b)?;
    let (mut index_a, mut index_b) = (Vec::new(), Vec::new());
    let vocabulary = files_a.vocabulary(&ggufs_a, &mut index_a)?;
    let other = files_b.vocabulary(&ggufs_b, &mut index_b)?;
    let n_vocab = a.hyperparameters.n_vocab as u32;
    if b.hyperparameters.n_vocab as u32 != n_vocab
        || (0..n_vocab).any(|id| vocabulary.piece(id) != other.piece(id))
    {
        bail!(
            "{}: another vocabulary than {}",
            args.b.display(),
            args.a.display()
        );
    }
    let bos = vocabulary.bos();
    let n_ctx = args.ctx_size as usize;
    let (sequences, from) = match &args.file {
        None => (None, 1),
        Some(path) => {
            let text = FileBytes::read(path)?;
            let options = vocabulary.prompt_options();
            let ids = engine::encode(&vocabulary, &text, options)?;
            let mut chunks: Vec<Vec<u32>> = ids.chunks_exact(n_ctx).map(<[u32]>::to_vec).collect();
            if chunks.is_empty() {
                return Err(hinted(
                    anyhow!(
                        "{}: the text has {}, a chunk takes {n_ctx}",
                        path.display(),
                        counted(ids.len() as u64, "token")
                    ),
                    "a longer text, or a smaller -c",
                ));
            }
            if let (true, Some(bos)) = (options.add_bos, bos) {
                chunks.iter_mut().for_each(|chunk| chunk[0] = bos);
            }
            (Some(chunks), n_ctx / 2 + 1)
        }
    };
    let comparison = with_threads(args.threads, || {
        let sequences = match sequences {
            Some(sequences) => sequences,
            None => own_samples(&a, bos, args.seed)?,
        };
        compare(&a, &b, &sequences, from)
    })??;
    if args.json {
        let model = |path: &PathBuf, files: &ModelFiles, perplexity: f64| {
            json!({
                "path": path.display().to_string(),
                "bytes": files.bytes(),
                "perplexity": perplexity,
            })
        };
        output::print_json(&json!({
            "schema": 1,
            "a": model(&args.a, &files_a, comparison.perplexity_a()),
            "b": model(&args.b, &files_b, comparison.perplexity_b()),
            "divergence": comparison.mean_divergence(),
            "agreement": comparison.agreement(),
            "predictions": comparison.predictions,
            "text": args.file.as_ref().map(|path| path.display().to_string()),
        }))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = Table::new(&[Align::Left, Align::Right, Align::Right]).head(&[
        "model",
        "bytes",
        "perplexity",
    ]);
    for (path, files, perplexity) in [
        (&args.a, &files_a, comparison.perplexity_a()),
        (&args.b, &files_b, comparison.perplexity_b()),
    ] {
        let cells = [
            path.display().to_string(),
            files.bytes().to_string(),
            format!("{perplexity:.4}"),
        ];
        table.row(cells);
    }
    let mut text = String::new();
    table.write(&mut text, 0);
    text.push_str(&format!(
        "divergence {:.5}, same likeliest token {:.2} % of {}\n",
        comparison.mean_divergence(),
        comparison.agreement() * 100.0,
        counted(comparison.predictions, "prediction"),
    ));
    output::print(&text)?;
    Ok(ExitCode::SUCCESS)
}
