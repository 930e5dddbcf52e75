//! How a story was told, for those who want to know.

use core::fmt;

use smidgen_core::Number;

use crate::{Stack, Watch};

/// Two lines: how far apart the pauses in the steps were, in ticks of the counter that `pauses` is
/// told, and how much of the stack has been in use since the start.
///
/// # Errors
/// Those of `to`.
pub fn report(to: &mut dyn fmt::Write, pauses: &Watch, stack: Stack) -> fmt::Result {
    let (count, longest) = (pauses.count(), pauses.longest());
    let (used, size) = (stack.high_water(), stack.size());
    #[cfg(feature = "defmt")]
    defmt::info!(
        "{=u32} pauses, at most {=u32} ticks apart; stack: {=usize} of {=usize} bytes",
        count,
        longest,
        used,
        size
    );
    let (count, longest) = (Number(count.into()), Number(longest.into()));
    let (used, size) = (Number(used as u64), Number(size as u64));
    writeln!(
        to,
        "pauses: {count}, at most {longest} ticks apart\nstack: {used} of {size} bytes"
    )
}
