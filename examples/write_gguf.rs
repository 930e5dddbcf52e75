//! Writes a small GGUF file: metadata of several types, a tensor of floats, one of `Q8_0` blocks.
//!
//! `cargo run -p smidgen-examples --example write_gguf -- OUT.gguf`

use std::error::Error;

use smidgen_core::gguf::GgmlType;
use smidgen_io::{GgufBuilder, Overwrite, OwnedValue};

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args_os()
        .nth(1)
        .ok_or("usage: write_gguf OUT.gguf")?;

    let mut gguf = GgufBuilder::new();
    gguf.set("general.architecture", "example");
    gguf.set("general.name", "A small example");
    gguf.set("general.quantization_version", 2_u32);
    gguf.set("example.block_count", 1_u32);
    gguf.set("example.epsilon", 1e-5_f32);
    let tokens = ["<unk>", "<s>", "</s>", "once", "upon", "a", "time"];
    gguf.set("tokenizer.ggml.tokens", OwnedValue::strings(tokens));

    // Dimensions have the row length first: 16 rows of 64.
    let floats = (0..16 * 64).flat_map(|n: u16| (f32::from(n) / 1024.0).to_le_bytes());
    let floats: Vec<u8> = floats.collect();
    gguf.tensor("token_embd.weight", &[64, 16], GgmlType::F32, floats)?;

    // A block holds 32 numbers: a scale as f16, then 32 quants of a byte. Here 1.0 and 0 to 31.
    let scale = [0x00, 0x3c];
    let block = scale.into_iter().chain(0..32);
    let blocks: Vec<u8> = block.cycle().take(8 * 34).collect();
    gguf.tensor("blk.0.ffn_up.weight", &[64, 4], GgmlType::Q8_0, blocks)?;

    gguf.write_file(&path, Overwrite::Replace)?;
    Ok(())
}
