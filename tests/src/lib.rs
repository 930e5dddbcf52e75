//! What the end-to-end tests of Smidgen share.

pub mod cases;
mod command;
mod shared;

pub use command::{Done, Smidgen};
pub use shared::shared;
