//! The memory map, and the model.

use std::env;

/// What must be left for the stack.
const STACK: usize = 16 << 10;

/// Each of the two memories, for code and for data.
const BYTES: usize = 4 << 20;

fn main() {
    let has = |image: &str| env::var_os(format!("CARGO_FEATURE_{image}")).is_some();
    let (code, ram) = match (has("AN386"), has("AN500"), has("AN505")) {
        (true, false, false) | (false, true, false) => (0, 0x2000_0000),
        // The secure aliases.
        (false, false, true) => (0x1000_0000, 0x3800_0000),
        _ => {
            println!("cargo::error=take one of the features an386, an500, an505");
            return;
        }
    };
    linked_model::link(BYTES, STACK);
    linked_model::cortex_m_memory(&[("FLASH", code, BYTES), ("RAM", ram, BYTES)]);
}
