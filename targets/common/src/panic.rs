//! What happens when the firmware is wrong: one line, and an exit status of its own.

use core::panic::PanicInfo;

/// Ends the program. Where it happened is said only by debug builds: the texts take flash.
#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    #[cfg(feature = "rtt")]
    defmt::error!("panic");
    if let Some(mut console) = crate::Semihosted::new() {
        if cfg!(debug_assertions) {
            crate::program::say(&mut console, format_args!("smidgen: {info}\n"));
        } else {
            crate::program::say(&mut console, format_args!("smidgen: panic\n"));
        }
    }
    semihosting::process::exit(101)
}
