//! The programs that end, with their words by semihosting.

use smidgen_aarch64::AArch64;
use smidgen_firmware::Program;

/// The linked model and its memory.
mod model {
    include!(concat!(env!("OUT_DIR"), "/model.rs"));
}

/// Runs a program and exits with its status.
pub fn start(program: Program<AArch64>) -> ! {
    let status = match AArch64::new() {
        Some(mut board) => {
            let memory = model::memory();
            smidgen_firmware::run(&mut board, &model::LINKED, memory, program)
        }
        None => 2,
    };
    smidgen_firmware::exit(status)
}
