//! The console.

use core::convert::Infallible;
use core::fmt;

use smidgen_aarch64::{instructions, paint_stack, stack, start_counter};
use smidgen_console::{Chip, Watch};

use crate::uart;

// Where the model's image is, and RAM for it.
include!(concat!(env!("OUT_DIR"), "/apart.rs"));

/// Pauses in the steps of the story.
static PAUSES: Watch = Watch::new();

/// The chip.
struct Raspi3;

/// The counter's lower half, which is enough for differences.
fn now() -> u32 {
    #[allow(clippy::cast_possible_truncation)]
    {
        instructions() as u32
    }
}

impl Chip for Raspi3 {
    const NAME: &'static str = "Raspberry Pi 3";

    fn begin() {
        PAUSES.begin(now());
    }

    fn pause() {
        PAUSES.event(now());
    }

    fn report(to: &mut dyn fmt::Write) -> fmt::Result {
        smidgen_console::report(to, &PAUSES, stack())
    }
}

/// Continues what is typed as a story, for ever.
pub fn console() -> ! {
    start_counter();
    paint_stack();
    let mut port = uart::Console::new();
    let told = smidgen_console::run::<Raspi3, _>(&mut port, region(), memory());
    let Ok(()) = told as Result<(), Infallible>;
    // The port never ends.
    halt()
}

fn halt() -> ! {
    loop {
        core::hint::spin_loop();
    }
}

/// A panic would be a mistake in this program: one line, and no more.
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    let words = b"\r\nsmidgen: panic\r\n";
    let _ = embedded_io::Write::write_all(&mut uart::Console::new(), words);
    halt()
}
