//! From the boot loader to aarch64-rt.

use core::arch::global_asm;

use aarch64_rt::{
    DEFAULT_MAIR, DEFAULT_SCTLR, DEFAULT_TCR, ExceptionHandlers, InitialPagetable,
    exception_handlers, initial_pagetable,
};
use smidgen_aarch64::page::{BLOCK, CACHED, UXN};

// All four cores may come here, at EL2. One goes on, at EL1; the others sleep.
global_asm!(
    ".section .boot, \"ax\"",
    ".global boot",
    "boot:",
    "mrs x9, mpidr_el1",
    "tst x9, #3",
    "b.ne 3f",
    "mrs x9, CurrentEL",
    "cmp x9, #(2 << 2)",
    "b.lo 2f",
    "b.eq 1f",
    // EL3, where QEMU starts an ELF file: EL2 and EL1 are 64-bit and not secure.
    "mov x9, #0x5b1",
    "msr scr_el3, x9",
    "msr cptr_el3, xzr",
    "msr mdcr_el3, xzr",
    "mov x9, #0x3c9",
    "msr spsr_el3, x9",
    "adr x9, 1f",
    "msr elr_el3, x9",
    "eret",
    // EL2: EL1 is 64-bit, and nothing of what it does comes back here.
    "1:",
    "mov x9, #(1 << 31)",
    "msr hcr_el2, x9",
    "mov x9, #0x33ff",
    "msr cptr_el2, x9",
    "msr hstr_el2, xzr",
    // All counters of the performance monitor are EL1's.
    "mrs x9, pmcr_el0",
    "ubfx x9, x9, #11, #5",
    "msr mdcr_el2, x9",
    "mov x9, #3",
    "msr cnthctl_el2, x9",
    "msr cntvoff_el2, xzr",
    // Little-endian, MMU and caches off.
    "mov x9, #0x0800",
    "movk x9, #0x30d0, lsl #16",
    "msr sctlr_el1, x9",
    "mov x9, #0x3c5",
    "msr spsr_el2, x9",
    "adr x9, 2f",
    "msr elr_el2, x9",
    "eret",
    "2:",
    "b entry",
    "3:",
    "wfe",
    "b 3b",
);

/// Where the devices begin, above the RAM.
const DEVICES: usize = 0x3f00_0000;

/// A block of the second level.
const MIB_2: usize = 2 << 20;

/// Addresses have 30 bits: the walk then begins at the second level, so that one table has all.
const TCR: u64 = DEFAULT_TCR & !0x3f | (64 - 30);

initial_pagetable!(
    {
        let mut table = [0; 512];
        let mut at = 0;
        while at < 512 {
            let address = at * MIB_2;
            let kind = if address < DEVICES { CACHED } else { UXN };
            table[at] = BLOCK | kind | address;
            at += 1;
        }
        InitialPagetable(table)
    },
    DEFAULT_MAIR,
    DEFAULT_SCTLR,
    TCR
);

exception_handlers!(Exceptions);

struct Exceptions;

/// An exception is a panic: nothing here asks for one.
impl ExceptionHandlers for Exceptions {}
