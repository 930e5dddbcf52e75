//! Smidgen on Raspberry Pi 3 and Zero 2 W.
#![no_std]

mod boot;
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
