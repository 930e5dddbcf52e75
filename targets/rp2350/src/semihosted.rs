//! The programs that end, with their words by semihosting.

use smidgen_firmware::{CortexM, Program};

use crate::clock;

/// The linked model and its memory.
mod model {
    include!(concat!(env!("OUT_DIR"), "/model.rs"));
}

/// Here cycles are counted.
const INSTRUCTIONS_IN_100_TICKS: u64 = 100;

/// Runs a program and exits with its status.
pub fn start(program: Program<CortexM>) -> ! {
    clock::start();
    CortexM::start(
        INSTRUCTIONS_IN_100_TICKS,
        &model::LINKED,
        model::memory,
        program,
    )
}
