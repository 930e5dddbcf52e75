//! Counts the instructions of a step.
#![no_std]
#![no_main]

#[cortex_m_rt::entry]
fn main() -> ! {
    stm32f405::start(smidgen_firmware::bench)
}
