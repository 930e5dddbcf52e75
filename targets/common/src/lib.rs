//! What the firmware of all boards shares.
//!
//! A board's package holds start-up and memory map. It hands a [`Board`], the linked model and its
//! memory to one of the programs: [`story`], [`self_test`] or [`bench`].
#![no_std]

// By being there it takes what defmt says.
#[cfg(feature = "rtt")]
use defmt_rtt as _;

mod board;
mod failure;
mod linked;
mod memory;
mod model_fault;
#[cfg(all(target_arch = "arm", feature = "no-interrupts"))]
mod no_interrupts;
#[cfg(feature = "semihosting")]
mod panic;
mod program;
mod request;

mod bench;
#[cfg(all(target_arch = "arm", feature = "semihosting"))]
mod cortex_m_board;
mod self_test;
#[cfg(feature = "semihosting")]
mod semihosted;
mod story;

pub use bench::bench;
pub use board::{Board, Counter};
#[cfg(all(target_arch = "arm", feature = "semihosting"))]
pub use cortex_m_board::CortexM;
pub use failure::Failure;
pub use linked::{Aligned, Linked, NewSession, with_logits, without_logits};
pub use memory::{KvF16, KvF32, KvQ8, Memory, Work};
pub use model_fault::ModelFault;
pub use program::{Program, run};
pub use request::{Request, RequestError};
pub use self_test::self_test;
#[cfg(feature = "semihosting")]
pub use semihosted::{Closed, Semihosted};
pub use story::story;
// For the code that `linked_model` generates.
#[cfg(feature = "semihosting")]
pub use semihosting::process::exit;
#[cfg(target_arch = "arm")]
pub use smidgen_console::painted_stack;
pub use smidgen_console::{PAINT, Stack};
pub use smidgen_core::kv_cache::KvType;
pub use smidgen_core::model::Layer;
pub use smidgen_core::session::SessionOptions;
pub use static_cell::{ConstStaticCell, StaticCell};
