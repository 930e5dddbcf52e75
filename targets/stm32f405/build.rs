//! The memory map, and the model where it is linked in.

use std::env;

/// Of the largest model.
const LAYERS: usize = 16;

fn main() {
    let has = |feature: &str| env::var_os(format!("CARGO_FEATURE_{feature}")).is_some();
    let board = linked_model::board("stm32f405");
    if has("SEMIHOSTING") {
        linked_model::link(board);
        linked_model::no_interrupts();
    }
    if has("CONSOLE") {
        linked_model::flashed_apart(board, LAYERS, 0);
    }
    if has("RTT") {
        println!("cargo::rustc-link-arg-bins=-Tdefmt.x");
    }
    linked_model::cortex_m_memory(board);
}
