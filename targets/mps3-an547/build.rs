//! The memory map, and the model.

/// What must be left for the stack.
const STACK: usize = 16 << 10;

/// Data in the SRAM at 0x31000000, secure alias.
const RAM: usize = 4 << 20;

fn main() {
    linked_model::link(RAM, STACK);
    linked_model::cortex_m_memory(&[
        // The instruction TCM, where the core starts.
        ("FLASH", 0, 512 << 10),
        // The SRAM for code, secure alias.
        ("MODEL", 0x1100_0000, 2 << 20),
        ("RAM", 0x3100_0000, RAM),
    ]);
}
