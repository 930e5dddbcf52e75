//! A place for other duties inside a step.

/// Is called between pieces of a step: for a caller that has to look after other things more often
/// than once a token, or once a layer as by [`Session::advance`](super::Session::advance).
///
/// A piece is a part of a product with a matrix, of at most [`PIECE`] multiplications or 8 rows; or
/// the attention of the heads that share a KV head; or what is small beside both. What the call
/// does changes no bit of the logits.
pub type Pause<'p> = dyn FnMut() + Send + 'p;

/// The most multiplications of a piece, if a row of the matrix has no more than an eighth of it.
pub const PIECE: usize = 1 << 13;
