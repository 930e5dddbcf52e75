//! The stack of aarch64-rt.

use core::arch::asm;

use smidgen_console::{PAINT, Stack};

unsafe extern "C" {
    static mut boot_stack_begin: u32;
    static boot_stack_end: u32;
}

/// The stack.
#[must_use]
pub fn stack() -> Stack {
    // SAFETY: the symbols of aarch64-rt's linker script bound the stack.
    unsafe { Stack::new(&raw const boot_stack_begin, &raw const boot_stack_end) }
}

/// Fills what is free of the stack. To be called once, near the start.
pub fn paint_stack() {
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
    }
}
