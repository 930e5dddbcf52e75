//! Counts the instructions of a step.
#![no_std]
#![no_main]

#[cortex_m_rt::entry]
fn main() -> ! {
    rp2350::start(smidgen_firmware::bench)
}
