//! The story on the serial port, without a debugger.

use core::mem::MaybeUninit;
use core::panic::PanicInfo;

use nrf51_pac::Peripherals;
use smidgen_firmware::{Board, Stack, painted_stack};

use crate::model;
use crate::uart::Uart;

/// The board as it is on a desk.
struct Microbit {
    uart: Uart,
    stack: Stack,
}

impl Board for Microbit {
    type Console = Uart;

    fn console(&mut self) -> &mut Uart {
        &mut self.uart
    }

    fn stack(&self) -> Stack {
        self.stack
    }

    /// No one gives any.
    fn command_line(&mut self, _: &'static mut [MaybeUninit<u8>]) -> &'static [u8] {
        b"smidgen -n 256 --temp 1 --top-p 0.9 --seed 7 --logits-hash"
    }
}

/// Tells the story, once after each reset.
pub fn serial() -> ! {
    if let Some(chip) = Peripherals::take() {
        let mut board = Microbit {
            uart: Uart::new(chip.UART0, &chip.GPIO, &chip.CLOCK),
            stack: painted_stack(),
        };
        let story = smidgen_firmware::story::<Microbit>;
        smidgen_firmware::run(&mut board, &model::LINKED, model::memory(), story);
    }
    stop()
}

fn stop() -> ! {
    loop {
        cortex_m::asm::wfi();
    }
}

/// The port may be in the middle of a word: nothing more is said.
#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    stop()
}
