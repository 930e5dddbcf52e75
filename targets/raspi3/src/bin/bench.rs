//! Counts the instructions of a step.
#![no_std]
#![no_main]

aarch64_rt::entry!(main, 16);
fn main(_: u64, _: u64, _: u64, _: u64) -> ! {
    raspi3::start(smidgen_firmware::bench)
}
