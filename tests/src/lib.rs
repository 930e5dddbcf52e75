//! What the end-to-end tests of Smidgen share.

pub mod cases;
mod command;
pub mod reference;
mod shared;
mod walk;

pub use command::{Done, Smidgen, binary, example};
pub use shared::{models, repository, shared};
pub use walk::{feed, walk};
