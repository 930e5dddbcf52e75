//! How a product is computed: at once, over threads, or in pieces.

use super::Parallel;

/// Is called between pieces of a step: for a caller that has to look after other things more often
/// than once a token, or once a layer as by [`Session::advance`](crate::session::Session::advance).
///
/// A piece is a part of a product with a matrix, of at most [`PIECE`] multiplications or 8 rows; or
/// the attention of the heads that share a KV head; or what is small beside both. What the function
/// does changes no bit of the logits.
pub type Pause<'p> = dyn FnMut() + Send + 'p;

/// The most multiplications of a piece, where 8 rows have no more.
pub const PIECE: usize = 1 << 13;

/// Rows that kernels take together are never parted.
const UNIT: usize = 8;

/// How a product is computed; no bit depends on it.
pub(crate) enum Spread<'s> {
    /// Without a break.
    AtOnce,
    /// Where it is worth it, over threads.
    Threads(&'s dyn Parallel),
    /// With a call between pieces.
    Pieces(&'s mut Pause<'s>),
}

impl Spread<'_> {
    /// The end of a piece.
    pub(crate) fn pause(&mut self) {
        if let Self::Pieces(pause) = self {
            pause();
        }
    }

    /// Rows of a piece.
    pub(crate) fn rows(cols: usize) -> usize {
        let rows = PIECE / cols.max(1);
        (rows - rows % UNIT).max(UNIT)
    }
}
