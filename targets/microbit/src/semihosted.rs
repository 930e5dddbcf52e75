//! The programs that talk to a debugger, or QEMU.

use smidgen_firmware::{CortexM, Program};

use crate::model;

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
