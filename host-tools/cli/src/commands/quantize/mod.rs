//! `smidgen quantize`: a GGUF of floats becomes one of blocks.

use std::{
    io::{self, IsTerminal},
    num::NonZeroUsize,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{anyhow, bail};
use smidgen_core::{
    gguf::{GgmlType, Gguf},
    quant::activation_kind,
    tokenizer::EncodeOptions,
};
use smidgen_io::{FileBytes, Overwrite, same_file};
use smidgen_quantize::{
    Calibration, Comparison, Encoded, FileType, FitError, FitTensor, Imatrix, Material, Options,
    OverrideKv, Padding, PlannedTensor, Quantization, QuantizeError, TensorType, as_f32, cut_text,
    fit, quantize, quantize_with, with_threads,
};

use crate::{
    commands::plan,
    engine::{self, ModelFiles},
    output::{self, hinted},
};

mod report;

use report::Report;

const HELP: &str = "\
Types: F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, IQ4_NL, Q2_K, Q2_K_S, Q3_K_S, Q3_K_M, Q3_K_L,
Q4_K_S, Q4_K_M, Q5_K_S, Q5_K_M, Q6_K. Q3_K, Q4_K and Q5_K are the _M mixtures; with --pure the block
type itself. Blocks are those of llama-quantize, bit for bit.

Where the rows of a feed-forward network are no whole blocks, it is padded with zeros to a multiple
of 32, which changes no result and is an ordinary model for every reader. llama-quantize stores such
tensors as F16 instead; so does --no-pad.

With --json: {\"schema\": 1, \"input\", \"output\", \"type\", \"file_type\", \"pure\", \"board\", \"dry_run\",
\"bytes_before\", \"bytes\", \"elements\", \"bits_per_weight\", \"padded\": {\"from\", \"to\"} or null,
\"tied_output_left_out\", \"fallbacks\", \"tensors\": [{\"name\", \"dims\", \"from\", \"to\",
\"instead_of\", \"padded\", \"bytes_before\", \"bytes\"}]}; \"fallbacks\" is how many tensors have
another type than they should.";

/// Make a model smaller: store its weights in blocks of few bits.
#[derive(Debug, clap::Args)]
#[command(after_long_help = HELP)]
pub(crate) struct Args {
    /// The model, a GGUF of F32, F16 or BF16; `-` is standard input.
    #[arg(value_name = "IN")]
    input: PathBuf,

    /// The GGUF to write; `-` is standard output.
    #[arg(value_name = "OUT")]
    output: PathBuf,

    /// The kind of file, such as `Q8_0` or `Q4_K_M`.
    #[arg(value_name = "TYPE", value_parser = file_type)]
    #[arg(required_unless_present_any = ["fit", "board"], conflicts_with_all = ["fit", "board"])]
    ty: Option<FileType>,

    /// Threads, where llama-quantize takes them.
    #[arg(value_name = "NTHREADS", hide = true, conflicts_with = "threads")]
    nthreads: Option<NonZeroUsize>,

    /// Give all matrices the same type.
    #[arg(long)]
    pure: bool,

    /// Store tensors as F16 whose rows are no whole blocks, instead of padding them.
    #[arg(long)]
    no_pad: bool,

    /// Pad the feed-forward network even if no type asks for it.
    #[arg(long, conflicts_with = "no_pad")]
    pad: bool,

    /// Write `output.weight` although it is the embeddings once more.
    #[arg(long)]
    keep_tied_output: bool,

    /// Quantize what is quantized already; quality suffers twice.
    #[arg(long)]
    allow_requantize: bool,

    /// Leave `output.weight` as it is.
    #[arg(long)]
    leave_output_tensor: bool,

    /// Type of `output.weight`, or of the embeddings where they are it too.
    #[arg(long, value_name = "TYPE", value_parser = block_type)]
    output_tensor_type: Option<GgmlType>,

    /// Type of the embeddings, `token_embd.weight`.
    #[arg(long, value_name = "TYPE", value_parser = block_type)]
    token_embedding_type: Option<GgmlType>,

    /// Type of tensors whose names a regular expression matches; the first that does counts.
    #[arg(long = "tensor-type", value_name = "PATTERN=TYPE", value_parser = tensor_type)]
    tensor_types: Vec<TensorType>,

    /// Set metadata; TYPE is int, float, bool or str.
    #[arg(long = "override-kv", value_name = "KEY=TYPE:VALUE")]
    overrides: Vec<OverrideKv>,

    /// Round so that what the model says changes least: FILE is a text to watch it read; with
    /// `self`, samples of its own.
    #[arg(long, value_name = "FILE|self", num_args = 0..=1, default_missing_value = "self")]
    calibrate: Option<PathBuf>,

    /// Choose scales by what smidgen imatrix or llama-imatrix measured.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["calibrate", "fit", "board"])]
    imatrix: Option<PathBuf>,

    /// Instead of a TYPE: the best type for each tensor, measured, so that the file takes at most
    /// this many bytes. Calibrates on samples of the model's own, or as --calibrate says.
    #[arg(long, value_name = "BYTES", conflicts_with_all = ["pure", "no_pad", "strict"])]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    fit: Option<u64>,

    /// As --fit, with the bytes that a board has for a model; `smidgen plan --boards` lists boards.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["fit", "pure", "no_pad", "strict"])]
    board: Option<String>,

    /// Seed of the samples that a model is calibrated on.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    seed: u64,

    /// Make a shard of each shard of a split model: of OUT.gguf, OUT-00001-of-00003.gguf and so on.
    #[arg(long)]
    keep_split: bool,

    /// Fail if a tensor cannot have its type.
    #[arg(long)]
    strict: bool,

    /// Say what would be done, and write nothing.
    #[arg(long)]
    dry_run: bool,

    /// Threads [default: one for each processor].
    #[arg(short, long, value_name = "N")]
    threads: Option<NonZeroUsize>,

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

/// The kind of file of this name.
fn file_type(name: &str) -> Result<FileType, String> {
    FileType::from_name(name).ok_or_else(|| {
        let names: Vec<_> = FileType::all().map(FileType::name).collect();
        format!("there are {}", names.join(", "))
    })
}

/// The block type of this name, if tensors can be given it.
fn block_type(name: &str) -> Result<GgmlType, String> {
    let usable = |ty: &GgmlType| activation_kind(*ty).is_some();
    GgmlType::from_name(name).filter(usable).ok_or_else(|| {
        let names = GgmlType::all().filter(usable).filter_map(GgmlType::name);
        format!("there are {}", names.collect::<Vec<_>>().join(", "))
    })
}

fn tensor_type(text: &str) -> Result<TensorType, String> {
    let (pattern, ty) = text.rsplit_once('=').ok_or("expected PATTERN=TYPE")?;
    TensorType::new(pattern, block_type(ty)?).map_err(|error| error.to_string())
}

impl Args {
    fn options(&self, ty: FileType) -> Options {
        let mut options = Options::new(ty);
        options.pure = self.pure;
        options.allow_requantize = self.allow_requantize;
        options.leave_output_tensor = self.leave_output_tensor;
        options.output_tensor_type = self.output_tensor_type;
        options.token_embedding_type = self.token_embedding_type;
        options.tensor_types.clone_from(&self.tensor_types);
        options.overrides.clone_from(&self.overrides);
        options.keep_tied_output = self.keep_tied_output;
        options.keep_split = self.keep_split;
        options.strict = self.strict;
        options.threads = self.threads.or(self.nthreads);
        options.padding = match (self.pad, self.no_pad) {
            (true, _) => Padding::Always,
            (_, true) => Padding::Off,
            _ => Padding::Needed,
        };
        options
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    check_paths(args)?;
    let files = ModelFiles::open(&args.input)?;
    let ggufs = files.parse()?;
    let shown = args.input.display();
    let fail = |error: QuantizeError| match error {
        error @ QuantizeError::Requantize { .. } => hinted(
            anyhow!("{shown}: {error}"),
            "quantize the F32 or F16 model, or say --allow-requantize",
        ),
        error @ QuantizeError::Fallback { .. } => hinted(
            anyhow!("{shown}: {error}"),
            "without --strict that is done and named",
        ),
        error @ (QuantizeError::File { .. } | QuantizeError::Io { .. }) => {
            anyhow::Error::new(error)
        }
        error => anyhow!("{shown}: {error}"),
    };
    let budget = match &args.board {
        Some(name) => Some(plan::room_on(name, &files, &ggufs)?),
        None => args.fit,
    };
    let mut made = if args.calibrate.is_some() || budget.is_some() {
        calibrated(args, budget, &files, &ggufs, &fail)?
    } else if let Some(path) = &args.imatrix {
        weighted(args, path, &ggufs, &fail)?
    } else {
        let ty = args.ty.ok_or_else(|| anyhow!("no TYPE given"))?;
        Made {
            quantization: quantize(&ggufs, &args.options(ty)).map_err(fail)?,
            fitted: Vec::new(),
            comparison: None,
        }
    };
    let quantization = &mut made.quantization;
    if let (Some(cause), false) = (quantization.not_padded(), args.quiet) {
        output::warn(format_args!(
            "the feed-forward network is not padded: {cause}"
        ));
    }
    let bytes = if args.dry_run {
        quantization.file_len().map_err(fail)?
    } else if args.output.as_os_str() == "-" {
        let mut stdout = io::BufWriter::with_capacity(1 << 18, io::stdout().lock());
        let written = quantization.write_to(&mut stdout).map_err(fail)?;
        io::Write::flush(&mut stdout)?;
        written
    } else {
        let overwrite = if args.force {
            Overwrite::Replace
        } else {
            Overwrite::Refuse
        };
        quantization
            .write_file(&args.output, overwrite)
            .map_err(fail)?
    };
    let report = Report {
        args,
        made: &made,
        quantization: &made.quantization,
        bytes_before: files.bytes(),
        bytes,
    };
    if args.json {
        output::print_json(&report.json())?;
    } else if !args.quiet {
        let text = report.text();
        if args.output.as_os_str() == "-" {
            eprint!("{}", anstream::adapter::strip_str(&text));
        } else {
            output::print(&text)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn check_paths(args: &Args) -> anyhow::Result<()> {
    if args.output.as_os_str() == "-" {
        if args.keep_split {
            bail!("a set of shards cannot go to standard output");
        }
        if args.json && !args.dry_run {
            bail!("--json and output - would both write to standard output");
        }
        if io::stdout().is_terminal() && !args.dry_run {
            return Err(hinted(
                anyhow!("a GGUF is not written to a terminal"),
                "name a file",
            ));
        }
    } else if same_file(&args.input, &args.output) {
        bail!(
            "{}: input and output are the same file",
            args.output.display()
        );
    }
    Ok(())
}

/// What is to be written, and what is known of it.
struct Made<'a> {
    quantization: Quantization<'a>,
    /// The types that were measured to fit a budget.
    fitted: Vec<FitTensor>,
    /// How far the model is from the original, if it was calibrated.
    comparison: Option<Comparison>,
}

/// Tokens by which types are compared, and by which the result is.
const TOKENS: (usize, usize) = (1024, 8192);

/// Quantizes with calibrated rounding, and where a budget is given with the types that fit it best.
fn calibrated<'a>(
    args: &Args,
    budget: Option<u64>,
    files: &ModelFiles,
    ggufs: &[Gguf<'a>],
    fail: &(dyn Fn(QuantizeError) -> anyhow::Error + Sync),
) -> anyhow::Result<Made<'a>> {
    let threads = args.threads.or(args.nthreads);
    let mut index = Vec::new();
    let vocabulary = files.vocabulary(ggufs, &mut index)?;
    let material = match args.calibrate.as_deref() {
        None => Material::Own { seed: args.seed },
        Some(path) if path == Path::new("self") => Material::Own { seed: args.seed },
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
            Material::Text(cut_text(&ids, vocabulary.bos()))
        }
    };
    // The base of a fitted file is as small as blocks get: what is no matrix stays as it is.
    let base = FileType::from_name("Q4_0");
    let ty = args.ty.or(base).ok_or_else(|| anyhow!("no TYPE given"))?;
    let mut options = args.options(ty);
    let plain = quantize(ggufs, &options).map_err(fail)?;
    let padding = match plain.padded() {
        Some(_) => Padding::Always,
        None => Padding::Off,
    };
    let bos = vocabulary.bos();
    let shown = args.input.display();
    let (plain_tensors, plain_len) = (plain.tensors(), plain.file_len().map_err(fail)?);
    let alignment = u64::from(ggufs.first().map_or(32, Gguf::alignment));
    let work = || -> anyhow::Result<_> {
        let file = as_f32(ggufs, padding, threads).map_err(fail)?;
        let calibration = Calibration::new(file, bos, material);
        let calibration = calibration.map_err(|error| anyhow!("{shown}: {error}"))?;
        let (encoded, fitted) = match budget {
            None => (calibration.encode_planned(plain_tensors), Vec::new()),
            Some(budget) => {
                let baseline = calibration.baseline(TOKENS.0)?;
                let padded = |bytes: u64| bytes.next_multiple_of(alignment);
                let known = |tensor: &&PlannedTensor| calibration.knows(&tensor.name);
                let tensors = plain_tensors.iter();
                let matrices: u64 = tensors.filter(known).map(|t| padded(t.bytes)).sum();
                let rest = plain_len.saturating_sub(matrices);
                let room = budget.saturating_sub(rest);
                let fitted = fit(&calibration, &baseline, plain_tensors, alignment, room);
                let fitted = fitted.map_err(|error| match error {
                    FitError::TooSmall { least, .. } => anyhow!(
                        "{shown}: {budget} bytes are too few, the least is {}",
                        least + rest
                    ),
                    error => anyhow!("{shown}: {error}"),
                })?;
                let mut encoded = Encoded::new();
                fitted
                    .iter()
                    .for_each(|tensor| tensor.put_into(&mut encoded));
                (encoded, fitted)
            }
        };
        let comparison = calibration.measure(&encoded, &calibration.baseline(TOKENS.1)?)?;
        Ok((encoded, fitted, comparison))
    };
    let (encoded, fitted, comparison) = with_threads(threads, work)??;
    for tensor in &fitted {
        let ty = TensorType::exact(&tensor.name, tensor.choice().ty)?;
        options.tensor_types.insert(0, ty);
    }
    if let Some(ty) = most_bytes(&fitted) {
        options.file_type = ty;
    }
    Ok(Made {
        quantization: quantize_with(ggufs, &options, &encoded).map_err(fail)?,
        fitted,
        comparison: Some(comparison),
    })
}

/// The kind of file that most bytes of the matrices are of; `None` if none was fitted.
fn most_bytes(fitted: &[FitTensor]) -> Option<FileType> {
    fitted.first()?;
    let bytes = |ty: FileType| -> u64 {
        let choices = fitted.iter().map(FitTensor::choice);
        let of_type = choices.filter(|choice| choice.ty == ty.base());
        of_type.map(|choice| choice.bytes).sum()
    };
    FileType::all().max_by_key(|&ty| bytes(ty))
}

/// Quantizes with scales that an importance matrix has a say in.
fn weighted<'a>(
    args: &Args,
    path: &Path,
    ggufs: &[Gguf<'a>],
    fail: &(dyn Fn(QuantizeError) -> anyhow::Error + Sync),
) -> anyhow::Result<Made<'a>> {
    let threads = args.threads.or(args.nthreads);
    let file = FileBytes::open(path)?;
    let imatrix = Imatrix::read(&file.gguf()?);
    let imatrix = imatrix.map_err(|error| anyhow!("{}: {error}", path.display()))?;
    let ty = args.ty.ok_or_else(|| anyhow!("no TYPE given"))?;
    let mut options = args.options(ty);
    options.imatrix = Some((path.display().to_string(), imatrix.clone()));
    let plain = quantize(ggufs, &options).map_err(fail)?;
    let padding = match plain.padded() {
        Some(_) => Padding::Always,
        None => Padding::Off,
    };
    let plain_tensors = plain.tensors();
    let file = as_f32(ggufs, padding, threads).map_err(fail)?;
    let calibration = Calibration::with_imatrix(file, imatrix)
        .map_err(|error| anyhow!("{}: {error}", path.display()))?;
    let encoded = with_threads(threads, || calibration.encode_planned(plain_tensors))?;
    Ok(Made {
        quantization: quantize_with(ggufs, &options, &encoded).map_err(fail)?,
        fitted: Vec::new(),
        comparison: None,
    })
}
