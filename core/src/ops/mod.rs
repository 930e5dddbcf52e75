//! Kernels composed into the operations of a transformer.

mod matmul;
mod rope;
mod spread;
mod wide_float;

pub(crate) use matmul::Inputs;
pub use matmul::Parallel;
pub use rope::{phase_steps, rotation};
pub(crate) use spread::{How, Spread};
pub use spread::{PIECE, Pause};
