//! The cycle counter of the performance monitor.

use core::arch::asm;

/// Starts it: under QEMU's `-icount shift=0` it counts instructions.
pub fn start_counter() {
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
}

/// Instructions, or cycles on a real chip, since the counter was started.
#[must_use]
pub fn instructions() -> u64 {
    let cycles;
    // SAFETY: reads a counter.
    unsafe { asm!("isb", "mrs {}, pmccntr_el0", out(reg) cycles, options(nostack)) };
    cycles
}
