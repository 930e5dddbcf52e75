//! Smidgen on the BBC micro:bit v2.
#![no_std]

#[cfg(feature = "console")]
mod console;
#[cfg(feature = "semihosting")]
mod semihosted;
#[cfg(feature = "console")]
mod uart;

#[cfg(feature = "console")]
pub use console::console;
#[cfg(feature = "semihosting")]
pub use semihosted::start;
