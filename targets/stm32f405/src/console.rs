//! The console, and a timer that keeps its beat meanwhile.

use core::convert::Infallible;
use core::fmt;

use cortex_m::peripheral::syst::SystClkSource;
use cortex_m_rt::exception;
use smidgen_console::{Chip, Memory, Watch, painted_stack};
use smidgen_core::model::Layer;
use static_cell::ConstStaticCell;
use stm32f4::stm32f405::Peripherals;

use crate::clock;
use crate::uart::Uart;

/// RAM for a model: all but 13 KiB, most of which the stack may take.
const WORDS: usize = (112 << 10) / 8;

/// Layers of a model.
const LAYERS: usize = 16;

// Where the model's image is.
include!(concat!(env!("OUT_DIR"), "/region.rs"));

static SMIDGEN_WORK: ConstStaticCell<[u64; WORDS]> = ConstStaticCell::new([0; WORDS]);
static SMIDGEN_LAYERS: ConstStaticCell<[Layer<'static>; LAYERS]> =
    ConstStaticCell::new([Layer::EMPTY; LAYERS]);

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
        let (pauses, longest) = (PAUSES.count(), PAUSES.longest());
        writeln!(to, "pauses: {pauses}, at most {longest} ticks apart")?;
        let (beats, nearest, farthest) = (BEATS.count(), BEATS.shortest(), BEATS.longest());
        writeln!(to, "beats: {beats}, {nearest} to {farthest} ticks apart")?;
        let stack = painted_stack();
        let (used, size) = (stack.high_water(), stack.size());
        #[cfg(feature = "rtt")]
        defmt::info!(
            "pauses at most {=u32} ticks apart, stack {=usize} bytes",
            longest,
            used
        );
        writeln!(to, "stack: {used} of {size} bytes")
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
    #[cfg(feature = "rtt")]
    defmt::info!("Smidgen at {=u32} Hz", clocks.core);

    // SAFETY: this is flash: it can be read, whatever it holds, and nothing writes it.
    let region = unsafe { core::slice::from_raw_parts(MODEL, MODEL_BYTES) };
    let memory = Memory {
        layers: SMIDGEN_LAYERS.take(),
        words: SMIDGEN_WORK.take(),
    };
    let Ok(()) =
        smidgen_console::run::<Stm32f405, _>(&mut uart, region, memory) as Result<(), Infallible>;
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
    last_words(format_args!(
        "\r\nsmidgen: fault at {:#010x}\r\n",
        frame.pc()
    ));
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
