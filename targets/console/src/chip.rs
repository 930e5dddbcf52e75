//! What the console wants to know of the chip.

use core::fmt;

/// A board. There is only one, hence no `self`.
pub trait Chip {
    /// Its name, for the banner.
    const NAME: &'static str;

    /// Is called when a story begins.
    fn begin();

    /// Is called often while a story runs, between pieces of a step: the place for other duties.
    fn pause();

    /// Tells how that went since [`begin`](Self::begin), in whole lines.
    ///
    /// # Errors
    /// Those of `to`.
    fn report(to: &mut dyn fmt::Write) -> fmt::Result;
}
