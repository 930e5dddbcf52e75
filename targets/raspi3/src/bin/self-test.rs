//! Looks whether this chip computes as it should.
#![no_std]
#![no_main]

aarch64_rt::entry!(main, 16);
fn main(_: u64, _: u64, _: u64, _: u64) -> ! {
    raspi3::start(smidgen_firmware::self_test)
}
