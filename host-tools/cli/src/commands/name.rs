//! `smidgen name FILE`.

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, anyhow, bail};
use serde_json::json;
use smidgen_core::gguf::FileName;
use smidgen_edit::{name, printable};
use smidgen_io::{FileBytes, same_file};

use super::{edit::open, inspect::name_json, verify::file_name};
use crate::output;

/// Print the file name that a model should have by the GGUF naming convention.
///
/// The parts come from the metadata: basename, size label, finetune, version, file type and type, or
/// else from general.name; the size is counted where no key says it.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
With --json: {\"schema\": 1, \"file\", \"name\", \"parts\"}; \"parts\" as \"file_name\" in `smidgen inspect
--json`. \"file\" is null with --parse.")]
pub(crate) struct Args {
    /// The file; `-` is standard input.
    file: PathBuf,

    /// Give the file this name, in its folder.
    #[arg(long, conflicts_with = "parse")]
    rename: bool,

    /// Replace a file that has the name already.
    #[arg(long, requires = "rename")]
    force: bool,

    /// FILE is only a name: take it apart. The exit status is 1 when it does not conform.
    #[arg(long)]
    parse: bool,

    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if args.parse {
        return parse(args);
    }
    let name = name_of(&args.file)?;
    let Some(parts) = FileName::parse(&name) else {
        bail!("{name} is no file name");
    };
    for problem in parts.problems() {
        output::warn(format!("{}: {problem}", printable(name.as_bytes())));
    }
    if args.rename {
        rename(&args.file, &name, args.force)?;
    }
    if args.json {
        let file = args.file.display().to_string();
        let parts = name_json(&parts);
        output::print_json(&json!({ "schema": 1, "file": file, "name": name, "parts": parts }))?;
    } else {
        output::print(&format!("{}\n", printable(name.as_bytes())))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn name_of(path: &Path) -> anyhow::Result<String> {
    let file = FileBytes::open(path)?;
    let gguf = file.gguf()?;
    name(&gguf).map_err(|error| {
        let shown = printable(path.display().to_string().as_bytes());
        output::hinted(
            anyhow!("{shown}: {error}"),
            "`smidgen meta set FILE general.basename NAME` gives it one",
        )
    })
}

/// Gives a file another name; nothing is lost when that is taken meanwhile.
fn rename(path: &Path, name: &str, force: bool) -> anyhow::Result<()> {
    open(path)?;
    let new = path.with_file_name(name);
    let shown = new.display();
    if same_file(path, &new) {
        return Ok(());
    }
    let fail = || format!("cannot rename {} to {shown}", path.display());
    if force {
        return fs::rename(path, &new).with_context(fail);
    }
    // A second name for the file is refused where there is one, and only then the first goes.
    match fs::hard_link(path, &new) {
        Ok(()) => fs::remove_file(path).with_context(fail),
        Err(_) if new.symlink_metadata().is_ok() => {
            bail!("{shown} exists; --force overwrites it")
        }
        // A file system without links.
        Err(_) => fs::rename(path, &new).with_context(fail),
    }
}

fn parse(args: &Args) -> anyhow::Result<ExitCode> {
    let shown = printable(args.file.display().to_string().as_bytes());
    let parts = file_name(&args.file).and_then(FileName::parse);
    let Some(parts) = parts else {
        bail!("{shown} is no name of a GGUF file: it does not end in .gguf");
    };
    if args.json {
        let name = parts.to_string();
        let parts = name_json(&parts);
        output::print_json(&json!({ "schema": 1, "file": null, "name": name, "parts": parts }))?;
    } else {
        let shard = parts
            .shard
            .map(|(number, count)| format!("{number} of {count}"));
        let mut table = output::Table::new(&[output::Align::Left, output::Align::Left]);
        for (word, part) in [
            ("sidecar", parts.sidecar),
            ("base name", Some(parts.base_name)),
            ("size", parts.size_label),
            ("fine-tune", parts.fine_tune),
            ("version", parts.version),
            ("encoding", parts.encoding),
            ("type", parts.kind),
            ("shard", shard.as_deref()),
        ] {
            if let Some(part) = part {
                table.row([word.into(), printable(part.as_bytes())]);
            }
        }
        let mut text = String::new();
        table.write(&mut text, 0);
        output::print(&text)?;
    }
    for problem in parts.problems() {
        let problem = problem.to_string();
        output::warn(format!("{shown}: {}", printable(problem.as_bytes())));
    }
    Ok(ExitCode::from(u8::from(!parts.conforms())))
}
