//! A board whose console is a debugger, or QEMU.

use core::mem::MaybeUninit;

use smidgen_firmware::{Board, Counter, Semihosted, Stack};

use crate::{instructions, paint_stack, stack, start_counter};

/// A 64-bit ARM chip whose console is a debugger, or QEMU.
#[derive(Debug)]
pub struct AArch64 {
    console: Semihosted,
}

impl AArch64 {
    /// Paints the stack and starts the counter. `None` if no debugger answers.
    #[must_use]
    pub fn new() -> Option<Self> {
        start_counter();
        paint_stack();
        Some(Self {
            console: Semihosted::new()?,
        })
    }
}

impl Board for AArch64 {
    type Console = Semihosted;

    fn console(&mut self) -> &mut Semihosted {
        &mut self.console
    }

    fn stack(&self) -> Stack {
        stack()
    }

    fn command_line(&mut self, buffer: &'static mut [MaybeUninit<u8>]) -> &'static [u8] {
        self.console.command_line(buffer)
    }
}

impl Counter for AArch64 {
    fn instructions(&mut self) -> u64 {
        instructions()
    }
}
