//! `cargo xtask run`: a story, told by a board in QEMU.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;

use super::firmware::{Program, Source};
use super::{KvArgs, find, models};
use crate::process::shown;

/// Arguments of `cargo xtask run`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The board; `cargo xtask size` without a name lists them.
    #[arg(long, value_name = "BOARD")]
    board: String,
    /// The GGUF to link in [default: stories260K from the shared test material, else the one that
    /// ships with the project].
    #[arg(long, value_name = "GGUF")]
    model: Option<PathBuf>,
    /// What the story begins with.
    #[arg(short, long, default_value = "Once upon a time")]
    prompt: String,
    /// Tokens to add at most.
    #[arg(short = 'n', long, default_value_t = 200)]
    n_predict: usize,
    /// Temperature; 0 always takes the likeliest token.
    #[arg(long, default_value = "0")]
    temp: String,
    /// Leave the likeliest tokens that together have more than this probability.
    #[arg(long, default_value = "0.9")]
    top_p: String,
    /// Seed of the random numbers.
    #[arg(short, long, default_value_t = 1)]
    seed: u64,
    /// Instructions to use, by name [default: the fastest].
    #[arg(long)]
    backend: Option<String>,
    #[command(flatten)]
    kv: KvArgs,
    /// Print a hash of the logits that each token was chosen from.
    #[arg(long)]
    logits_hash: bool,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let board = find(&args.board)?;
    let model = match &args.model {
        Some(model) => model.clone(),
        None => models::default(board)?,
    };
    let source = Source {
        options: args.kv.options(board),
        ..Source::new(board, &model).with_backend(args.backend.as_deref())
    };
    let firmware = source.build(Program::Story)?;
    let (n, seed) = (args.n_predict.to_string(), args.seed.to_string());
    let mut words = vec!["-n", &n, "--temp", &args.temp, "--top-p", &args.top_p];
    words.extend(["--seed", &seed]);
    if let Some(backend) = &args.backend {
        words.extend(["--backend", backend]);
    }
    if args.logits_hash {
        words.push("--logits-hash");
    }
    words.extend(["-p", &args.prompt]);
    let mut command = firmware.command(None, &words)?;
    eprintln!("$ {}", shown(&command));
    let status = command.stdin(std::process::Stdio::null()).status()?;
    Ok(if status.success() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(2)
    })
}
