//! Kernels composed into the operations of a transformer.

mod matmul;
mod rope;

pub(crate) use matmul::Inputs;
pub use matmul::Parallel;
pub use rope::{phase_steps, rotation};
