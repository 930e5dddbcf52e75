//! `smidgen tensors rename|rm|extract`.

use std::{fmt::Write as _, path::PathBuf, process::ExitCode};

use smidgen_edit::{EditError, Glob, Rename as Rule, Rewrite, printable};

use super::{
    edit::{Output, explained, open},
    extract,
};
use crate::output::{self, counted};

/// Rename, remove and extract tensors.
///
/// Files are changed in place and crash-safe: a new file takes the place of the old one in one
/// step, when it is whole and on the disk. Tensor data are copied by the system and not read.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Rename(Rename),
    Rm(Rm),
    Extract(extract::Args),
}

/// Rename tensors.
///
/// In a PATTERN * stands for any text and ? for a character; in its REPLACEMENT they stand for what
/// the one at the same place has matched. The first rule that fits a name applies. Either all is
/// done or nothing: a rule that fits no tensor, or two tensors of one name, are errors.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  smidgen tensors rename model.gguf 'model.layers.*.mlp.up_proj.weight=blk.*.ffn_up.weight'
  smidgen tensors rename --regex model.gguf '^blk\\.(\\d+)\\.=layers.$1.'")]
struct Rename {
    /// The file.
    file: PathBuf,
    /// The rules.
    #[arg(required = true, value_name = "PATTERN=REPLACEMENT")]
    rules: Vec<String>,
    /// The patterns are regular expressions: what they fit in a name is replaced, $1 stands for
    /// the first group.
    #[arg(long)]
    regex: bool,
    /// Print what would be renamed and change nothing.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    output: Output,
}

/// Remove tensors: all that are named, or none if one is not there.
#[derive(Debug, clap::Args)]
struct Rm {
    /// The file.
    file: PathBuf,
    /// The names, or patterns in which * stands for any text.
    #[arg(required = true, value_name = "NAME")]
    names: Vec<Glob>,
    /// Print what would be removed and change nothing.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    output: Output,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    match &args.command {
        Command::Rename(args) => rename(args)?,
        Command::Rm(args) => remove(args)?,
        Command::Extract(args) => extract::run(args)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn rename(args: &Rename) -> anyhow::Result<()> {
    let fail = |error| explained(&args.file, error);
    let new_rule = |rule: &String| match args.regex {
        true => Rule::regex(rule),
        false => Rule::glob(rule),
    };
    let rules: Result<Vec<_>, _> = args.rules.iter().map(new_rule).collect();
    let rules = rules.map_err(fail)?;
    let file = open(&args.file)?;
    let mut rewrite = Rewrite::of(&file).map_err(fail)?;
    for (rule, pattern) in rules.iter().zip(&args.rules) {
        if !rewrite
            .tensor_names()
            .any(|name| rule.apply(name).is_some())
        {
            let pattern = format!("for {pattern}");
            return Err(fail(EditError::NoTensor { pattern }));
        }
    }
    let old: Vec<_> = rewrite.tensor_names().map(String::from).collect();
    let apply = |name: &str| rules.iter().find_map(|rule| rule.apply(name));
    rewrite.rename_tensors(apply).map_err(fail)?;
    let changed = old.iter().zip(rewrite.tensor_names());
    let changed: Vec<_> = changed.filter(|(old, new)| old != new).collect();
    let mut text = String::new();
    for (old, new) in &changed {
        let (old, new) = (printable(old.as_bytes()), printable(new.as_bytes()));
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{old} -> {new}");
    }
    let count = counted(changed.len() as u64, "tensor");
    if args.dry_run {
        output::print(&text)?;
        eprintln!("{count} would be renamed");
        return Ok(());
    }
    args.output.write(&args.file, rewrite)?;
    eprintln!("{count} renamed");
    Ok(())
}

fn remove(args: &Rm) -> anyhow::Result<()> {
    let fail = |error| explained(&args.file, error);
    let file = open(&args.file)?;
    let mut rewrite = Rewrite::of(&file).map_err(fail)?;
    for name in &args.names {
        if !rewrite.tensor_names().any(|tensor| name.fits(tensor)) {
            let pattern = name.to_string();
            return Err(fail(EditError::NoTensor { pattern }));
        }
    }
    let wanted = |tensor: &str| args.names.iter().any(|name| name.fits(tensor));
    let mut text = String::new();
    for name in rewrite.tensor_names().filter(|name| wanted(name)) {
        let _ = writeln!(text, "{}", printable(name.as_bytes()));
    }
    let removed = rewrite.remove_tensors(wanted).map_err(fail)?;
    let count = counted(removed as u64, "tensor");
    if args.dry_run {
        output::print(&text)?;
        eprintln!("{count} would be removed");
        return Ok(());
    }
    args.output.write(&args.file, rewrite)?;
    eprintln!("{count} removed");
    Ok(())
}
