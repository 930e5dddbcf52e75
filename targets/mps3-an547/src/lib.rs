//! Smidgen on Arm's MPS3 board with image AN547, a Cortex-M55.
#![no_std]

use smidgen_firmware::{CortexM, Program};

/// The linked model and its memory.
mod model {
    include!(concat!(env!("OUT_DIR"), "/model.rs"));
}

/// 31.25 ns at 32 MHz; under QEMU an instruction takes one.
const INSTRUCTIONS_IN_100_TICKS: u64 = 3_125;

/// Runs a program and exits with its status.
pub fn start(program: Program<CortexM>) -> ! {
    CortexM::start(
        INSTRUCTIONS_IN_100_TICKS,
        &model::LINKED,
        model::memory,
        program,
    )
}
