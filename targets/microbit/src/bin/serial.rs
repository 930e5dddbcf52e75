//! Tells a story on the serial port.
#![no_std]
#![no_main]

#[cortex_m_rt::entry]
fn main() -> ! {
    microbit::serial()
}
