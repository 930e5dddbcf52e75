//! Continues what is typed as a story.
#![no_std]
#![no_main]

#[cortex_m_rt::entry]
fn main() -> ! {
    rp2350::console()
}
