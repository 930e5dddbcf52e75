//! `smidgen split`: a GGUF becomes a set of shards.

use std::{num::NonZeroU32, path::PathBuf, process::ExitCode};

use serde_json::json;
use smidgen_shards::{Limit, Size, SplitOptions, SplitPlan};

use crate::{
    output::{self, Align, Table, counted, human_bytes},
    progress::Bar,
};

/// The form of the JSON.
const JSON: &str = "\
Tensors are never cut: one that is larger than --split-max-size gets a shard of its own.

All metadata goes into the first shard; the others carry their split.* keys and, when it is not 32,
general.alignment. Shards are written under temporary names and get their own at the end, the first
one last; when the command is killed, running it again completes the set.

With --json:

{\"schema\": 1, \"dry_run\", \"shards\": [{\"file\", \"bytes\", \"tensors\"}], \"tensors\",
\"larger_than_limit\": [{\"tensor\", \"file\"}], \"merges_to_same_bytes\", \"peak_bytes\"}

\"peak_bytes\" is what IN.gguf and the shards take on the disk together.";

/// Split a GGUF file into shards.
#[derive(Debug, clap::Args)]
#[command(after_long_help = JSON)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(super) limit: LimitArgs,

    /// Put only metadata into the first shard.
    #[arg(long, alias = "no_tensor_first_split")]
    pub(super) no_tensor_first_split: bool,

    /// Show what would be written, and write nothing.
    #[arg(long, alias = "dry_run")]
    pub(super) dry_run: bool,

    /// Print JSON.
    #[arg(long)]
    pub(super) json: bool,

    /// The file to split.
    #[arg(value_name = "IN.gguf")]
    pub(super) input: PathBuf,

    /// What the shards' names begin with, or a folder for them: PREFIX-00001-of-00012.gguf.
    #[arg(value_name = "OUT-PREFIX")]
    pub(super) prefix: PathBuf,
}

/// How much a shard may hold.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct LimitArgs {
    /// The most tensors in a shard [default: 128].
    #[arg(long, alias = "split_max_tensors", value_name = "N")]
    #[arg(allow_hyphen_values = true, value_parser = positive)]
    #[arg(conflicts_with = "split_max_size")]
    split_max_tensors: Option<NonZeroU32>,

    /// The most bytes of tensors in a shard: 500K, 300M or 2G (decimal; metadata does not count).
    #[arg(long, alias = "split_max_size", value_name = "N(K|M|G)")]
    #[arg(allow_hyphen_values = true)]
    split_max_size: Option<Size>,
}

fn positive(text: &str) -> Result<NonZeroU32, &'static str> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let number = text.parse().ok().filter(|_| digits);
    number.ok_or("a whole number from 1 to 4294967295 is expected")
}

impl LimitArgs {
    fn limit(&self) -> Limit {
        match (self.split_max_tensors, self.split_max_size) {
            (Some(tensors), _) => Limit::Tensors(tensors),
            (None, Some(size)) => Limit::Bytes(size),
            (None, None) => Limit::default(),
        }
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let options = SplitOptions {
        limit: args.limit.limit(),
        no_tensor_first_split: args.no_tensor_first_split,
    };
    let plan = SplitPlan::new(&args.input, &args.prefix, &options)?;
    for (tensor, shard) in plan.larger_than_limit() {
        output::warn(format!(
            "tensor {} is larger than the limit and gets {} for itself",
            tensor.escape_debug(),
            shard.path().display()
        ));
    }
    if !plan.merges_to_same_bytes() {
        output::warn(format!(
            "{}: merging will give the same tensors and metadata, but not byte for byte this file",
            args.input.display()
        ));
    }
    if !args.dry_run {
        let bar = Bar::new();
        plan.write(&mut |done, total| bar.set(done, total))?;
    }
    let shards = plan.shards().len() as u64;
    let tensors = plan.tensor_count() as u64;
    let words = format!(
        "{}, {}",
        counted(shards, "shard"),
        counted(tensors, "tensor")
    );
    if args.json {
        output::print_json(&json(&plan, args.dry_run))?;
    } else if args.dry_run {
        let mut table = Table::new(&[Align::Left, Align::Right, Align::Right]);
        for shard in plan.shards() {
            table.row([
                shard.path().display().to_string(),
                counted(shard.tensor_count() as u64, "tensor"),
                human_bytes(shard.bytes()),
            ]);
        }
        let mut text = String::new();
        table.write(&mut text, 0);
        let peak = plan.peak_bytes();
        text += &format!(
            "{words}; with {} at most {peak} bytes on the disk ({})\n",
            args.input.display(),
            human_bytes(peak)
        );
        output::print(&text)?;
    } else {
        let first = plan.shards().first().map(|first| first.path().display());
        eprintln!("{}: {words}", first.expect("a plan has a shard"));
    }
    Ok(ExitCode::SUCCESS)
}

fn json(plan: &SplitPlan, dry_run: bool) -> serde_json::Value {
    let shards = plan.shards().iter().map(|shard| {
        json!({
            "file": shard.path().display().to_string(),
            "bytes": shard.bytes(),
            "tensors": shard.tensor_count(),
        })
    });
    let larger = plan.larger_than_limit().map(
        |(tensor, shard)| json!({"tensor": tensor, "file": shard.path().display().to_string()}),
    );
    json!({
        "schema": 1,
        "dry_run": dry_run,
        "shards": shards.collect::<Vec<_>>(),
        "tensors": plan.tensor_count(),
        "larger_than_limit": larger.collect::<Vec<_>>(),
        "merges_to_same_bytes": plan.merges_to_same_bytes(),
        "peak_bytes": plan.peak_bytes(),
    })
}
