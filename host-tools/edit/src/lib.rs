//! Check, identify, compare and edit GGUF files: what the commands `verify`, `meta`, `tensors`,
//! `hash`, `diff`, `vocab` and `name` do, for other programs.

pub mod json;
mod model_keys;
mod printable;
mod split;
mod usage;
mod verify;

pub use printable::printable;
pub use split::Split;
pub use usage::{Part, PartKind, Usage};
pub use verify::{Contents, Finding, Verdict, verify};
