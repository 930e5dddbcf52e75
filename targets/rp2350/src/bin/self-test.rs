//! Looks whether this chip computes as it should.
#![no_std]
#![no_main]

#[cortex_m_rt::entry]
fn main() -> ! {
    rp2350::start(smidgen_firmware::self_test)
}
