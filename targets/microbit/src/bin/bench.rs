//! Counts the instructions of a step.
#![no_std]
#![no_main]

#[cortex_m_rt::entry]
fn main() -> ! {
    microbit::start(smidgen_firmware::bench)
}
