//! The programs that end, with their words by semihosting.

use smidgen_firmware::{CortexM, Program, painted_stack};

/// The linked model and its memory.
mod model {
    include!(concat!(env!("OUT_DIR"), "/model.rs"));
}

/// Here cycles are counted.
const INSTRUCTIONS_IN_100_TICKS: u64 = 100;

/// Runs a program and exits with its status.
pub fn start(program: Program<CortexM>) -> ! {
    let status = match CortexM::new(painted_stack(), INSTRUCTIONS_IN_100_TICKS) {
        Some(mut board) => {
            let memory = model::memory();
            smidgen_firmware::run(&mut board, &model::LINKED, memory, program)
        }
        None => 2,
    };
    smidgen_firmware::exit(status)
}
