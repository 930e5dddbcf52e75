//! Smidgen on QEMU's board virt.
#![no_std]

use core::arch::asm;
use core::mem::MaybeUninit;

use aarch64_rt::{
    DEFAULT_MAIR, DEFAULT_SCTLR, DEFAULT_TCR, ExceptionHandlers, InitialPagetable,
    exception_handlers, initial_pagetable,
};
use smidgen_firmware::{Board, PAINT, Program, Semihosted, Stack};

/// The linked model and its memory.
mod model {
    include!(concat!(env!("OUT_DIR"), "/model.rs"));
}

/// Descriptors of the first table: a valid block that was accessed.
const BLOCK: usize = 1 | 1 << 10;
/// Never executed by lower levels: for devices.
const UXN: usize = 1 << 54;
/// Memory that is cached, `DEFAULT_MAIR`'s second kind, and shared with the other cores.
const CACHED: usize = 1 << 2 | 3 << 8;

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

/// The board.
#[derive(Debug)]
pub struct Virt {
    console: Semihosted,
    stack: Stack,
}

impl Virt {
    /// Paints the stack and starts the cycle counter, which under `-icount shift=0` counts
    /// instructions. `None` if QEMU does not answer.
    fn new() -> Option<Self> {
        // SAFETY: the registers of the performance monitor have no effect on memory.
        unsafe {
            asm!(
                "msr pmccfiltr_el0, xzr",
                "msr pmcr_el0, {control}",
                "msr pmcntenset_el0, {cycles}",
                "isb",
                // Enable, reset the cycle counter, all 64 bits of it.
                control = in(reg) 0x45_u64,
                cycles = in(reg) 1_u64 << 31,
                options(nomem, nostack),
            );
        }
        Some(Self {
            stack: paint_stack(),
            console: Semihosted::new()?,
        })
    }
}

/// Fills what is free of the stack.
fn paint_stack() -> Stack {
    unsafe extern "C" {
        static mut boot_stack_begin: u32;
        static boot_stack_end: u32;
    }
    let lowest = &raw mut boot_stack_begin;
    let pointer: *mut u32;
    // SAFETY: the symbols of aarch64-rt's linker script bound the stack, and what is below the
    // stack pointer belongs to no one: this function calls no other while it writes.
    unsafe {
        asm!("mov {}, sp", out(reg) pointer, options(nomem, nostack, preserves_flags));
        let mut at = lowest;
        while at < pointer {
            at.write_volatile(PAINT);
            at = at.add(1);
        }
        Stack::new(lowest, &raw const boot_stack_end)
    }
}

impl Board for Virt {
    type Console = Semihosted;

    fn console(&mut self) -> &mut Semihosted {
        &mut self.console
    }

    fn instructions(&mut self) -> u64 {
        let cycles;
        // SAFETY: reads a counter.
        unsafe { asm!("isb", "mrs {}, pmccntr_el0", out(reg) cycles, options(nostack)) };
        cycles
    }

    fn stack(&self) -> Stack {
        self.stack
    }

    fn command_line(&mut self, buffer: &'static mut [MaybeUninit<u8>]) -> &'static [u8] {
        self.console.command_line(buffer)
    }
}

/// Runs a program and exits with its status.
pub fn start(program: Program<Virt>) -> ! {
    let status = match Virt::new() {
        Some(mut board) => {
            let memory = model::memory();
            smidgen_firmware::run(&mut board, &model::LINKED, memory, program)
        }
        None => 2,
    };
    smidgen_firmware::exit(status)
}
