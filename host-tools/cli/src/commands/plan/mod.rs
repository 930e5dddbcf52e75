//! `smidgen plan`: will a model fit a board?

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, anyhow, bail};
use smidgen_core::{
    gguf::Gguf,
    model::Model,
    session::{Plan, Session, SessionOptions},
};
use smidgen_io::SessionMemory;
use smidgen_plan::{
    BOARDS, Board, Footprint, Memory, Placement, generic, largest_window, room_for_model,
};

use crate::{
    engine::{Kv, ModelFiles},
    output::{self, hinted},
};

mod advice;
mod boards;
mod json;
mod text;

use advice::Advice;
use boards::board_named;

const HELP: &str = "\
Bytes are those of the firmware in this repository: buffers are counted by the same functions as
there, code and other variables by what they take at most. Exit status 1 says that something does
not fit.

With --json: {\"schema\": 1, \"model\", \"model_bytes\", \"board\" or null, \"fits\", \"kv\", \"window\",
\"ring\", \"context\": the model's, \"largest_window\" or null, \"regions\": [{\"name\", \"origin\",
\"bytes\", \"used\", \"free\" or null, \"parts\": [{\"name\", \"bytes\"}]}], \"advice\": [{\"change\",
\"words\"}]}. Parts are code, model, kv, activations, text (the vocabulary's index, and what a prompt
needs), variables and stack. With --boards: {\"schema\": 1, \"boards\": [{\"name\", \"about\", \"core\",
\"code\", \"model\", \"ram\": {\"name\", \"origin\", \"bytes\"}, \"code_bytes\", \"variable_bytes\",
\"stack_bytes\", \"kv\", \"window\", \"ring\", \"qemu\" or null}]}.";

/// Show whether a model fits a board, and what goes where in its memory.
#[derive(Debug, clap::Args)]
#[command(after_long_help = HELP)]
pub(crate) struct Args {
    /// The model, a GGUF; `-` is standard input.
    #[arg(value_name = "GGUF", required_unless_present = "boards")]
    model: Option<PathBuf>,

    /// The board; --boards lists them.
    #[arg(long, value_name = "NAME", required_unless_present_any = ["boards", "flash"])]
    board: Option<String>,

    /// Any Cortex-M with this much flash: bytes, or K, M, G of 1024.
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    #[arg(requires = "ram", conflicts_with = "board")]
    flash: Option<u64>,

    /// And with this much RAM.
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    #[arg(requires = "flash", conflicts_with = "board")]
    ram: Option<u64>,

    /// Positions of the context [default: the board's, or the model's context length if that is
    /// less].
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    ctx_size: Option<u32>,

    /// How keys and values are stored [default: the board's].
    #[arg(long, value_name = "TYPE", ignore_case = true)]
    kv: Option<Kv>,

    /// Keep only the last N positions and go on when they are full.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    #[arg(conflicts_with = "ctx_size")]
    window: Option<u32>,

    /// Go on when the positions are full: the oldest make room.
    #[arg(long)]
    ring: bool,

    /// List the boards.
    #[arg(long, conflicts_with_all = [
        "model", "board", "flash", "ram", "ctx_size", "kv", "window", "ring",
    ])]
    boards: bool,

    /// Print an object.
    #[arg(long)]
    json: bool,
}

/// A number of bytes, or of K, M or G of 1024 each.
fn bytes(text: &str) -> Result<u64, String> {
    let (digits, unit) = match text.char_indices().next_back() {
        Some((at, 'k' | 'K')) => (&text[..at], 1 << 10),
        Some((at, 'm' | 'M')) => (&text[..at], 1 << 20),
        Some((at, 'g' | 'G')) => (&text[..at], 1 << 30),
        _ => (text, 1),
    };
    let number: Option<u64> = digits.parse().ok().filter(|&number| number > 0);
    let bytes = number.and_then(|number| number.checked_mul(unit));
    bytes.ok_or_else(|| "expected bytes, as 196608, 192K or 1M".to_owned())
}

