//! The memory map, and the model where it is linked in.

use std::env;

/// Of the largest model.
const LAYERS: usize = 64;

fn main() {
    let has = |feature: &str| env::var_os(format!("CARGO_FEATURE_{feature}")).is_some();
    let board = linked_model::board("raspi3");
    if has("SEMIHOSTING") {
        linked_model::link(board);
    }
    if has("CONSOLE") {
        linked_model::flashed_apart(board, LAYERS, 0);
    }
    let (code, model) = (board.memory.code, board.memory.model);
    linked_model::script(
        "memory.x",
        &format!(
            "MEMORY\n{{\n  image : ORIGIN = {:#x}, LENGTH = {:#x}\n  \
             model : ORIGIN = {:#x}, LENGTH = {:#x}\n}}\n",
            code.origin, code.len, model.origin, model.len
        ),
    );
    // Where the boot loader jumps to.
    linked_model::script(
        "boot.x",
        "ENTRY(boot)\nSECTIONS { .boot : { KEEP(*(.boot)) } > image }\nINSERT BEFORE .init;\n",
    );
    linked_model::place_model("model");
    for script in ["boot.x", "image.ld", "memory.x"] {
        println!("cargo::rustc-link-arg-bins=-T{script}");
    }
}
