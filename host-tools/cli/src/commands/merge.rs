//! `smidgen merge`: a set of shards becomes one GGUF.

use std::{path::PathBuf, process::ExitCode};

use serde_json::json;
use smidgen_io::Overwrite;
use smidgen_shards::{Error, MergeOptions, MergePlan, is_unfinished, merge_deleting};

use crate::{
    output::{self, Align, Table, counted, hinted, human_bytes},
    progress::Bar,
};

/// What the help says besides.
const MORE: &str = "\
All shards must be there and fit together: names, split.no, split.count, split.tensors.count, no
tensor twice, no metadata from elsewhere.

With --delete-splits each shard is deleted as soon as its bytes in the output are on the disk, have
been read back and are equal, so that the disk need not hold the model twice: the most it holds is
the output and the largest shard. Until the end the output has a temporary name and a journal beside
it. After a kill, a power cut or a full disk, the same command goes on where it was; nothing is lost.

With --json:

{\"schema\": 1, \"dry_run\", \"output\", \"bytes\", \"tensors\", \"shards\", \"resumed_after\",
\"peak_bytes\"}

\"peak_bytes\" is what the shards and the output take on the disk together, null when an unfinished
merge goes on; \"resumed_after\" is how many shards it had merged already. A dry run of one that goes
on knows neither, nor the other numbers: they are null.";

/// Merge the shards of a split GGUF into one file.
#[derive(Debug, clap::Args)]
#[command(after_long_help = MORE)]
pub(crate) struct Args {
    /// Delete each shard as soon as it is safe in the output.
    #[arg(long, alias = "delete_splits")]
    pub(super) delete_splits: bool,

    /// Keep split.no, split.tensors.count and a split.count of 0, as llama-gguf-split does.
    #[arg(long)]
    pub(super) keep_split_keys: bool,

    /// Overwrite the output.
    #[arg(long, conflicts_with = "delete_splits")]
    pub(super) force: bool,

    /// Show what would be written, and write nothing.
    #[arg(long, alias = "dry_run")]
    pub(super) dry_run: bool,

    /// Print JSON.
    #[arg(long)]
    pub(super) json: bool,

    /// The first shard, or a folder with one set of shards.
    #[arg(value_name = "FIRST-SHARD.gguf")]
    pub(super) input: PathBuf,

    /// The file to write.
    #[arg(value_name = "OUT.gguf")]
    pub(super) output: PathBuf,
}

/// What has been, or would be, done.
struct Report {
    bytes: u64,
    tensors: usize,
    shards: usize,
    resumed_after: usize,
    peak_bytes: Option<u64>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let resuming = args.delete_splits && is_unfinished(&args.output);
    let report = match (args.dry_run, resuming) {
        (true, true) => return would_go_on(args),
        (false, true) => delete(args, None)?,
        (dry_run, false) => {
            let plan = plan(args)?;
            let peak_bytes = match args.delete_splits {
                true => plan.peak_bytes_when_deleting(),
                false => plan.peak_bytes(),
            };
            if dry_run {
                show(args, &plan, peak_bytes)?;
            }
            if dry_run || !args.delete_splits {
                if !dry_run {
                    let bar = Bar::new();
                    plan.write(&mut |done, total| bar.set(done, total))?;
                }
                Report {
                    bytes: plan.output_bytes(),
                    tensors: plan.set().tensor_count(),
                    shards: plan.set().shards().len(),
                    resumed_after: 0,
                    peak_bytes: Some(peak_bytes),
                }
            } else {
                drop(plan);
                delete(args, Some(peak_bytes))?
            }
        }
    };
    if args.json {
        output::print_json(&json!({
            "schema": 1,
            "dry_run": args.dry_run,
            "output": args.output.display().to_string(),
            "bytes": report.bytes,
            "tensors": report.tensors,
            "shards": report.shards,
            "resumed_after": report.resumed_after,
            "peak_bytes": report.peak_bytes,
        }))?;
    } else if !args.dry_run {
        let resumed = match report.resumed_after {
            0 => String::new(),
            n => format!(", {n} of them merged before"),
        };
        eprintln!(
            "{}: {} from {}{resumed}",
            args.output.display(),
            counted(report.tensors as u64, "tensor"),
            counted(report.shards as u64, "shard"),
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// The dry run of a merge that has been begun.
fn would_go_on(args: &Args) -> anyhow::Result<ExitCode> {
    let output = args.output.display().to_string();
    if args.json {
        output::print_json(&json!({
            "schema": 1,
            "dry_run": true,
            "output": output,
            "bytes": null,
            "tensors": null,
            "shards": null,
            "resumed_after": null,
            "peak_bytes": null,
        }))?;
    } else {
        let words = "an unfinished merge would go on, with no more on the disk than it had planned";
        output::print(&format!("{output}: {words}\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn options(args: &Args) -> MergeOptions {
    MergeOptions {
        keep_split_keys: args.keep_split_keys,
    }
}

fn plan(args: &Args) -> anyhow::Result<MergePlan> {
    let overwrite = match args.force {
        true => Overwrite::Replace,
        false => Overwrite::Refuse,
    };
    let plan = MergePlan::new(&args.input, &args.output, options(args), overwrite);
    plan.map_err(|error| match &error {
        Error::Set(faults) if faults.len() > 1 => {
            let hint = format!("`smidgen verify {}` lists them all", args.input.display());
            hinted(error, hint)
        }
        _ => error.into(),
    })
}

fn delete(args: &Args, peak_bytes: Option<u64>) -> anyhow::Result<Report> {
    let bar = Bar::new();
    let merged = merge_deleting(
        &args.input,
        &args.output,
        options(args),
        &mut |done, total| {
            bar.set(done, total);
        },
    );
    let merged = merged.map_err(|error| {
        if is_unfinished(&args.output) && matches!(error, Error::File(_)) {
            let hint = "nothing is lost: the same command goes on from here";
            return hinted(error, hint);
        }
        error.into()
    })?;
    Ok(Report {
        bytes: merged.bytes,
        tensors: merged.tensors,
        shards: merged.shards,
        resumed_after: merged.resumed_after,
        peak_bytes,
    })
}

/// Shows a plan.
fn show(args: &Args, plan: &MergePlan, peak: u64) -> anyhow::Result<()> {
    if args.json {
        return Ok(());
    }
    let mut table = Table::new(&[Align::Left, Align::Right, Align::Right]);
    for shard in plan.set().shards() {
        table.row([
            shard.path().display().to_string(),
            counted(shard.tensor_count() as u64, "tensor"),
            human_bytes(shard.bytes()),
        ]);
    }
    let mut text = String::new();
    table.write(&mut text, 0);
    text += &format!(
        "{}: {}, {}; at most {peak} bytes on the disk ({}) {}\n",
        plan.output().display(),
        counted(plan.set().tensor_count() as u64, "tensor"),
        human_bytes(plan.output_bytes()),
        human_bytes(peak),
        match args.delete_splits {
            true => "while shards are deleted",
            false => "with the shards",
        }
    );
    output::print(&text)?;
    Ok(())
}
