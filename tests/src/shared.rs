//! The folder of test material that is too large, or not ours, to be in this repository.

use std::env;
use std::path::{Path, PathBuf};

/// The folder of shared test material: the one that `SMIDGEN_SHARED` names, else `../shared` beside
/// the repository. `None` where it is not there; a test then returns, having checked nothing, and
/// this function has said so.
///
/// # Panics
/// It is not there, and `SMIDGEN_REQUIRE_SHARED` is `1`.
#[must_use]
pub fn shared() -> Option<PathBuf> {
    let dir = match env::var_os("SMIDGEN_SHARED") {
        Some(dir) => PathBuf::from(dir),
        None => repository().join("../shared"),
    };
    if dir.is_dir() {
        return Some(dir);
    }
    let required = env::var_os("SMIDGEN_REQUIRE_SHARED").is_some_and(|value| value == "1");
    assert!(
        !required,
        "SMIDGEN_REQUIRE_SHARED=1, but there is no folder {}",
        dir.display()
    );
    eprintln!(
        "skipped: no folder {} (SMIDGEN_SHARED names another)",
        dir.display()
    );
    None
}

/// The folder of the model that ships with the project.
#[must_use]
pub fn models() -> PathBuf {
    repository().join("examples/models")
}

/// The repository's root.
#[must_use]
pub fn repository() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here)
}
