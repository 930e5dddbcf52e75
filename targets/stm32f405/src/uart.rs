//! USART1 on PA9 and PA10, 115,200 baud.

use core::convert::Infallible;

use cortex_m::peripheral::NVIC;
use embedded_io::{ErrorType, Read, ReadReady, Write};
use smidgen_console::ByteQueue;
use stm32f4::stm32f405::{GPIOA, Interrupt, RCC, USART1, interrupt};

use crate::clock::Clocks;

const BAUD: u32 = 115_200;

/// What has been received. The handler of the interrupt writes, the console reads.
static RECEIVED: ByteQueue<256> = ByteQueue::new();

/// The port. Bytes are received by interrupt, and sent while the sender waits.
pub(crate) struct Uart(USART1);

impl Uart {
    pub(crate) fn new(usart: USART1, rcc: &RCC, pins: &GPIOA, clocks: &Clocks) -> Self {
        rcc.ahb1enr().modify(|_, w| w.gpioaen().set_bit());
        rcc.apb2enr().modify(|_, w| w.usart1en().set_bit());
        pins.afrh().modify(|_, w| w.afrh9().af7().afrh10().af7());
        pins.moder()
            .modify(|_, w| w.moder9().alternate().moder10().alternate());
        pins.pupdr().modify(|_, w| w.pupdr10().pull_up());
        // 729, or 139 without the PLL.
        let divider = u16::try_from((clocks.apb2 + BAUD / 2) / BAUD).unwrap_or(u16::MAX);
        // SAFETY: a divider of sixteenths, as the register has it.
        usart.brr().write(|w| unsafe { w.bits(divider) });
        usart.cr1().write(|w| {
            w.ue()
                .set_bit()
                .te()
                .set_bit()
                .re()
                .set_bit()
                .rxneie()
                .set_bit()
        });
        // SAFETY: no critical section is open: the program has just started.
        unsafe { NVIC::unmask(Interrupt::USART1) };
        Self(usart)
    }

    /// The port, whoever has it: for a program that has failed.
    pub(crate) fn steal() -> Self {
        // SAFETY: only the last words go there, and nothing goes on behind them.
        Self(unsafe { stm32f4::stm32f405::Peripherals::steal().USART1 })
    }
}

#[interrupt]
fn USART1() {
    // SAFETY: the console only sends; reading the status and then the data is this handler's part,
    // and clears an overrun too.
    let usart = unsafe { &*USART1::ptr() };
    let status = usart.sr().read();
    let byte = usart.dr().read().dr().bits().to_le_bytes()[0];
    if status.rxne().bit_is_set() {
        // Faster than stories are told: what is too much is lost.
        RECEIVED.push(byte);
    }
}

impl ErrorType for Uart {
    type Error = Infallible;
}

impl Read for Uart {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Infallible> {
        // If a byte comes just before it waits, the next beat of the timer wakes the core.
        Ok(RECEIVED.read(buffer, cortex_m::asm::wfi))
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
            while self.0.sr().read().txe().bit_is_clear() {}
            self.0.dr().write(|w| w.dr().set(byte.into()));
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> Result<(), Infallible> {
        while self.0.sr().read().tc().bit_is_clear() {}
        Ok(())
    }
}
