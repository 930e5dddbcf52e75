//! The PL011 on pins 14 and 15, 115,200 baud.

use core::convert::Infallible;
use core::ptr::NonNull;

use arm_pl011_uart::{
    DataBits, LineConfig, PL011Registers, Parity, StopBits, Uart, UniqueMmioPointer,
};
use embedded_io::{ErrorType, Read, ReadReady, Write};

const UART0: usize = 0x3f20_1000;

/// Of the pins 10 to 19: three bits each say what a pin is for.
const GPFSEL1: *mut u32 = core::ptr::without_provenance_mut(0x3f20_0004);

/// What the boot loader sets, if `config.txt` does not say otherwise.
const CLOCK: u32 = 48_000_000;

const LINE: LineConfig = LineConfig {
    data_bits: DataBits::Bits8,
    parity: Parity::None,
    stop_bits: StopBits::One,
};

/// The port. Bytes that come damaged, or too fast, are lost.
pub(crate) struct Console(Uart<'static>);

impl Console {
    /// The port. There is only one: to be called once, and for the last words of a program.
    pub(crate) fn new() -> Self {
        // SAFETY: the register of a device that is mapped, and that nothing else uses.
        unsafe {
            // Function 0 of pins 14 and 15 is number 4.
            let others = GPFSEL1.read_volatile() & !(0o77 << 12);
            GPFSEL1.write_volatile(others | 0o44 << 12);
        }
        let registers =
            NonNull::without_provenance(const { core::num::NonZero::new(UART0).unwrap() });
        // SAFETY: the registers of a device that is mapped, and that nothing else uses.
        let registers = unsafe { UniqueMmioPointer::<PL011Registers>::new(registers) };
        let mut uart = Uart::new(registers);
        // It takes this speed.
        let _ = uart.enable(LINE, 115_200, CLOCK);
        Self(uart)
    }
}

impl ErrorType for Console {
    type Error = Infallible;
}

impl Read for Console {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Infallible> {
        let Some(place) = buffer.first_mut() else {
            return Ok(0);
        };
        loop {
            if let Ok(Some(byte)) = self.0.read_word() {
                *place = byte;
                return Ok(1);
            }
        }
    }
}

impl ReadReady for Console {
    fn read_ready(&mut self) -> Result<bool, Infallible> {
        Ok(!self.0.is_rx_fifo_empty())
    }
}

impl Write for Console {
    fn write(&mut self, bytes: &[u8]) -> Result<usize, Infallible> {
        for &byte in bytes {
            while self.0.is_tx_fifo_full() {}
            self.0.write_word(byte);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> Result<(), Infallible> {
        while self.0.is_busy() {}
        Ok(())
    }
}
