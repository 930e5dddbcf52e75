//! Smidgen on Arm's MPS2 boards.
#![no_std]

use smidgen_firmware::{CortexM, Program};

/// The linked model and its memory.
mod model {
    include!(concat!(env!("OUT_DIR"), "/model.rs"));
}

/// 40 ns at 25 MHz, 50 ns at 20 MHz; under QEMU an instruction takes one.
const INSTRUCTIONS_IN_100_TICKS: u64 = if cfg!(feature = "an505") {
    5_000
} else {
    4_000
};

/// Runs a program and exits with its status.
pub fn start(program: Program<CortexM>) -> ! {
    CortexM::start(
        INSTRUCTIONS_IN_100_TICKS,
        &model::LINKED,
        model::memory,
        program,
    )
}
