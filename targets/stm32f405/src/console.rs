//! The console, and a timer that keeps its beat meanwhile.

use core::convert::Infallible;
use core::fmt;

use cortex_m::peripheral::syst::SystClkSource;
use cortex_m_rt::exception;
use smidgen_console::{Chip, Watch, painted_stack};
use smidgen_core::{Hex, Number};
use stm32f4::stm32f405::Peripherals;

use crate::clock;
use crate::uart::Uart;

// Where the model's image is, and RAM for it.
include!(concat!(env!("OUT_DIR"), "/apart.rs"));

/// The timer's beats.
static BEATS: Watch = Watch::new();

/// Pauses in the steps of the story.
static PAUSES: Watch = Watch::new();

/// The chip and its timer.
struct Stm32f405;

impl Chip for Stm32f405 {
    const NAME: &'static str = "STM32F405";

    fn begin() {
        BEATS.reset();
        PAUSES.begin(clock::now());
    }

    /// Here a program with other duties has its turn: never later than told behind a story.
    fn pause() {
        PAUSES.event(clock::now());
    }

    fn report(to: &mut dyn fmt::Write) -> fmt::Result {
        smidgen_console::report(to, &PAUSES, painted_stack())?;
        let [beats, nearest, farthest] =
            [BEATS.count(), BEATS.shortest(), BEATS.longest()].map(|number| Number(number.into()));
        writeln!(to, "beats: {beats}, {nearest} to {farthest} ticks apart")
    }
}

/// Continues what is typed as a story, for ever.
pub fn console() -> ! {
    // SAFETY: nothing else takes them; the handlers of interrupts have their own, and none is on.
    let (chip, mut core) = unsafe { (Peripherals::steal(), cortex_m::Peripherals::steal()) };
    let clocks = clock::start(&chip.RCC, &chip.FLASH);
    clock::start_counter(&chip.RCC, &chip.TIM2);
    core.SYST.set_clock_source(SystClkSource::Core);
    // 100 beats a second.
    core.SYST.set_reload(clocks.core / 100 - 1);
    core.SYST.clear_current();
    core.SYST.enable_counter();
    core.SYST.enable_interrupt();
    let mut uart = Uart::new(chip.USART1, &chip.RCC, &chip.GPIOA, &clocks);

    let told = smidgen_console::run::<Stm32f405, _>(&mut uart, region(), memory());
    let Ok(()) = told as Result<(), Infallible>;
    // The port never ends.
    halt()
}

#[exception]
fn SysTick() {
    BEATS.event(clock::now());
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
