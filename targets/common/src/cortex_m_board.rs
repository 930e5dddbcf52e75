//! A Cortex-M with semihosting, and SysTick as the counter.

use core::mem::MaybeUninit;

use cortex_m::Peripherals;
use cortex_m::peripheral::SYST;
use cortex_m::peripheral::syst::SystClkSource;

use smidgen_core::Hex;

use crate::{Board, Counter, Linked, Memory, Program, Semihosted, Stack, painted_stack};

/// A Cortex-M whose console is a debugger, or QEMU.
#[allow(missing_debug_implementations)] // The register block has none.
pub struct CortexM {
    console: Semihosted,
    stack: Stack,
    systick: SYST,
    ticks: u64,
    last: u32,
    instructions_in_100_ticks: u64,
}

impl CortexM {
    /// Starts the counter. `None` if no debugger answers, or this was called before.
    ///
    /// QEMU's SysTick runs with the board's clock while instructions take a fixed time, so many
    /// instructions are one tick.
    #[must_use]
    pub fn new(stack: Stack, instructions_in_100_ticks: u64) -> Option<Self> {
        let mut systick = Peripherals::take()?.SYST;
        systick.set_clock_source(SystClkSource::Core);
        systick.set_reload(0x00ff_ffff);
        systick.clear_current();
        systick.enable_counter();
        Some(Self {
            console: Semihosted::new()?,
            stack,
            systick,
            ticks: 0,
            last: 0,
            instructions_in_100_ticks,
        })
    }

    /// Runs a program with the linked model on this chip and exits with its status, or with 2 where
    /// no debugger answers.
    pub fn start(
        instructions_in_100_ticks: u64,
        linked: &Linked,
        memory: fn() -> &'static mut Memory,
        program: Program<Self>,
    ) -> ! {
        let status = match Self::new(painted_stack(), instructions_in_100_ticks) {
            Some(mut board) => crate::run(&mut board, linked, memory(), program),
            None => 2,
        };
        semihosting::process::exit(status)
    }
}

impl Board for CortexM {
    type Console = Semihosted;

    fn console(&mut self) -> &mut Semihosted {
        &mut self.console
    }

    fn stack(&self) -> Stack {
        self.stack
    }

    fn command_line(&mut self, buffer: &'static mut [MaybeUninit<u8>]) -> &'static [u8] {
        self.console.command_line(buffer)
    }
}

impl Counter for CortexM {
    /// Right as long as it is called once in 2^24 ticks.
    fn instructions(&mut self) -> u64 {
        // It counts down, from 2^24 - 1 again after 0.
        let now = 0x00ff_ffff - self.systick.cvr.read();
        self.ticks += u64::from(now.wrapping_sub(self.last) & 0x00ff_ffff);
        self.last = now;
        self.ticks * self.instructions_in_100_ticks / 100
    }
}

/// A fault ends the program.
#[cortex_m_rt::exception]
unsafe fn HardFault(frame: &cortex_m_rt::ExceptionFrame) -> ! {
    if let Some(mut console) = Semihosted::new() {
        let pc = Hex::<8>(frame.pc().into());
        crate::program::say(&mut console, format_args!("smidgen: fault at 0x{pc}\n"));
    }
    semihosting::process::exit(102)
}
