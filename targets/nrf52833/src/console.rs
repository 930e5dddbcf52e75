//! The console.

use core::convert::Infallible;
use core::fmt;

use cortex_m::peripheral::DWT;
use cortex_m_rt::exception;
use nrf52833_pac::Peripherals;
use smidgen_console::{Chip, Watch, painted_stack};
use smidgen_core::Hex;

use crate::uart::Uart;

// Where the model's image is, and RAM for it.
include!(concat!(env!("OUT_DIR"), "/apart.rs"));

/// Pauses in the steps of the story.
static PAUSES: Watch = Watch::new();

/// The chip.
struct Nrf52833;

impl Chip for Nrf52833 {
    const NAME: &'static str = "micro:bit v2";

    fn begin() {
        PAUSES.begin(DWT::cycle_count());
    }

    /// Here a program with other duties has its turn: never later than told behind a story.
    fn pause() {
        PAUSES.event(DWT::cycle_count());
    }

    fn report(to: &mut dyn fmt::Write) -> fmt::Result {
        smidgen_console::report(to, &PAUSES, painted_stack())
    }
}

/// Continues what is typed as a story, for ever.
pub fn console() -> ! {
    // SAFETY: nothing else takes them; the handlers of interrupts have their own, and none is on.
    let (chip, mut core) = unsafe { (Peripherals::steal(), cortex_m::Peripherals::steal()) };
    // From the crystal, for the serial port.
    chip.CLOCK.events_hfclkstarted.reset();
    // SAFETY: tasks are started by writing 1.
    chip.CLOCK.tasks_hfclkstart.write(|w| unsafe { w.bits(1) });
    while chip.CLOCK.events_hfclkstarted.read().bits() == 0 {}
    core.DCB.enable_trace();
    core.DWT.enable_cycle_counter();
    let mut uart = Uart::new(chip.UART0, &chip.P0);

    let told = smidgen_console::run::<Nrf52833, _>(&mut uart, region(), memory());
    let Ok(()) = told as Result<(), Infallible>;
    // The port never ends.
    halt()
}

fn halt() -> ! {
    loop {
        cortex_m::asm::wfi();
    }
}

/// A fault is the end.
#[exception]
unsafe fn HardFault(frame: &cortex_m_rt::ExceptionFrame) -> ! {
    let pc = Hex::<8>(frame.pc().into());
    last_words(format_args!("\r\nsmidgen: fault at 0x{pc}\r\n"));
    cortex_m::interrupt::disable();
    halt()
}

/// So is a panic, which would be a mistake in this program.
#[cfg(not(feature = "rtt"))]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    last_words(format_args!("\r\nsmidgen: panic\r\n"));
    cortex_m::interrupt::disable();
    halt()
}

fn last_words(words: fmt::Arguments<'_>) {
    use embedded_io::Write as _;
    let _ = Uart::steal().write_fmt(words);
}

#[cfg(feature = "rtt")]
use {defmt_rtt as _, panic_probe as _};
