//! `cargo xtask size`: flash and RAM of a firmware, by part.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use object::{Object as _, ObjectSection as _, ObjectSymbol as _};
use serde_json::{Map, Value, json};

use super::firmware::{Firmware, Program, Source};
use super::{Board, KvArgs, all, find, models, pack};

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
    /// Those of them that are places for layers.
    pub(super) layers: u64,
    /// A copy of a model that is flashed apart.
    pub(super) stage: u64,
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
    let has_console = board.row.firmware.has_console;
    let source = Source {
        options: args.kv.options(board),
        ..Source::new(board, &model)
    };
    let program = if has_console {
        Program::Console
    } else {
        Program::Story
    };
    let firmware = source.build(program)?;
    let sizes = Sizes::of(&fs::read(&firmware.elf)?)?;
    let parts = if has_console {
        sizes.with_console(board, pack::image(&model)?.len() as u64)
    } else {
        sizes.with_story(stack_of_story(&firmware)?)
    };
    let total = |memory: &str| -> u64 {
        let of_memory = parts.iter().filter(|part| part.0 == memory);
        of_memory.map(|part| part.2).sum()
    };
    if args.json {
        let object = |memory: &str| -> Map<String, Value> {
            let of_memory = parts.iter().filter(|part| part.0 == memory);
            let named = of_memory.map(|&(_, name, bytes)| (name.to_owned(), bytes.into()));
            let total = ("total".to_owned(), total(memory).into());
            named.chain([total]).collect()
        };
        let (flash, ram) = (object("flash"), object("RAM"));
        let object = json!({"board": board.name, "flash": flash, "ram": ram});
        println!("{object:#}");
        return Ok(ExitCode::SUCCESS);
    }
    println!("{}", board.name);
    for memory in ["flash", "RAM"] {
        let of_memory = parts.iter().filter(|part| part.0 == memory);
        for (_, name, bytes) in of_memory.chain([&(memory, "total", total(memory))]) {
            println!("{memory:<6} {name:<12} {bytes:>10}");
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// How deep the stack of a story gets, which is known only when it has run.
fn stack_of_story(firmware: &Firmware) -> Result<u64> {
    let output = firmware.output(None, &["-n", "16"])?;
    let stack = output
        .rsplit_once("stack: ")
        .and_then(|(_, rest)| rest.split(' ').next());
    Ok(stack.context("no line about the stack")?.parse()?)
}

/// A memory, what is in it, and its bytes.
type Part = (&'static str, &'static str, u64);

impl Sizes {
    /// Bytes of RAM without the stack.
    pub(super) const fn ram(&self) -> u64 {
        self.kv + self.activations + self.other + self.stage
    }

    /// The parts of a firmware that tells one story with a stack of so many bytes.
    fn with_story(&self, stack: u64) -> Vec<Part> {
        vec![
            ("flash", "code", self.code),
            ("flash", "model", self.model),
            ("RAM", "kv", self.kv),
            ("RAM", "activations", self.activations),
            ("RAM", "other", self.other),
            ("RAM", "stack", stack),
        ]
    }

    /// The parts of a console, beside which there is a model's image of so many bytes in flash. Its
    /// memory for a session is all that the board has beside the bytes that it leaves for the stack.
    fn with_console(&self, board: Board, image: u64) -> Vec<Part> {
        let stage = (self.stage > 0).then_some(("RAM", "model", self.stage));
        let parts = [
            ("flash", "code", self.code),
            ("flash", "model", image),
            ("RAM", "session", self.activations),
            ("RAM", "other", self.other),
            ("RAM", "stack", board.row.memory.stack_bytes),
        ];
        parts.into_iter().chain(stage).collect()
    }

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
            } else if name.contains("SMIDGEN_STAGE") {
                sizes.stage += symbol.size();
            } else if name.contains("SMIDGEN_LAYERS") {
                sizes.layers += symbol.size();
            }
        }
        let named = sizes.kv + sizes.activations + sizes.stage;
        sizes.other = sizes
            .other
            .checked_sub(named)
            .context("buffers outside .bss")?;
        Ok(sizes)
    }
}
