//! The memory map, and the model where it is linked in.

use std::env;

/// Of the largest model.
const LAYERS: usize = 16;

/// RAM for a copy of the model's image.
const STAGE: u64 = 336 << 10;

fn main() {
    let has = |feature: &str| env::var_os(format!("CARGO_FEATURE_{feature}")).is_some();
    let board = linked_model::board("rp2350");
    if has("SEMIHOSTING") {
        linked_model::link(board);
    }
    if has("CONSOLE") {
        let stage = if has("STAGED") { STAGE } else { 0 };
        linked_model::flashed_apart(board, LAYERS, stage);
        linked_model::write("stage.rs", &format!("const STAGE: usize = {STAGE};\n"));
    }
    if has("RTT") {
        println!("cargo::rustc-link-arg-bins=-Tdefmt.x");
    }
    // The boot ROM looks for it in the first 4 KiB.
    linked_model::script(
        "start_block.x",
        "SECTIONS { .start_block : ALIGN(4) { KEEP(*(.start_block)); } > FLASH }\n\
         INSERT AFTER .vector_table;\n\
         _stext = ADDR(.start_block) + SIZEOF(.start_block);\n",
    );
    println!("cargo::rustc-link-arg-bins=-Tstart_block.x");
    linked_model::cortex_m_memory(board);
}
