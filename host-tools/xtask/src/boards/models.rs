//! The models that boards are tested and measured with.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use super::Board;
use crate::build;
use crate::process::{output, root, target_dir};

/// The types of weights, as they stand in file names. With `-pure` behind it, the type is also that
/// of the embedding.
pub(super) const TYPES: &[&str] = &["Q8_0", "Q5_0", "Q4_0", "F32"];

/// The type for boards that none of [`TYPES`] fits: that of the embedding too.
const SMALLEST: &str = "Q4_0-pure";

/// The models of [`TYPES`] that fit into the flash of a board, else one that is smaller.
///
/// # Errors
/// As for [`stories`].
pub(super) fn fitting(board: Board) -> Result<Vec<PathBuf>> {
    let memory = &board.row.memory;
    let code = if memory.model == memory.code {
        memory.code_bytes
    } else {
        0
    };
    let mut models = Vec::new();
    for ty in TYPES {
        models.extend(stories(ty)?);
    }
    let fits = |model: &PathBuf| {
        let bytes = fs::metadata(model).map_or(u64::MAX, |file| file.len());
        code.saturating_add(bytes) <= memory.model.len
    };
    models.retain(fits);
    if models.is_empty() {
        models.extend(stories(SMALLEST)?);
    }
    Ok(models)
}

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
        let pure = ty.strip_suffix("-pure");
        quantize.args(pure.map(|_| "--pure"));
        quantize
            .arg(path("F32"))
            .arg(path(ty))
            .arg(pure.unwrap_or(ty));
        output(&mut quantize)?;
    }
    Ok(Some(path(ty)))
}

/// The type in a file's name, or `-`.
pub(super) fn type_of(model: &Path) -> &'static str {
    let name = model.file_stem().unwrap_or_default().to_string_lossy();
    let name = name.trim_end_matches("-pure");
    TYPES
        .iter()
        .find(|ty| name.ends_with(**ty))
        .copied()
        .unwrap_or("-")
}
