//! The clocks, from the board's crystal of 12 MHz.

use rp235x_pac::{CLOCKS, PLL_SYS, Peripherals, RESETS, XOSC};

/// Of the cores and of what is around them.
pub(crate) const HZ: u32 = 150_000_000;

/// The crystal settles within a millisecond: in units of 256 of its clocks.
const CRYSTAL_DELAY: u16 = 12_000_000_u32.div_ceil(1000 * 256) as u16;

/// Starts them. To be called once, before all else that has to do with the chip.
pub(crate) fn start() {
    // SAFETY: the program has just started, by the oscillator of the boot ROM; nothing else takes
    // these while they are set up.
    let chip = unsafe { Peripherals::steal() };
    start_crystal(&chip.XOSC);
    slow_down(&chip.CLOCKS);
    start_pll(&chip.PLL_SYS, &chip.RESETS);
    speed_up(&chip.CLOCKS);
}

fn start_crystal(xosc: &XOSC) {
    xosc.ctrl().write(|w| w.freq_range()._1_15mhz());
    // SAFETY: any delay is allowed.
    xosc.startup()
        .write(|w| unsafe { w.delay().bits(CRYSTAL_DELAY) });
    xosc.ctrl().modify(|_, w| w.enable().enable());
    while xosc.status().read().stable().bit_is_clear() {}
}

/// By the crystal, so that the PLL can be changed.
fn slow_down(clocks: &CLOCKS) {
    clocks.clk_sys_ctrl().modify(|_, w| w.src().clk_ref());
    while clocks.clk_sys_selected().read().bits() != 1 {}
    clocks.clk_ref_ctrl().modify(|_, w| w.src().xosc_clksrc());
    // A bit for each source: the crystal is number 2.
    while clocks.clk_ref_selected().read().bits() != 1 << 2 {}
}

/// 12 MHz * 125 / 5 / 2 = 150 MHz, with 1500 MHz between.
fn start_pll(pll: &PLL_SYS, resets: &RESETS) {
    resets.reset().modify(|_, w| w.pll_sys().set_bit());
    resets.reset().modify(|_, w| w.pll_sys().clear_bit());
    while resets.reset_done().read().pll_sys().bit_is_clear() {}
    // SAFETY: these factors are within the bounds of the data sheet, here and below.
    pll.cs().write(|w| unsafe { w.refdiv().bits(1) });
    // SAFETY: as above.
    pll.fbdiv_int()
        .write(|w| unsafe { w.fbdiv_int().bits(125) });
    pll.pwr()
        .modify(|_, w| w.pd().clear_bit().vcopd().clear_bit());
    while pll.cs().read().lock().bit_is_clear() {}
    // SAFETY: as above.
    pll.prim()
        .write(|w| unsafe { w.postdiv1().bits(5).postdiv2().bits(2) });
    pll.pwr().modify(|_, w| w.postdivpd().clear_bit());
}

/// By the PLL.
fn speed_up(clocks: &CLOCKS) {
    clocks
        .clk_sys_ctrl()
        .modify(|_, w| w.auxsrc().clksrc_pll_sys());
    clocks
        .clk_sys_ctrl()
        .modify(|_, w| w.src().clksrc_clk_sys_aux());
    while clocks.clk_sys_selected().read().bits() != 1 << 1 {}
    // The serial port's.
    clocks
        .clk_peri_ctrl()
        .write(|w| w.auxsrc().clk_sys().enable().set_bit());
}
