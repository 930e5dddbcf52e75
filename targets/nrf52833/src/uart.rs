//! UART0 to the interface chip, which is a serial port on USB: 115,200 baud.

use core::convert::Infallible;

use cortex_m::peripheral::NVIC;
use embedded_io::{ErrorType, Read, ReadReady, Write};
use nrf52833_pac::{Interrupt, P0, UART0, interrupt};
use smidgen_console::ByteQueue;

/// What has been received. The handler of the interrupt writes, the console reads.
static RECEIVED: ByteQueue<256> = ByteQueue::new();

/// P0.06 of the board's schematic: to the interface chip.
const TXD: u8 = 6;

/// P1.08: from there.
const RXD: u8 = 8;

/// The port. Bytes are received by interrupt, and sent while the sender waits.
pub(crate) struct Uart(UART0);

impl Uart {
    pub(crate) fn new(uart: UART0, pins: &P0) -> Self {
        // The line is high when idle.
        // SAFETY: a mask of pins.
        pins.outset.write(|w| unsafe { w.bits(1 << TXD) });
        pins.pin_cnf[usize::from(TXD)].write(|w| w.dir().output());
        // SAFETY: numbers of pins.
        uart.psel
            .txd
            .write(|w| unsafe { w.pin().bits(TXD).port().clear_bit().connect().connected() });
        // SAFETY: as above.
        uart.psel
            .rxd
            .write(|w| unsafe { w.pin().bits(RXD).port().set_bit().connect().connected() });
        uart.baudrate.write(|w| w.baudrate().baud115200());
        uart.enable.write(|w| w.enable().enabled());
        uart.intenset
            .write(|w| w.rxdrdy().set_bit().error().set_bit());
        // SAFETY: tasks are started by writing 1.
        uart.tasks_startrx.write(|w| unsafe { w.bits(1) });
        // SAFETY: as above.
        uart.tasks_starttx.write(|w| unsafe { w.bits(1) });
        // SAFETY: no critical section is open: the program has just started.
        unsafe { NVIC::unmask(Interrupt::UARTE0_UART0) };
        Self(uart)
    }

    /// The port, whoever has it: for a program that has failed.
    pub(crate) fn steal() -> Self {
        // SAFETY: only the last words go there, and nothing goes on behind them.
        Self(unsafe { nrf52833_pac::Peripherals::steal().UART0 })
    }
}

#[interrupt]
fn UARTE0_UART0() {
    // SAFETY: the console only sends; receiving is this handler's part.
    let uart = unsafe { &*UART0::ptr() };
    if uart.events_rxdrdy.read().bits() != 0 {
        uart.events_rxdrdy.reset();
        let byte = uart.rxd.read().rxd().bits();
        // Faster than stories are told: what is too much is lost.
        RECEIVED.push(byte);
    }
    if uart.events_error.read().bits() != 0 {
        uart.events_error.reset();
        // SAFETY: written back, what is set is cleared.
        uart.errorsrc.modify(|r, w| unsafe { w.bits(r.bits()) });
    }
}

impl ErrorType for Uart {
    type Error = Infallible;
}

impl Read for Uart {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Infallible> {
        Ok(RECEIVED.read(buffer, core::hint::spin_loop))
    }
}

impl ReadReady for Uart {
    fn read_ready(&mut self) -> Result<bool, Infallible> {
        Ok(!RECEIVED.is_empty())
    }
}

impl Write for Uart {
    fn write(&mut self, bytes: &[u8]) -> Result<usize, Infallible> {
        for &byte in bytes {
            self.0.events_txdrdy.reset();
            // SAFETY: any byte can be sent.
            self.0.txd.write(|w| unsafe { w.txd().bits(byte) });
            while self.0.events_txdrdy.read().bits() == 0 {}
        }
        Ok(bytes.len())
    }

    /// Each byte has been waited for.
    fn flush(&mut self) -> Result<(), Infallible> {
        Ok(())
    }
}
