//! The core's clock, and a counter.

use stm32f4::stm32f405::{FLASH, RCC, TIM2};

/// Clocks in Hz.
pub(crate) struct Clocks {
    pub(crate) core: u32,
    /// Of USART1.
    pub(crate) apb2: u32,
}

/// How often the PLL is asked whether it runs: it takes 300 µs at most.
const PATIENCE: u32 = 100_000;

/// From the internal oscillator, which every board has, to 168 MHz. Where the PLL does not start, as
/// in QEMU, which has none, the oscillator's 16 MHz it is.
pub(crate) fn start(rcc: &RCC, flash: &FLASH) -> Clocks {
    rcc.pllcfgr().modify(|_, w| {
        w.pllsrc().hsi().pllp().div2();
        // SAFETY: 16 MHz / 16 * 336 / 2 = 168 MHz, all within the bounds of the data sheet.
        unsafe { w.pllm().bits(16).plln().bits(336).pllq().bits(7) }
    });
    rcc.cr().modify(|_, w| w.pllon().set_bit());
    if !(0..PATIENCE).any(|_| rcc.cr().read().pllrdy().bit_is_set()) {
        return Clocks {
            core: 16_000_000,
            apb2: 16_000_000,
        };
    }
    flash.acr().modify(|_, w| {
        w.icen().set_bit().dcen().set_bit().prften().set_bit();
        w.latency().ws5()
    });
    rcc.cfgr().modify(|_, w| {
        w.hpre().div1().ppre1().div4().ppre2().div2();
        w.sw().pll()
    });
    while !rcc.cfgr().read().sws().is_pll() {}
    Clocks {
        core: 168_000_000,
        apb2: 84_000_000,
    }
}

/// A counter of 32 bits that never stops: at 84 MHz, and in QEMU of nanoseconds.
pub(crate) fn start_counter(rcc: &RCC, timer: &TIM2) {
    rcc.apb1enr().modify(|_, w| w.tim2en().set_bit());
    timer.cr1().modify(|_, w| w.cen().set_bit());
}

/// The counter.
pub(crate) fn now() -> u32 {
    // SAFETY: reads a register that nothing changes but time.
    unsafe { (*TIM2::ptr()).cnt().read().bits() }
}
