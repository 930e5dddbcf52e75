//! Smidgen on the BBC micro:bit v1.
#![no_std]

use smidgen_firmware::{CortexM, Program};

/// The linked model and its memory.
mod model {
    include!(concat!(env!("OUT_DIR"), "/model.rs"));
}

/// 62.5 ns at 16 MHz; under QEMU an instruction takes one.
const INSTRUCTIONS_IN_100_TICKS: u64 = 6_250;

/// Runs a program and exits with its status.
pub fn start(program: Program<CortexM>) -> ! {
    CortexM::start(
        INSTRUCTIONS_IN_100_TICKS,
        &model::LINKED,
        model::memory,
        program,
    )
}
