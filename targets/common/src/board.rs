//! What a program needs from the chip.

use core::mem::MaybeUninit;

use embedded_io::Write;

use crate::Stack;

/// A chip with a console and a painted stack.
pub trait Board {
    /// Where text goes.
    type Console: Write;

    /// The console.
    fn console(&mut self) -> &mut Self::Console;

    /// The stack.
    fn stack(&self) -> Stack;

    /// The words that the program was started with, which are written to `buffer`; empty where there
    /// is no one to give any.
    fn command_line(&mut self, buffer: &'static mut [MaybeUninit<u8>]) -> &'static [u8];
}

/// A chip that counts its instructions.
pub trait Counter: Board {
    /// Instructions that have been executed since some moment. Where the counter is coarser than
    /// one instruction, or something else is counted on the real chip, so is this.
    fn instructions(&mut self) -> u64;
}
