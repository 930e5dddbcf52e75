//! The console.

use core::convert::Infallible;
use core::fmt;

use smidgen_aarch64::{instructions, paint_stack, stack, start_counter};
use smidgen_console::{Chip, Memory, Watch};
use smidgen_core::model::Layer;
use static_cell::ConstStaticCell;

use crate::uart;

// Where the model's image is.
include!(concat!(env!("OUT_DIR"), "/region.rs"));

/// RAM for a model.
const WORDS: usize = (32 << 20) / 8;

/// Layers of a model.
const LAYERS: usize = 64;

static SMIDGEN_WORK: ConstStaticCell<[u64; WORDS]> = ConstStaticCell::new([0; WORDS]);
static SMIDGEN_LAYERS: ConstStaticCell<[Layer<'static>; LAYERS]> =
    ConstStaticCell::new([Layer::EMPTY; LAYERS]);

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
        let (pauses, longest) = (PAUSES.count(), PAUSES.longest());
        writeln!(to, "pauses: {pauses}, at most {longest} ticks apart")?;
        let stack = stack();
        let (used, size) = (stack.high_water(), stack.size());
        writeln!(to, "stack: {used} of {size} bytes")
    }
}

/// Continues what is typed as a story, for ever.
pub fn console() -> ! {
    start_counter();
    paint_stack();
    let mut port = uart::Console::new();
    // SAFETY: this is RAM that is mapped, and that nothing writes once the boot loader has.
    let region = unsafe { core::slice::from_raw_parts(MODEL, MODEL_BYTES) };
    let memory = Memory {
        layers: SMIDGEN_LAYERS.take(),
        words: SMIDGEN_WORK.take(),
    };
    let Ok(()) =
        smidgen_console::run::<Raspi3, _>(&mut port, region, memory) as Result<(), Infallible>;
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
