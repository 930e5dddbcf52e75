//! Lists what a GGUF file holds, with `smidgen-core` alone: its metadata and its tensors.
//!
//! `cargo run -p smidgen-examples --example metadata -- [MODEL.gguf]`

use std::error::Error;
use std::fmt::Write;
use std::process::ExitCode;

use smidgen_core::gguf::{Array, Gguf, Value, keys};

const MODEL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/models/smidgen-260k-Q8_0.gguf");

/// All that a file holds, in lines.
fn list(file: &[u8]) -> Result<String, Box<dyn Error>> {
    // With scratch, checking takes linear time; `parse_small` goes without, for small files.
    let mut scratch = vec![0; Gguf::scratch_len(file)];
    let gguf = Gguf::parse(file, &mut scratch)?;

    // Who knows the key and its type asks for both. A key that is not there is no error.
    let mut text = String::new();
    let architecture = gguf.get_str(keys::GENERAL_ARCHITECTURE)?;
    let context = gguf.get_u32(keys::LLAMA_CONTEXT_LENGTH)?;
    writeln!(text, "architecture: {}", architecture.unwrap_or("not told"))?;
    if let Some(context) = context {
        writeln!(text, "context: {context} tokens")?;
    }

    writeln!(text, "\n{} keys", gguf.metadata_count())?;
    for entry in gguf.metadata() {
        writeln!(text, "  {} = {}", entry.key(), show(entry.value))?;
    }

    writeln!(text, "\n{} tensors", gguf.tensor_count())?;
    for tensor in gguf.tensors() {
        // Its numbers, where they lie in the file.
        let bytes = gguf.data(&tensor).unwrap_or_default();
        let (name, ty) = (tensor.name(), tensor.ty());
        writeln!(
            text,
            "  {name} {ty} {:?}, {} bytes",
            tensor.dims(),
            bytes.len()
        )?;
    }
    Ok(text)
}

fn show(value: Value<'_>) -> String {
    match value {
        Value::Array(array) => show_array(array),
        Value::F32(x) => x.to_string(),
        Value::F64(x) => x.to_string(),
        Value::Bool(x) => x.to_string(),
        // Strings of a file may be any bytes.
        Value::String(bytes) => format!("{:?}", String::from_utf8_lossy(bytes)),
        integer => integer
            .as_integer()
            .map_or_else(String::new, |n| n.to_string()),
    }
}

/// The first elements of an array. It stays in the file: elements are read one by one.
fn show_array(array: Array<'_>) -> String {
    let first: Vec<_> = array.iter().take(4).map(show).collect();
    let more = if array.len() > 4 { ", …" } else { "" };
    let (len, ty) = (array.len(), array.element_type());
    format!("{len} of {ty}: [{}{more}]", first.join(", "))
}

fn main() -> ExitCode {
    let path = std::env::args().nth(1).unwrap_or_else(|| MODEL.to_owned());
    let file = std::fs::read(&path).map_err(Box::from);
    match file.and_then(|file| list(&file)) {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("metadata: {path}: {error}");
            ExitCode::FAILURE
        }
    }
}
