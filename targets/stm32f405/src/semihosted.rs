//! The programs that end, with their words by semihosting.

use smidgen_firmware::{CortexM, Program};

/// The linked model and its memory.
mod model {
    include!(concat!(env!("OUT_DIR"), "/model.rs"));
}

/// 5.95 ns at 168 MHz; under QEMU an instruction takes one.
const INSTRUCTIONS_IN_100_TICKS: u64 = 595;

/// Runs a program and exits with its status.
pub fn start(program: Program<CortexM>) -> ! {
    CortexM::start(
        INSTRUCTIONS_IN_100_TICKS,
        &model::LINKED,
        model::memory,
        program,
    )
}
