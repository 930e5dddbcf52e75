//! From a llama2.c checkpoint to a small GGUF, as `smidgen convert` and `smidgen quantize` do it,
//! with the library crates and without a file in between.
//!
//! `cargo run -p smidgen-examples --example convert_and_quantize -- OUT.gguf [TYPE [CHECKPOINT.bin
//! TOKENIZER.bin]]`

use std::error::Error;
use std::process::ExitCode;

use smidgen_core::gguf::Gguf;
use smidgen_io::{FileBytes, Overwrite};
use smidgen_llama2c::{Checkpoint, Vocabulary, convert};
use smidgen_quantize::{FileType, quantize};

const CHECKPOINT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/models/smidgen-260k.bin");
const TOKENIZER: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/models/smidgen-260k-tokenizer.bin"
);

fn make() -> Result<String, Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let usage = "usage: convert_and_quantize OUT.gguf [TYPE [CHECKPOINT.bin TOKENIZER.bin]]";
    let out = args.next().ok_or(usage)?;
    let ty = args.next().unwrap_or_else(|| "Q4_0".to_owned());
    let checkpoint = args.next().unwrap_or_else(|| CHECKPOINT.to_owned());
    let tokenizer = args.next().unwrap_or_else(|| TOKENIZER.to_owned());
    let ty = FileType::from_name(&ty).ok_or_else(|| {
        let names: Vec<_> = FileType::all().map(FileType::name).collect();
        format!("no type {ty}; there are {}", names.join(", "))
    })?;

    // Both files are mapped and looked through, not copied. What does not look right, but is no
    // error, is told as a warning.
    let checkpoint = FileBytes::open(checkpoint)?;
    let checkpoint = Checkpoint::parse(&checkpoint)?;
    let tokenizer = FileBytes::open(tokenizer)?;
    let vocabulary = Vocabulary::read(&tokenizer, checkpoint.config().vocab_size())?;
    let options = smidgen_llama2c::Options {
        name: Some("A small model".to_owned()),
        ..smidgen_llama2c::Options::default()
    };
    let mut conversion = convert(&checkpoint, &vocabulary, &options)?;
    for warning in conversion.warnings() {
        eprintln!("convert_and_quantize: {warning}");
    }
    let mut f32s = Vec::new();
    let before = conversion.write_to(&mut f32s)?;

    // `quantize` decides what becomes of each tensor; the numbers are encoded while they are
    // written. The file appears whole or not at all; `Overwrite::Refuse` would keep one that is there.
    let gguf = Gguf::parse(&f32s, &mut vec![0; Gguf::scratch_len(&f32s)])?;
    let options = smidgen_quantize::Options::new(ty);
    let mut quantization = quantize(&[gguf], &options)?;
    quantization.write_file(&out, Overwrite::Replace)?;
    let after = quantization.file_len()?;
    let kept = quantization.tensors().iter();
    let kept = kept.filter(|tensor| tensor.from == tensor.to).count();
    Ok(format!(
        "{out}: {before} bytes became {after}, {kept} of {} tensors kept their type",
        quantization.tensors().len()
    ))
}

fn main() -> ExitCode {
    match make() {
        Ok(words) => {
            println!("{words}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("convert_and_quantize: {error}");
            ExitCode::FAILURE
        }
    }
}
