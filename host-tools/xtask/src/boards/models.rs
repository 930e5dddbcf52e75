//! The models that boards are tested and measured with.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use crate::build;
use crate::process::{output, root, target_dir};

/// The types of weights, as they stand in file names.
pub(super) const TYPES: &[&str] = &["Q8_0", "Q5_0", "Q4_0", "F32"];

/// stories260K with weights of a type, converted and quantized by `smidgen`, if the folder of shared
/// test material is there. Where blocks need it, the feed-forward size is padded.
///
/// # Errors
/// `smidgen` does not build, or it fails.
pub(super) fn stories(ty: &str) -> Result<Option<PathBuf>> {
    let shared = match std::env::var_os("SMIDGEN_SHARED") {
        Some(dir) => PathBuf::from(dir),
        None => root().join("../shared"),
    };
    let (checkpoint, vocab) = (
        shared.join("models/stories260K.bin"),
        shared.join("models/tok512.bin"),
    );
    if !checkpoint.is_file() || !vocab.is_file() {
        return Ok(None);
    }
    let smidgen = build::smidgen()?;
    let folder = target_dir().join("models");
    fs::create_dir_all(&folder)?;
    let path = |ty: &str| folder.join(format!("stories260K-{ty}.gguf"));
    let mut convert = Command::new(&smidgen);
    convert
        .args(["convert", "--quiet", "--force"])
        .arg(checkpoint);
    convert.arg("--vocab").arg(vocab).arg("-o").arg(path("F32"));
    output(&mut convert)?;
    if ty != "F32" {
        let mut quantize = Command::new(&smidgen);
        quantize.args(["quantize", "--quiet", "--force"]);
        quantize.arg(path("F32")).arg(path(ty)).arg(ty);
        output(&mut quantize)?;
    }
    Ok(Some(path(ty)))
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
