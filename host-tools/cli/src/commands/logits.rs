//! `smidgen logits`: the numbers that a model answers tokens with.

use std::{
    io::{self, BufWriter, IsTerminal, Write},
    path::PathBuf,
    process::ExitCode,
};

use anyhow::{anyhow, bail};
use smidgen_core::session::Plan;
use smidgen_io::{AtomicFile, Overwrite};

use crate::{
    engine::{self, EngineArgs, ModelArg, ModelFiles},
    ids::Ids,
    output::hinted,
};

/// Write the logits behind token ids as raw little-endian f32.
///
/// There is one number for each token of the vocabulary, in the order of ids. The bits are the same
/// on every processor, for any number of threads.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    model: ModelArg,

    /// The ids, with commas between them.
    #[arg(long, value_name = "ID,…")]
    ids: Ids,

    /// The logits behind every id, not only the last: a row after the other.
    #[arg(long)]
    all: bool,

    /// The file to write [default: standard output].
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Overwrite the output if it exists.
    #[arg(long)]
    force: bool,

    #[command(flatten)]
    engine: EngineArgs,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let output = args
        .output
        .as_deref()
        .filter(|path| path.as_os_str() != "-");
    if output.is_none() && io::stdout().is_terminal() {
        return Err(hinted(
            anyhow!("numbers in binary are not written to a terminal"),
            "name a file with --output",
        ));
    }
    let ids = &args.ids.0;
    if ids.is_empty() {
        bail!("--ids is empty");
    }
    let files = ModelFiles::of(&args.model)?;
    let ggufs = files.parse()?;
    let mut layers = Vec::new();
    let model = files.load(&ggufs, &mut layers)?;
    engine::warn_if_long(&model, ids.len());
    let options = args.engine.options(ids.len());
    let mut memory = engine::memory(&Plan::new(&model, &options), &options)?;
    let threads = args.engine.start_threads()?;
    let backend = args.engine.find_backend()?;
    let mut session = engine::session(&model, options, &mut memory, backend, threads.as_ref())?;

    // Computed as a whole first: no output is left of what fails.
    let mut bytes = Vec::new();
    let mut write = |logits: &[f32]| bytes.extend(logits.iter().flat_map(|x| x.to_le_bytes()));
    if args.all {
        session.prompt_each(ids, |_, logits| write(logits))?;
    } else {
        write(session.prompt(ids)?);
    }
    match output {
        None => {
            let mut out = BufWriter::new(io::stdout().lock());
            out.write_all(&bytes)?;
            out.flush()?;
        }
        Some(path) => {
            let overwrite = match args.force {
                true => Overwrite::Replace,
                false => Overwrite::Refuse,
            };
            let mut file = AtomicFile::create(path, overwrite)?;
            file.write_all(&bytes)?;
            file.commit()?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
