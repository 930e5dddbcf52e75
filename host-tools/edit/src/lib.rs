//! Check, identify, compare and edit GGUF files: what the commands `verify`, `meta`, `tensors`,
//! `hash`, `diff`, `vocab` and `name` do, for other programs.

mod check;
mod error;
pub mod json;
mod model_keys;
mod pattern;
mod printable;
mod rewrite;
mod split;
mod typed;
mod usage;
mod verify;

pub use error::EditError;
pub use pattern::{Glob, Rename};
pub use printable::printable;
pub use rewrite::{Rewrite, Target};
pub use split::Split;
pub use typed::TypeSpec;
pub use usage::{Part, PartKind, Usage};
pub use verify::{Contents, Finding, Verdict, verify};
