//! Tells a story.
#![no_std]
#![no_main]

#[cortex_m_rt::entry]
fn main() -> ! {
    mps2::start(smidgen_firmware::story)
}
