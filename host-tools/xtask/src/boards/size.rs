//! `cargo xtask size`: flash and RAM of a firmware, by part.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use object::{Object as _, ObjectSection as _, ObjectSymbol as _};
use serde_json::json;

use super::firmware::{Program, Source};
use super::{KvArgs, all, find, models};

/// Arguments of `cargo xtask size`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The board; without, all are listed.
    #[arg(long, value_name = "BOARD")]
    board: Option<String>,
    /// The GGUF to link in [default: stories260K from the shared test material, else the one that
    /// ships with the project].
    #[arg(long, value_name = "GGUF")]
    model: Option<PathBuf>,
    #[command(flatten)]
    kv: KvArgs,
    /// Print an object.
    #[arg(long)]
    json: bool,
}

/// Bytes of a firmware's parts.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Sizes {
    /// Instructions, constants and the first values of variables.
    pub(super) code: u64,
    /// The GGUF.
    pub(super) model: u64,
    /// Keys and values.
    pub(super) kv: u64,
    /// All other buffers of a session.
    pub(super) activations: u64,
    /// All other variables.
    pub(super) other: u64,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let Some(name) = &args.board else {
        for board in all() {
            println!("{:<22} {}", board.name, board.row.core);
        }
        return Ok(ExitCode::SUCCESS);
    };
    let board = find(name)?;
    let model = match &args.model {
        Some(model) => model.clone(),
        None => models::default(board)?,
    };
    let source = Source {
        options: args.kv.options(board),
        ..Source::new(board, &model)
    };
    let firmware = source.build(Program::Story)?;
    let sizes = Sizes::of(&fs::read(&firmware.elf)?)?;
    // How deep it gets is known only when it has run.
    let output = firmware.output(None, &["-n", "16"])?;
    let stack = output
        .rsplit_once("stack: ")
        .and_then(|(_, rest)| rest.split(' ').next());
    let stack: u64 = stack.context("no line about the stack")?.parse()?;
    let Sizes {
        code,
        model,
        kv,
        activations,
        other,
    } = sizes;
    let (flash, ram) = (code + model, kv + activations + other + stack);
    if args.json {
        let object = json!({
            "board": board.name,
            "flash": {"code": code, "model": model, "total": flash},
            "ram": {
                "kv": kv, "activations": activations, "other": other, "stack": stack, "total": ram,
            },
        });
        println!("{object:#}");
        return Ok(ExitCode::SUCCESS);
    }
    println!("{}", board.name);
    for (memory, part, bytes) in [
        ("flash", "code", code),
        ("flash", "model", model),
        ("flash", "total", flash),
        ("RAM", "KV cache", kv),
        ("RAM", "activations", activations),
        ("RAM", "other", other),
        ("RAM", "stack", stack),
        ("RAM", "total", ram),
    ] {
        println!("{memory:<6} {part:<12} {bytes:>10}");
    }
    Ok(ExitCode::SUCCESS)
}

impl Sizes {
    /// The parts of an ELF file. Sections tell flash from RAM, names of variables what is in RAM.
    pub(super) fn of(elf: &[u8]) -> Result<Self> {
        let file = object::File::parse(elf)?;
        let mut sizes = Self::default();
        for section in file.sections() {
            let name = section.name()?;
            let object::SectionFlags::Elf { sh_flags } = section.flags() else {
                continue;
            };
            let loaded = sh_flags & u64::from(object::elf::SHF_ALLOC) != 0;
            match name {
                _ if !loaded => {}
                ".model" => sizes.model += section.size(),
                // What is left for the stack, or all of it.
                ".stack" => {}
                ".bss" | ".uninit" => sizes.other += section.size(),
                ".data" => {
                    sizes.code += section.size();
                    sizes.other += section.size();
                }
                _ => sizes.code += section.size(),
            }
        }
        for symbol in file.symbols() {
            let name = symbol.name().unwrap_or_default();
            if name.contains("SMIDGEN_KV") {
                sizes.kv += symbol.size();
            } else if name.contains("SMIDGEN_WORK") {
                sizes.activations += symbol.size();
            }
        }
        let named = sizes.kv + sizes.activations;
        sizes.other = sizes
            .other
            .checked_sub(named)
            .context("buffers outside .bss")?;
        Ok(sizes)
    }
}
