//! UART0 to the interface chip, which is a serial port on USB: 115,200 baud, words go out only.

use core::convert::Infallible;

use embedded_io::{ErrorType, Write};
use nrf51_pac::{CLOCK, GPIO, UART0};

/// P0.24 of the board's schematic: to the interface chip.
const TXD: u8 = 24;

/// The port. The sender waits.
pub(crate) struct Uart(UART0);

impl Uart {
    /// Starts the crystal, without which the bits have no exact length, and the port.
    pub(crate) fn new(uart: UART0, pins: &GPIO, clock: &CLOCK) -> Self {
        clock.events_hfclkstarted.reset();
        // SAFETY: tasks are started by writing 1.
        clock.tasks_hfclkstart.write(|w| unsafe { w.bits(1) });
        while clock.events_hfclkstarted.read().bits() == 0 {}
        // The line is high when idle.
        // SAFETY: a mask of pins.
        pins.outset.write(|w| unsafe { w.bits(1 << TXD) });
        pins.pin_cnf[usize::from(TXD)].write(|w| w.dir().output());
        // SAFETY: the number of a pin.
        uart.pseltxd.write(|w| unsafe { w.bits(TXD.into()) });
        uart.baudrate.write(|w| w.baudrate().baud115200());
        uart.enable.write(|w| w.enable().enabled());
        // SAFETY: as above.
        uart.tasks_starttx.write(|w| unsafe { w.bits(1) });
        Self(uart)
    }

    fn send(&self, byte: u8) {
        self.0.events_txdrdy.reset();
        // SAFETY: any byte.
        self.0.txd.write(|w| unsafe { w.bits(byte.into()) });
        while self.0.events_txdrdy.read().bits() == 0 {}
    }
}

impl ErrorType for Uart {
    type Error = Infallible;
}

impl Write for Uart {
    /// LF becomes CR LF, as terminals want it.
    fn write(&mut self, bytes: &[u8]) -> Result<usize, Infallible> {
        for &byte in bytes {
            if byte == b'\n' {
                self.send(b'\r');
            }
            self.send(byte);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> Result<(), Infallible> {
        Ok(())
    }
}
