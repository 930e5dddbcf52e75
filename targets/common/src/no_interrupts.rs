//! The vectors of a chip whose interrupts nobody uses. Without a chip's own table cortex-m-rt makes
//! one for all that a core can have: up to 1,920 bytes.

unsafe extern "C" {
    fn DefaultHandler();
}

/// One, since cortex-m-rt takes none at all for a mistake.
#[unsafe(link_section = ".vector_table.interrupts")]
#[unsafe(no_mangle)]
static __INTERRUPTS: [unsafe extern "C" fn(); 1] = [DefaultHandler];
