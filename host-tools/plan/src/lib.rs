//! The boards that Smidgen knows, and what of a model goes where in their memory.
//!
//! The table of [`BOARDS`] is the only place that has their numbers: `smidgen plan`, `cargo xtask`
//! and the build scripts of the firmware read it. [`Footprint`] has the lengths of all buffers of a
//! firmware; the build scripts make them of it, so that what is planned is what is linked.

mod board;
mod boards;
mod footprint;
mod placement;

pub use board::{Board, Firmware, Image, Memory, Qemu, Region};
pub use boards::{BOARDS, find, generic};
pub use footprint::{Footprint, FootprintError};
pub use placement::{Part, PartKind, Place, Placement, largest_window, room_for_model};
