//! Smidgen on QEMU's board virt.
#![no_std]

use aarch64_rt::{
    DEFAULT_MAIR, DEFAULT_SCTLR, DEFAULT_TCR, ExceptionHandlers, InitialPagetable,
    exception_handlers, initial_pagetable,
};
use smidgen_aarch64::AArch64;
use smidgen_aarch64::page::{BLOCK, CACHED, UXN};
use smidgen_firmware::Program;

/// The linked model and its memory.
mod model {
    include!(concat!(env!("OUT_DIR"), "/model.rs"));
}

/// SCTLR_EL1.A: an access that is not aligned to its size faults.
const ALIGNMENT_CHECK: u64 = if cfg!(feature = "alignment-faults") {
    1 << 1
} else {
    0
};

initial_pagetable!(
    {
        let mut table = [0; 512];
        // The first GiB has the devices, the second the RAM.
        table[0] = BLOCK | UXN;
        table[1] = BLOCK | CACHED | 0x4000_0000;
        InitialPagetable(table)
    },
    DEFAULT_MAIR,
    DEFAULT_SCTLR | ALIGNMENT_CHECK,
    DEFAULT_TCR
);

exception_handlers!(Exceptions);

struct Exceptions;

/// An exception is a panic: nothing here asks for one.
impl ExceptionHandlers for Exceptions {}

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
