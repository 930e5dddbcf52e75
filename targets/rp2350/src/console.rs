//! The console.

use core::convert::Infallible;
use core::fmt;

use cortex_m::peripheral::DWT;
use cortex_m_rt::exception;
use smidgen_console::{Chip, Watch, painted_stack};
use smidgen_core::Hex;

use crate::clock;
use crate::uart::Uart;

// Where the model's image is, and RAM for it.
include!(concat!(env!("OUT_DIR"), "/apart.rs"));

/// Pauses in the steps of the story.
static PAUSES: Watch = Watch::new();

/// The chip.
struct Rp2350;

impl Chip for Rp2350 {
    const NAME: &'static str = "Pico 2";

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
    clock::start();
    // SAFETY: nothing else takes them, and the handler of the interrupt has its own.
    let mut core = unsafe { cortex_m::Peripherals::steal() };
    core.DCB.enable_trace();
    core.DWT.enable_cycle_counter();
    let mut uart = Uart::new();
    #[cfg(feature = "staged")]
    let region = || staged::copy(region());
    let told = smidgen_console::run::<Rp2350, _>(&mut uart, region(), memory());
    let Ok(()) = told as Result<(), Infallible>;
    // The port never ends.
    halt()
}

/// The model's image in RAM.
#[cfg(feature = "staged")]
mod staged {
    use static_cell::ConstStaticCell;

    include!(concat!(env!("OUT_DIR"), "/stage.rs"));

    /// The GGUF is aligned if the image is.
    #[repr(C, align(64))]
    struct Stage([u8; STAGE]);

    /// A copy of as much as there is room for; what is longer is told as a model that is too long.
    /// To be called once.
    pub(super) fn copy(region: &[u8]) -> &'static [u8] {
        static SMIDGEN_STAGE: ConstStaticCell<Stage> = ConstStaticCell::new(Stage([0; STAGE]));
        let Stage(stage) = SMIDGEN_STAGE.take();
        for (to, &byte) in stage.iter_mut().zip(region) {
            *to = byte;
        }
        stage
    }
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
