//! Check, identify, compare and edit GGUF files: what the commands `verify`, `meta`, `tensors`,
//! `hash`, `diff`, `vocab` and `name` do, for other programs.

mod check;
mod diff;
mod error;
mod hash;
pub mod json;
mod model_keys;
mod name;
mod pattern;
mod printable;
mod rewrite;
mod split;
mod typed;
mod usage;
mod verify;
mod vocab;

pub use diff::{Difference, Distance, KeyDifference, TensorDifference, diff};
pub use error::EditError;
pub use hash::{Checked, Hash, HashKind, Manifest, hash};
pub use name::{NameError, name};
pub use pattern::{Glob, Rename};
pub use printable::printable;
pub use rewrite::{Rewrite, Target};
pub use split::Split;
pub use typed::TypeSpec;
pub use usage::{Part, PartKind, Usage};
pub use verify::{Contents, Finding, Verdict, verify};
pub use vocab::{escape, unescape};
