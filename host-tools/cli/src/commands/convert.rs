//! `smidgen convert`: a llama2.c checkpoint becomes a GGUF.

use std::{
    io::{self, IsTerminal},
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, anyhow, bail};
use serde_json::json;
use smidgen_core::gguf::{GgmlType, Gguf};
use smidgen_io::{FileBytes, Overwrite, same_file};
use smidgen_llama2c::{
    Checkpoint, Conversion, ConvertError, Options, Version, Vocabulary, VocabularySource,
    WeightType, convert,
};

use smidgen_quantize::{FileType, quantize};

use crate::output;

/// Where llama.cpp's converter writes to when nothing is said.
const OLD_DEFAULT_OUTPUT: &str = "ak_llama_model.gguf";

const HELP: &str = "\
The checkpoint's version (legacy, 1 or 2) is told by its content, and its length must be exactly
what its header asks for. Int8 weights of version 2 are multiplied out.

The spelling of llama-convert-llama2c-to-ggml is understood as well:
  smidgen convert --copy-vocab-from-model VOCAB --llama2c-model CHECKPOINT \\
    --llama2c-output-model GGUF

With --json: {\"schema\": 1, \"checkpoint\": {\"path\", \"version\", \"group_size\", \"dim\",
\"hidden_dim\", \"n_layers\", \"n_heads\", \"n_kv_heads\", \"vocab_size\", \"seq_len\",
\"shared_classifier\"}, \"vocab\": {\"path\", \"format\", \"tokens\"}, \"output\": {\"path\", \"type\",
\"tensors\", \"context\", \"bytes\"}, \"warnings\"}; \"format\" is \"tokenizer.bin\" or \"gguf\", and
\"group_size\" is null but in version 2.";

#[derive(Debug, clap::Args)]
#[command(after_long_help = HELP)]
pub(crate) struct Args {
    /// The llama2.c checkpoint, of any version; `-` reads standard input.
    #[arg(required_unless_present = "llama2c_model")]
    checkpoint: Option<PathBuf>,

    /// The checkpoint, in llama.cpp's spelling.
    #[arg(long, hide = true, value_name = "FILE")]
    #[arg(conflicts_with = "checkpoint")]
    llama2c_model: Option<PathBuf>,

    /// The vocabulary: a tokenizer.bin of llama2.c, or a GGUF whose tokenizer is `llama`.
    #[arg(long, value_name = "FILE", alias = "copy-vocab-from-model")]
    vocab: PathBuf,

    /// The GGUF to write; `-` writes to standard output.
    #[arg(
        short,
        long,
        value_name = "FILE",
        alias = "llama2c-output-model",
        required_unless_present = "llama2c_model"
    )]
    output: Option<PathBuf>,

    /// The type of matrices; norms stay f32. With `q8_0` the feed-forward network is padded to whole
    /// blocks, as by `smidgen quantize`.
    #[arg(long = "type", value_name = "TYPE", default_value = "f32")]
    #[arg(ignore_case = true)]
    ty: Type,

    /// Context length to write into the file [default: that of the checkpoint].
    #[arg(long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    context: Option<u32>,

    /// Name of the model [default: the checkpoint's, without its extension].
    #[arg(long)]
    name: Option<String>,

    /// Author of the model.
    #[arg(long)]
    author: Option<String>,

    /// License of the model, as SPDX names it.
    #[arg(long)]
    license: Option<String>,

    /// Where the model comes from.
    #[arg(long)]
    url: Option<String>,

    /// Write output.weight although it is the embeddings once more, as llama.cpp's converter does.
    #[arg(long)]
    keep_tied_output: bool,

    /// Epsilon of the RMS norms.
    #[arg(long, value_name = "X", default_value_t = 1e-5)]
    eps: f32,

    /// Frequency base of RoPE.
    #[arg(long, value_name = "X", default_value_t = 10_000.0)]
    rope_base: f32,

    /// Overwrite the output if it exists.
    #[arg(long)]
    force: bool,

    /// Print what was done as JSON.
    #[arg(long)]
    json: bool,

    /// Say nothing unless something fails.
    #[arg(short, long)]
    quiet: bool,
}

/// The types that `--type` takes.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
#[value(rename_all = "snake_case")]
enum Type {
    F32,
    F16,
    Bf16,
    #[value(name = "q8_0")]
    Q8_0,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let ty = match args.ty {
        // What is to be quantized is first made as f32, in memory.
        Type::F32 | Type::Q8_0 => WeightType::F32,
        Type::F16 => WeightType::F16,
        Type::Bf16 => WeightType::BF16,
    };
    let Some(input) = args.checkpoint.as_ref().or(args.llama2c_model.as_ref()) else {
        bail!("no checkpoint given");
    };
    let target = args.output.as_deref();
    let target = target.unwrap_or(Path::new(OLD_DEFAULT_OUTPUT));
    check_paths(args, input, target)?;

