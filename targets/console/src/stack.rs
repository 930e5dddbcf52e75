//! How deep the stack has been: start-up paints it, and what is still painted was never used.

/// The word that unused stack is filled with.
pub const PAINT: u32 = 0xcccc_cccc;

/// The memory of the stack, which grows down from its end.
#[derive(Clone, Copy, Debug)]
pub struct Stack {
    lowest: *const u32,
    end: *const u32,
}

impl Stack {
    /// The stack between two addresses.
    ///
    /// # Safety
    /// They are the bounds of readable memory, which start-up has painted and nothing but the stack
    /// of this processor uses.
    #[allow(unsafe_code)]
    #[must_use]
    pub const unsafe fn new(lowest: *const u32, end: *const u32) -> Self {
        Self { lowest, end }
    }

    /// The most bytes that have been in use.
    #[allow(unsafe_code)]
    #[must_use]
    pub fn high_water(&self) -> usize {
        let mut at = self.lowest;
        // SAFETY: `at` stays inside the memory that `new` was given. The words below the stack
        // pointer belong to no object, hence the volatile reads.
        unsafe {
            while at < self.end && at.read_volatile() == PAINT {
                at = at.add(1);
            }
        }
        self.end.addr() - at.addr()
    }

    /// Bytes that there are.
    #[must_use]
    pub fn size(&self) -> usize {
        self.end.addr() - self.lowest.addr()
    }
}

/// The stack of cortex-m-rt, which has painted it.
#[cfg(target_arch = "arm")]
#[allow(unsafe_code)]
#[must_use]
pub fn painted_stack() -> Stack {
    unsafe extern "C" {
        static _stack_end: u32;
        static _stack_start: u32;
    }
    // SAFETY: these symbols of the linker script bound the part of RAM that nothing else is in, and
    // cortex-m-rt's feature `paint-stack` has filled it.
    unsafe { Stack::new(&raw const _stack_end, &raw const _stack_start) }
}
