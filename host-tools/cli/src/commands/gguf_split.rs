//! `smidgen gguf-split`: split and merge under the command line of llama.cpp's llama-gguf-split.

use std::{path::PathBuf, process::ExitCode};

use super::{merge, split};

/// Split or merge, with the command line of llama-gguf-split.
///
/// The flags are those of llama.cpp's tool; what is done is what `smidgen split` and `smidgen merge`
/// do, with all their checks.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Split a GGUF into shards; so it does when nothing is said.
    #[arg(long, conflicts_with = "merge")]
    split: bool,

    /// Merge shards into one GGUF.
    #[arg(long)]
    merge: bool,

    #[command(flatten)]
    limit: split::LimitArgs,

    /// Put only metadata into the first shard.
    #[arg(long, alias = "no_tensor_first_split")]
    no_tensor_first_split: bool,

    /// Show what would be written, and write nothing.
    #[arg(long, alias = "dry_run")]
    dry_run: bool,

    /// Delete each shard as soon as it is safe in the output.
    #[arg(long, alias = "delete_splits")]
    delete_splits: bool,

    /// Keep the split.* keys with a split.count of 0, as llama.cpp's tool always does.
    #[arg(long)]
    keep_split_keys: bool,

    /// Print JSON.
    #[arg(long)]
    json: bool,

    /// The file to split, or the first shard.
    #[arg(value_name = "GGUF_IN")]
    input: PathBuf,

    /// What the shards' names begin with, or the file to write.
    #[arg(value_name = "GGUF_OUT")]
    output: PathBuf,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let (input, output) = (args.input.clone(), args.output.clone());
    if args.merge {
        return merge::run(&merge::Args {
            delete_splits: args.delete_splits,
            keep_split_keys: args.keep_split_keys,
            force: false,
            dry_run: args.dry_run,
            json: args.json,
            input,
            output,
        });
    }
    split::run(&split::Args {
        limit: args.limit.clone(),
        no_tensor_first_split: args.no_tensor_first_split,
        dry_run: args.dry_run,
        json: args.json,
        input,
        prefix: output,
    })
}
