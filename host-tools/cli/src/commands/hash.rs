//! `smidgen hash FILE`.

use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Context;
use serde_json::json;
use smidgen_edit::{Checked, Hash, HashKind, Manifest, hash};
use smidgen_io::FileBytes;

use super::edit::explained;
use crate::{
    output::{self, BAD, GOOD, ODD},
    progress::Bar,
};

/// Hash the tensors of a GGUF file.
///
/// Only tensor data count, in the order of the file: metadata and names may change. The lines are
/// those of llama-gguf-hash, so that each program checks the other's manifests; without a choice
/// it is xxh64. The lines of the whole file come last.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
With --json: {\"schema\": 1, \"file\", \"hashes\": [{\"kind\", \"tensor\", \"hash\", \"check\"}]}; \"tensor\"
is null for the whole file, \"check\" is \"ok\", \"mismatch\", \"not found\", or null without --check.")]
pub(crate) struct Args {
    /// The file; `-` is standard input.
    file: PathBuf,
    /// XXH64.
    #[arg(long)]
    xxh64: bool,
    /// SHA-1.
    #[arg(long)]
    sha1: bool,
    /// SHA-256.
    #[arg(long)]
    sha256: bool,
    /// A UUID of version 5, of the whole file only.
    #[arg(long)]
    uuid: bool,
    /// XXH64, SHA-1 and SHA-256.
    #[arg(long)]
    all: bool,
    /// Hash each tensor too.
    #[arg(long)]
    per_tensor: bool,
    /// Hash the file as a whole only, as is done anyway.
    #[arg(long, hide = true, conflicts_with = "per_tensor")]
    no_layer: bool,
    /// Check the file against a manifest; the exit status is 1 when something differs. Without a
    /// choice the strongest hash that is in it counts.
    #[arg(short, long, value_name = "MANIFEST")]
    check: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let manifest = args.check.as_deref().map(read_manifest).transpose()?;
    let file = FileBytes::open(&args.file)?;
    let gguf = file.gguf()?;
    let name = args.file.display().to_string();
    let kinds = kinds(args, manifest.as_ref());
    let in_manifest = manifest
        .as_ref()
        .is_some_and(|manifest| manifest.has_tensors(&name));
    let per_tensor = args.per_tensor || in_manifest && !args.no_layer;
    let bar = Bar::new();
    let hashes = hash(&file, &gguf, &kinds, per_tensor, |done, total| {
        bar.set(done, total);
    })?;
    drop(bar);
    let checked = |hash: &Hash| {
        manifest
            .as_ref()
            .map(|manifest| manifest.check(hash, &name))
    };
    let code = match &manifest {
        Some(_) => verdict(hashes.iter().filter_map(checked)),
        None => 0,
    };
    if args.json {
        let hash = |hash: &Hash| {
            json!({
                "kind": hash.kind.name(),
                "tensor": hash.tensor,
                "hash": hash.digest,
                "check": checked(hash).map(|checked| checked.to_string().to_lowercase()),
            })
        };
        let hashes: Vec<_> = hashes.iter().map(hash).collect();
        output::print_json(&json!({ "schema": 1, "file": name, "hashes": hashes }))?;
        return Ok(ExitCode::from(code));
    }
    let mut text = String::new();
    for hash in &hashes {
        let line = hash.line(&name);
        // Writing to a string cannot fail.
        let _ = match checked(hash) {
            None => writeln!(text, "{line}"),
            Some(checked) => {
                let style = match checked {
                    Checked::Ok => GOOD,
                    Checked::Mismatch => BAD,
                    Checked::NotFound => ODD,
                };
                writeln!(text, "{line}  -  {style}{checked}{style:#}")
            }
        };
    }
    output::print(&text)?;
    if code == 1 {
        eprintln!("smidgen: {name} is not what the manifest says");
    }
    Ok(ExitCode::from(code))
}

/// 0 when something was checked and nothing differs.
fn verdict(checks: impl Iterator<Item = Checked>) -> u8 {
    let mut found = false;
    for checked in checks {
        match checked {
            Checked::Mismatch => return 1,
            Checked::Ok => found = true,
            Checked::NotFound => {}
        }
    }
    u8::from(!found)
}

fn read_manifest(path: &Path) -> anyhow::Result<Manifest> {
    let read = match path.as_os_str() == "-" {
        true => std::io::read_to_string(std::io::stdin()),
        false => std::fs::read_to_string(path),
    };
    let text = read.with_context(|| format!("cannot read {}", path.display()))?;
    text.parse().map_err(|error| explained(path, error))
}

/// What was asked for; else the strongest of the manifest; else XXH64.
fn kinds(args: &Args, manifest: Option<&Manifest>) -> Vec<HashKind> {
    let asked = [
        (HashKind::Xxh64, args.xxh64 || args.all),
        (HashKind::Sha1, args.sha1 || args.all),
        (HashKind::Sha256, args.sha256 || args.all),
        (HashKind::Uuid, args.uuid),
    ];
    let asked = asked.into_iter().filter(|asked| asked.1);
    let asked: Vec<_> = asked.map(|asked| asked.0).collect();
    if !asked.is_empty() {
        return asked;
    }
    let there = manifest.map(Manifest::kinds).unwrap_or_default();
    let strongest = [
        HashKind::Sha256,
        HashKind::Sha1,
        HashKind::Xxh64,
        HashKind::Uuid,
    ];
    let strongest = strongest.into_iter().find(|kind| there.contains(kind));
    vec![strongest.unwrap_or(HashKind::Xxh64)]
}
