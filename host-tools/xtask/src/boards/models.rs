//! The models that boards are tested and measured with.

use std::path::{Path, PathBuf};

use crate::process::root;

/// The types of weights, as they stand in file names.
pub(super) const TYPES: &[&str] = &["Q8_0", "Q5_0", "Q4_0", "F32"];

/// stories260K with weights of a type, if the folder of shared test material is there.
pub(super) fn stories(ty: &str) -> Option<PathBuf> {
    let shared = match std::env::var_os("SMIDGEN_SHARED") {
        Some(dir) => PathBuf::from(dir),
        None => root().join("../shared"),
    };
    let file = shared.join(format!("golden/stories260K/gguf/stories260K-{ty}.gguf"));
    file.is_file().then_some(file)
}

/// The type in a file's name, or `-`.
pub(super) fn type_of(model: &Path) -> &'static str {
    let name = model.file_stem().unwrap_or_default().to_string_lossy();
    TYPES
        .iter()
        .find(|ty| name.ends_with(**ty))
        .copied()
        .unwrap_or("-")
}
