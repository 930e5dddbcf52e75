//! `cargo xtask pack`: a model for a region of flash of its own.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, ensure};
use smidgen_core::ModelImage;
use smidgen_core::gguf::Gguf;
use smidgen_core::kv_cache::KvType;
use smidgen_core::model::{Layer, Model};
use smidgen_core::session::{Plan, Session, SessionOptions};
use smidgen_core::tokenizer::Vocabulary;
use smidgen_io::{AtomicFile, Overwrite, SessionMemory};

/// Arguments of `cargo xtask pack`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The GGUF.
    #[arg(long, value_name = "GGUF")]
    model: PathBuf,
    /// The image to write [default: the model's name with `.img`].
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace the output.
    #[arg(long)]
    force: bool,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let default = || args.model.with_extension("img");
    let output = args.output.clone().unwrap_or_else(default);
    let bytes = image(&args.model)?;
    write(&output, &bytes, args.force)?;
    eprintln!("written: {} ({} bytes)", output.display(), bytes.len());
    Ok(ExitCode::SUCCESS)
}

/// Writes a file whole or not at all.
pub(super) fn write(output: &Path, bytes: &[u8], force: bool) -> Result<()> {
    let overwrite = if force {
        Overwrite::Replace
    } else {
        Overwrite::Refuse
    };
    let mut file = AtomicFile::create(output, overwrite)?;
    file.write_all(bytes)
        .with_context(|| format!("cannot write {}", output.display()))?;
    Ok(file.commit()?)
}

/// A model behind its header.
///
/// # Errors
/// It cannot be read or run.
pub(super) fn image(path: &Path) -> Result<Vec<u8>> {
    let place = || path.display().to_string();
    let model = fs::read(path).with_context(place)?;
    let hash = logits_hash(&model).with_context(place)?;
    let mut image = ModelImage::header(&model, hash).to_vec();
    image.extend(model);
    Ok(image)
}

/// What a board is to compute.
fn logits_hash(model: &[u8]) -> Result<u64> {
    let gguf = Gguf::parse_small(model)?;
    let mut index = vec![0; Vocabulary::index_len(&gguf)];
    Vocabulary::load(&gguf, &mut index)?;
    let mut layers = vec![Layer::EMPTY; Model::layers_len(&gguf)];
    let model = Model::load(&[gguf], &mut layers)?;
    let window = usize::try_from(ModelImage::TEST_TOKENS)?;
    ensure!(
        model.hyperparameters.n_ctx >= window,
        "a context of fewer than {window} positions"
    );
    let options = SessionOptions::new(KvType::Q8, window);
    let mut memory = SessionMemory::new(&Plan::new(&model, &options), &options);
    let mut session = Session::new(&model, options, memory.buffers())?;
    Ok(smidgen_console::logits_hash(&mut session)?)
}
