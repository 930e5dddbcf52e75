//! Smidgen on the BBC micro:bit v1.
#![no_std]

#[cfg(feature = "semihosting")]
mod semihosted;
#[cfg(feature = "serial")]
mod serial;
#[cfg(feature = "serial")]
mod uart;

/// The linked model and its memory.
mod model {
    include!(concat!(env!("OUT_DIR"), "/model.rs"));
}

#[cfg(feature = "semihosting")]
pub use semihosted::start;
#[cfg(feature = "serial")]
pub use serial::serial;
