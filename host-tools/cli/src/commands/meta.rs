//! `smidgen meta get|set|rm|copy|rename`.

use std::{
    io::{self, IsTerminal},
    path::PathBuf,
    process::ExitCode,
};

use serde_json::{Value as Json, json};
use smidgen_core::gguf::Value;
use smidgen_edit::{EditError, Glob, Rewrite, TypeSpec, json as value, printable};
use smidgen_io::{FileBytes, same_file};

use super::edit::{Output, explained, open};
use crate::output;

/// Read and change metadata.
///
/// Files are changed in place and crash-safe: a new file takes the place of the old one in one
/// step, when it is whole and on the disk. Tensor data are copied by the system and not read. A
/// change that makes a valid file wrong, or a model that runs one that does not, is refused.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Get(Get),
    Set(Set),
    Rm(Rm),
    Copy(Copy),
    Rename(Rename),
}

/// Print a value: a string as it is, an array as JSON.
///
/// With --json: {"key", "type", "element", "count", "value"} as in `smidgen inspect --json`.
#[derive(Debug, clap::Args)]
struct Get {
    /// The file; `-` is standard input.
    file: PathBuf,
    /// The key.
    key: String,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Set a value.
///
/// The type is that of the value that is there; a new key needs --type unless the GGUF
/// specification says what it is. Arrays are JSON, in the form in which `meta get` prints them.
#[derive(Debug, clap::Args)]
struct Set {
    /// The file.
    file: PathBuf,
    /// The key.
    key: String,
    /// The value.
    #[arg(allow_hyphen_values = true)]
    value: String,
    /// The value's type: u8 to u64, i8 to i64, f32, f64, bool, str; arr:TYPE for an array.
    #[arg(long = "type", value_name = "TYPE")]
    ty: Option<TypeSpec>,
    #[command(flatten)]
    patch: Patch,
    #[command(flatten)]
    output: Output,
}

#[derive(Debug, clap::Args)]
struct Patch {
    /// Write the change into the file itself, when the metadata keep their size. Fast for a large
    /// file, but not safe when the machine stops meanwhile.
    #[arg(long, conflicts_with = "output")]
    patch: bool,
}

/// Remove keys: all of them, or none if one is not there.
#[derive(Debug, clap::Args)]
struct Rm {
    /// The file.
    file: PathBuf,
    /// The keys.
    #[arg(required = true, value_name = "KEY")]
    keys: Vec<String>,
    #[command(flatten)]
    output: Output,
}

/// Copy metadata from one file into another.
///
/// Without --keys all keys are copied but general.alignment and split.*.
#[derive(Debug, clap::Args)]
struct Copy {
    /// The file whose metadata are copied; `-` is standard input.
    from: PathBuf,
    /// The file that is changed.
    to: PathBuf,
    /// Copy only keys that fit this pattern, in which * stands for any text; may be repeated.
    #[arg(long, value_name = "GLOB")]
    keys: Vec<Glob>,
    #[command(flatten)]
    output: Output,
}

/// Rename a key.
#[derive(Debug, clap::Args)]
struct Rename {
    /// The file.
    file: PathBuf,
    /// The key.
    old: String,
    /// Its new name.
    new: String,
    #[command(flatten)]
    patch: Patch,
    #[command(flatten)]
    output: Output,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    match &args.command {
        Command::Get(args) => get(args)?,
        Command::Set(args) => change(&args.file, &args.output, args.patch.patch, |rewrite| {
            let ty = match args.ty {
                Some(ty) => ty,
                None => rewrite.type_of(&args.key)?,
            };
            rewrite.set(&args.key, ty.parse(&args.value)?)
        })?,
        Command::Rm(args) => change(&args.file, &args.output, false, |rewrite| {
            args.keys.iter().try_for_each(|key| rewrite.remove(key))
        })?,
        Command::Rename(args) => change(&args.file, &args.output, args.patch.patch, |rewrite| {
            rewrite.rename(&args.old, &args.new)
        })?,
        Command::Copy(args) => copy(args)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn change(
    path: &std::path::Path,
    output: &Output,
    patch: bool,
    change: impl FnOnce(&mut Rewrite<'_>) -> Result<(), EditError>,
) -> anyhow::Result<()> {
    let file = open(path)?;
    let fail = |error| explained(path, error);
    let mut rewrite = Rewrite::of(&file).map_err(fail)?;
    change(&mut rewrite).map_err(fail)?;
    if patch {
        output.patch(path, rewrite)
    } else {
        output.write(path, rewrite)
    }
}

fn copy(args: &Copy) -> anyhow::Result<()> {
    if same_file(&args.from, &args.to) {
        anyhow::bail!("{} is both files", args.from.display());
    }
    let from = FileBytes::open(&args.from)?;
    let from = from.gguf()?;
    change(&args.to, &args.output, false, |rewrite| {
        rewrite.copy_from(&from, &args.keys).map(|_| ())
    })
}

fn get(args: &Get) -> anyhow::Result<()> {
    let file = FileBytes::open(&args.file)?;
    let gguf = file.gguf()?;
    let Some(found) = gguf.get(&args.key) else {
        let key = args.key.clone();
        return Err(explained(&args.file, EditError::NoKey { key }));
    };
    if args.json {
        output::print_json(&entry_json(args.key.as_bytes(), &found))?;
        return Ok(());
    }
    match found {
        Value::String(bytes) if io::stdout().is_terminal() => {
            // A chat template has lines, but what moves the terminal stays out.
            let lines = bytes.split(|&byte| byte == b'\n').map(printable);
            let lines: Vec<_> = lines.collect();
            output::print(&format!("{}\n", lines.join("\n")))?;
        }
        Value::String(bytes) => output::print_bytes(&[bytes, b"\n"].concat())?,
        Value::F32(v) => output::print(&format!("{v:?}\n"))?,
        Value::F64(v) => output::print(&format!("{v:?}\n"))?,
        Value::Bool(v) => output::print(&format!("{v}\n"))?,
        Value::Array(_) => output::print(&format!("{}\n", value::value(&found)))?,
        integer => {
            let integer = integer.as_integer().unwrap_or_default();
            output::print(&format!("{integer}\n"))?;
        }
    }
    Ok(())
}

/// A metadata entry as JSON.
pub(super) fn entry_json(key: &[u8], found: &Value<'_>) -> Json {
    let array = match found {
        Value::Array(array) => Some(array),
        _ => None,
    };
    json!({
        "key": value::text(key),
        "type": found.value_type().name(),
        "element": array.map(|array| array.element_type().name()),
        "count": array.map(|array| array.len()),
        "value": value::value(found),
    })
}