/// A model on a board.
struct Planned<'p> {
    /// The model as it is called.
    model: String,
    model_bytes: u64,
    /// The model's context length.
    n_ctx: usize,
    /// `None` for a chip of which only the memory is known.
    board: Option<&'static Board>,
    memory: &'p Memory,
    options: SessionOptions,
    placement: Placement,
    largest_window: Option<usize>,
    advice: Vec<Advice>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if args.boards {
        if args.json {
            output::print_json(&boards::json(BOARDS))?;
        } else {
            output::print(&boards::text(BOARDS))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let board = args.board.as_deref().map(board_named).transpose()?;
    let (memory, defaults) = match (board, args.flash, args.ram) {
        (Some(board), _, _) => (board.memory, board.options),
        (None, Some(flash), Some(ram)) => generic(flash, ram),
        _ => bail!("no board given"),
    };
    let path = args.model.as_deref().context("no model given")?;
    let files = ModelFiles::open(path)?;
    let ggufs = files.parse()?;
    let [gguf] = &ggufs[..] else {
        return Err(hinted(
            anyhow!("{}: a board takes one file, not shards", path.display()),
            "smidgen merge makes one of them",
        ));
    };
    let mut layers = Vec::new();
    let model = files.load(&ggufs, &mut layers)?;
    let mut index = Vec::new();
    files.vocabulary(&ggufs, &mut index)?;

    let n_ctx = model.hyperparameters.n_ctx;
    let asked = args.ctx_size.or(args.window);
    let options = SessionOptions {
        kv: args.kv.map_or(defaults.kv, Into::into),
        window: asked.map_or(defaults.window.min(n_ctx), |window| window as usize),
        ring: args.window.is_some() || args.ring || defaults.ring && args.ctx_size.is_none(),
        ..defaults
    };
    can_run(&model, options).with_context(|| path.display().to_string())?;
    let model_bytes = files.bytes();
    let planned = Planned::new(
        path.display().to_string(),
        model_bytes,
        board,
        &memory,
        options,
        &model,
        gguf,
    );
    let planned = Planned {
        advice: advice::of(&planned, &model, gguf)?,
        ..planned
    };
    if args.json {
        output::print_json(&json::of(&planned))?;
    } else {
        output::print(&text::of(&planned))?;
    }
    Ok(match planned.placement.fits() {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(1),
    })
}

/// Bytes of the largest GGUF that a board has room for, whatever the types of its tensors, if it is
/// run as the board's row says.
pub(crate) fn room_on(board: &str, files: &ModelFiles, ggufs: &[Gguf<'_>]) -> anyhow::Result<u64> {
    let Board {
        memory, options, ..
    } = board_named(board)?;
    let mut layers = Vec::new();
    let model = files.load(ggufs, &mut layers)?;
    let hyperparameters = &model.hyperparameters;
    let options = SessionOptions {
        window: options.window.min(hyperparameters.n_ctx),
        ..*options
    };
    let first = ggufs.first().context("no file")?;
    let footprint = Footprint {
        // With all forms of activations.
        plan: Some(Plan::with_forms(hyperparameters, &options, true, true)),
        ..Footprint::new(&model, first, memory, options)
    };
    room_for_model(memory, &footprint)
        .with_context(|| format!("{board} has no room for any model, beside what runs it"))
}

/// Whether a session says no to a model or its options, for other reasons than memory.
fn can_run(model: &Model<'_>, options: SessionOptions) -> anyhow::Result<()> {
    let small = SessionOptions {
        window: 1,
        ..options
    };
    let plan = Plan::new(model, &small);
    let mut memory = SessionMemory::try_new(&plan, &small)?;
    Session::new(model, small, memory.buffers())?;
    Ok(())
}

impl<'p> Planned<'p> {
    #[allow(clippy::too_many_arguments)]
    fn new(
        name: String,
        model_bytes: u64,
        board: Option<&'static Board>,
        memory: &'p Memory,
        options: SessionOptions,
        model: &Model<'_>,
        gguf: &Gguf<'_>,
    ) -> Self {
        let footprint = Footprint::new(model, gguf, memory, options);
        let n_ctx = model.hyperparameters.n_ctx;
        let most = n_ctx.max(options.window);
        Self {
            model: name,
            model_bytes,
            n_ctx,
            board,
            memory,
            options,
            placement: Placement::new(memory, &footprint, model_bytes),
            largest_window: largest_window(memory, model, gguf, model_bytes, options, most),
            advice: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::bytes;

    #[test]
    fn sizes_are_read() {
        for (text, expected) in [
            ("1", Some(1)),
            ("192K", Some(196_608)),
            ("1m", Some(1 << 20)),
            ("2G", Some(2 << 30)),
            ("0K", None),
            ("K", None),
            ("-1", None),
            ("1.5M", None),
            ("1KB", None),
            ("99999999999999999999", None),
            ("18446744073709551615G", None),
            ("1é", None),
        ] {
            assert_eq!(bytes(text).ok(), expected, "{text}");
        }
    }
}
