//! Smidgen on the Raspberry Pi Pico 2.
#![no_std]

mod clock;
#[cfg(feature = "console")]
mod console;
mod image_def;
#[cfg(feature = "semihosting")]
mod semihosted;
#[cfg(feature = "console")]
mod uart;

#[cfg(feature = "console")]
pub use console::console;
#[cfg(feature = "semihosting")]
pub use semihosted::start;
