//! UART0 on GPIO 0 (out) and 1 (in), 115,200 baud.

use core::convert::Infallible;

use cortex_m::peripheral::NVIC;
use embedded_io::{ErrorType, Read, ReadReady, Write};
use rp235x_pac::{Interrupt, Peripherals, UART0, interrupt};
use smidgen_console::ByteQueue;

use crate::clock;

/// The divider in 64ths: 81 and 24/64.
const DIVIDER: u32 = (clock::HZ * 4 + 115_200 / 2) / 115_200;

/// What has been received. The handler of the interrupt writes, the console reads.
static RECEIVED: ByteQueue<256> = ByteQueue::new();

/// The port. Bytes are received by interrupt, and sent while the sender waits.
pub(crate) struct Uart(UART0);

impl Uart {
    /// To be called once, when the clocks run.
    pub(crate) fn new() -> Self {
        // SAFETY: nothing else takes the port and its pins, and nothing else is using the resets.
        let chip = unsafe { Peripherals::steal() };
        let resets = &chip.RESETS;
        resets.reset().modify(|_, w| {
            w.io_bank0().clear_bit().pads_bank0().clear_bit();
            w.uart0().clear_bit()
        });
        let is_ready = || {
            let done = resets.reset_done().read();
            done.io_bank0().bit() && done.pads_bank0().bit() && done.uart0().bit()
        };
        while !is_ready() {}
        for pin in 0..2 {
            chip.IO_BANK0
                .gpio(pin)
                .gpio_ctrl()
                .write(|w| w.funcsel().uart());
            chip.PADS_BANK0.gpio(pin).modify(|_, w| {
                // The line is high when idle, also when nothing is plugged in.
                w.pde().clear_bit().pue().set_bit();
                // Pads are cut off until they are set up.
                w.ie().set_bit().od().clear_bit().iso().clear_bit()
            });
        }
        let uart = chip.UART0;
        let (whole, parts) = (DIVIDER / 64, DIVIDER % 64);
        // SAFETY: both are within the bounds of the fields.
        uart.uartibrd()
            .write(|w| unsafe { w.baud_divint().bits(whole as u16) });
        // SAFETY: as above.
        uart.uartfbrd()
            .write(|w| unsafe { w.baud_divfrac().bits(parts as u8) });
        // Eight bits, no parity, and its queues; the divider takes effect with this.
        // SAFETY: 3 is eight bits.
        uart.uartlcr_h()
            .write(|w| unsafe { w.wlen().bits(3).fen().set_bit() });
        // When the queue is filling up, and when it is not but nothing more comes.
        uart.uartimsc()
            .write(|w| w.rxim().set_bit().rtim().set_bit());
        uart.uartcr()
            .write(|w| w.rxe().set_bit().txe().set_bit().uarten().set_bit());
        // SAFETY: no critical section is open: the program has just started.
        unsafe { NVIC::unmask(Interrupt::UART0_IRQ) };
        Self(uart)
    }

    /// The port, whoever has it: for a program that has failed.
    pub(crate) fn steal() -> Self {
        // SAFETY: only the last words go there, and nothing goes on behind them.
        Self(unsafe { Peripherals::steal().UART0 })
    }
}

#[interrupt]
fn UART0_IRQ() {
    // SAFETY: the console only sends; receiving is this handler's part.
    let uart = unsafe { &*UART0::ptr() };
    while uart.uartfr().read().rxfe().bit_is_clear() {
        let byte = uart.uartdr().read().data().bits();
        // Faster than stories are told: what is too much is lost.
        RECEIVED.push(byte);
    }
    uart.uarticr()
        .write(|w| w.rxic().clear_bit_by_one().rtic().clear_bit_by_one());
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
            while self.0.uartfr().read().txff().bit_is_set() {}
            // SAFETY: any byte can be sent.
            self.0.uartdr().write(|w| unsafe { w.data().bits(byte) });
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> Result<(), Infallible> {
        while self.0.uartfr().read().busy().bit_is_set() {}
        Ok(())
    }
}
