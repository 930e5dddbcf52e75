//! The memory map, and the model where it is linked in.

use std::env;

/// What must be left for the stack.
const STACK: usize = 10 << 10;

/// At 0x20000000. The 64 KiB of CCM at 0x10000000 are left alone.
const RAM: usize = 128 << 10;

/// All sectors.
const FLASH: usize = 1 << 20;

/// The console's code has the four sectors of 16 KiB, the model all that come behind.
const CODE: usize = 64 << 10;

fn main() {
    let has = |feature: &str| env::var_os(format!("CARGO_FEATURE_{feature}")).is_some();
    let flash = if has("SEMIHOSTING") {
        linked_model::link(RAM, STACK);
        FLASH
    } else {
        CODE
    };
    if has("RTT") {
        println!("cargo::rustc-link-arg-bins=-Tdefmt.x");
    }
    linked_model::cortex_m_memory(&[("FLASH", 0x0800_0000, flash), ("RAM", 0x2000_0000, RAM)]);
}
