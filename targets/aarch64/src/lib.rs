//! What 64-bit ARM boards share that start with aarch64-rt.
#![no_std]

mod counter;
pub mod page;
#[cfg(feature = "semihosting")]
mod semihosted;
mod stack;

pub use counter::{instructions, start_counter};
#[cfg(feature = "semihosting")]
pub use semihosted::AArch64;
pub use stack::{paint_stack, stack};