    let checkpoint_bytes = FileBytes::open(input)?;
    let checkpoint = Checkpoint::parse(&checkpoint_bytes).with_context(|| shown(input))?;
    let config = checkpoint.config();
    let vocabulary = FileBytes::open(&args.vocab)?;
    let vocabulary =
        Vocabulary::read(&vocabulary, config.vocab_size()).with_context(|| shown(&args.vocab))?;
    let options = Options {
        ty,
        context: args.context,
        name: args.name.clone().or_else(|| stem(input)),
        author: args.author.clone(),
        license: args.license.clone(),
        url: args.url.clone(),
        keep_tied_output: args.keep_tied_output,
        eps: args.eps,
        rope_base: args.rope_base,
    };
    let mut conversion = convert(&checkpoint, &vocabulary, &options)?;
    if !args.quiet {
        for warning in conversion.warnings() {
            output::warn(warning);
        }
    }
    let written = write(args, &mut conversion, target);
    let written = match written {
        // Which weight is at fault says the error; that it is the checkpoint's, we do.
        Err(Failure::Convert(error @ ConvertError::Number { .. })) => {
            return Err(anyhow::Error::new(error).context(shown(input)));
        }
        Err(Failure::Convert(error)) => return Err(error.into()),
        Err(Failure::Other(error)) => return Err(error),
        Ok(written) => written,
    };
    let ty = match args.ty {
        Type::Q8_0 => GgmlType::Q8_0,
        _ => ty.ggml_type(),
    };

    let context = options.context.unwrap_or(config.seq_len());
    let tensors = conversion.tensors();
    if args.json {
        let warnings: Vec<_> = conversion
            .warnings()
            .iter()
            .map(ToString::to_string)
            .collect();
        let report = json!({
            "schema": 1,
            "checkpoint": {
                "path": shown(input),
                "version": checkpoint.version().number(),
                "group_size": match checkpoint.version() {
                    Version::V2 { group_size } => Some(group_size),
                    Version::Legacy | Version::V1 => None,
                },
                "dim": config.dim(),
                "hidden_dim": config.hidden_dim(),
                "n_layers": config.n_layers(),
                "n_heads": config.n_heads(),
                "n_kv_heads": config.n_kv_heads(),
                "vocab_size": config.vocab_size(),
                "seq_len": config.seq_len(),
                "shared_classifier": checkpoint.shared_classifier(),
            },
            "vocab": {
                "path": shown(&args.vocab),
                "format": match vocabulary.source() {
                    VocabularySource::TokenizerBin => "tokenizer.bin",
                    VocabularySource::Gguf => "gguf",
                },
                "tokens": vocabulary.len(),
            },
            "output": {
                "path": shown(target),
                "type": ty.to_string(),
                "tensors": tensors,
                "context": context,
                "bytes": written,
            },
            "warnings": warnings,
        });
        output::print_json(&report)?;
    } else if !args.quiet {
        eprintln!(
            "{}: {tensors} tensors ({}), {} tokens, context {context}, {}",
            shown(target),
            ty,
            vocabulary.len(),
            output::human_bytes(written),
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// Why nothing was written.
enum Failure {
    Convert(ConvertError),
    Other(anyhow::Error),
}

/// Writes the file, quantized if that was asked for, and tells its length in bytes.
fn write(args: &Args, conversion: &mut Conversion<'_>, target: &Path) -> Result<u64, Failure> {
    let overwrite = if args.force {
        Overwrite::Replace
    } else {
        Overwrite::Refuse
    };
    let to_stdout = target.as_os_str() == "-";
    if !matches!(args.ty, Type::Q8_0) {
        let written = match to_stdout {
            true => conversion.write_to(&mut io::stdout().lock()),
            false => conversion.write_file(target, overwrite),
        };
        return written.map_err(Failure::Convert);
    }
    let mut bytes = Vec::new();
    conversion.write_to(&mut bytes).map_err(Failure::Convert)?;
    let quantized = || -> anyhow::Result<u64> {
        let mut scratch = vec![0; Gguf::scratch_len(&bytes)];
        let gguf = Gguf::parse(&bytes, &mut scratch)?;
        let ty = FileType::from_name("Q8_0").context("no type Q8_0")?;
        let mut options = smidgen_quantize::Options::new(ty);
        options.keep_tied_output = args.keep_tied_output;
        let mut quantization = quantize(&[gguf], &options)?;
        Ok(match to_stdout {
            true => quantization.write_to(&mut io::stdout().lock())?,
            false => quantization.write_file(target, overwrite)?,
        })
    };
    quantized().map_err(Failure::Other)
}

/// What no file's content can make right.
fn check_paths(args: &Args, input: &Path, target: &Path) -> anyhow::Result<()> {
    let is_stream = |path: &Path| path.as_os_str() == "-";
    if is_stream(input) && is_stream(&args.vocab) {
        bail!("checkpoint and vocabulary cannot both be read from standard input");
    }
    if is_stream(target) {
        if args.json {
            bail!("--json and --output - would both write to standard output");
        }
        if io::stdout().is_terminal() {
            return Err(output::hinted(
                anyhow!("a GGUF is not written to a terminal"),
                "name a file with --output",
            ));
        }
        return Ok(());
    }
    for path in [input, &args.vocab] {
        if same_file(path, target) {
            bail!("{}: input and output are the same file", target.display());
        }
    }
    Ok(())
}

/// The name of a file without folder and extension; a stream has none.
fn stem(path: &Path) -> Option<String> {
    let stem = path.file_stem().filter(|_| path.is_file())?;
    Some(stem.to_string_lossy().into_owned())
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}
