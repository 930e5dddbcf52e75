//! How a product is computed: at once, over threads, or in pieces.

use super::matmul::multiply_spread;
use super::{Inputs, Parallel};
use crate::kernels::Backend;
use crate::model::Matrix;

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
    /// By this function, a pointer so that only who asks for it has its code.
    Otherwise(How<'s>, Multiply),
}

/// What a product is spread over.
pub(crate) enum How<'s> {
    /// Where it is worth it, threads.
    Threads(&'s dyn Parallel),
    /// Pieces with a call between them.
    Pieces(&'s mut Pause<'s>),
}

/// `multiply_from` of [`Inputs`].
pub(crate) type Multiply = fn(&Inputs<'_>, usize, Backend, &mut How<'_>, &Matrix<'_>, &mut [f32]);

impl<'s> Spread<'s> {
    /// Over threads where it is worth it.
    pub(crate) fn over_threads(parallel: &'s dyn Parallel) -> Self {
        Self::Otherwise(How::Threads(parallel), multiply_spread)
    }

    /// In pieces.
    pub(crate) fn in_pieces(pause: &'s mut Pause<'s>) -> Self {
        Self::Otherwise(How::Pieces(pause), multiply_spread)
    }

    /// The end of a piece.
    pub(crate) fn pause(&mut self) {
        if let Self::Otherwise(How::Pieces(pause), _) = self {
            pause();
        }
    }

    /// Rows of a piece.
    pub(crate) fn rows(cols: usize) -> usize {
        let rows = PIECE / cols.max(1);
        (rows - rows % UNIT).max(UNIT)
    }
}
