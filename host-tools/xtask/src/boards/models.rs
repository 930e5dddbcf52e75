//! The models that boards are tested and measured with.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use super::Board;
use crate::build;
use crate::process::{output, root, target_dir};

/// The types of weights, as they stand in file names. With `-pure` behind it, the type is also that
/// of the embedding.
pub(super) const TYPES: &[&str] = &["Q8_0", "Q5_0", "Q4_0", "F32"];

/// The type for boards that none of [`TYPES`] fits: that of the embedding too.
const SMALLEST: &str = "Q4_0-pure";

/// A checkpoint with its vocabulary, from which models of all types are made.
#[derive(Clone, Debug)]
pub(super) struct Checkpoint {
    name: &'static str,
    weights: PathBuf,
    vocab: PathBuf,
}

/// The one that ships with the project.
pub(super) fn shipped() -> Checkpoint {
    let folder = root().join("examples/models");
    Checkpoint {
        name: "smidgen-260k",
        weights: folder.join("smidgen-260k.bin"),
        vocab: folder.join("smidgen-260k-tokenizer.bin"),
    }
}

/// stories260K, if the folder of shared test material is there.
///
/// # Errors
/// It is not, but `SMIDGEN_REQUIRE_SHARED` is 1.
pub(super) fn stories() -> Result<Option<Checkpoint>> {
    let shared = match std::env::var_os("SMIDGEN_SHARED") {
        Some(dir) => PathBuf::from(dir),
        None => root().join("../shared"),
    };
    let checkpoint = Checkpoint {
        name: "stories260K",
        weights: shared.join("models/stories260K.bin"),
        vocab: shared.join("models/tok512.bin"),
    };
    if checkpoint.weights.is_file() && checkpoint.vocab.is_file() {
        return Ok(Some(checkpoint));
    }
    let required = std::env::var_os("SMIDGEN_REQUIRE_SHARED").is_some_and(|value| value == "1");
    ensure!(
        !required,
        "SMIDGEN_REQUIRE_SHARED=1, but {} is not there",
        checkpoint.weights.display()
    );
    Ok(None)
}

/// The models of [`TYPES`] that fit into the flash of a board, else one that is smaller: of
/// stories260K, and one of the model that ships. Where there is no stories260K, all are of that.
///
/// # Errors
/// As for [`Checkpoint::model`].
pub(super) fn fitting(board: Board) -> Result<Vec<PathBuf>> {
    let shipped = shipped();
    let Some(stories) = stories()? else {
        return shipped.fitting(board);
    };
    let mut models = stories.fitting(board)?;
    models.extend(shipped.fitting(board)?.into_iter().next());
    Ok(models)
}

/// The model that a board has if none is named: the first of those that fit.
///
/// # Errors
/// As for [`Checkpoint::model`].
pub(super) fn default(board: Board) -> Result<PathBuf> {
    let first = fitting(board)?.into_iter().next();
    first.with_context(|| format!("no model fits {}", board.name))
}

impl Checkpoint {
    fn fitting(&self, board: Board) -> Result<Vec<PathBuf>> {
        let memory = &board.row.memory;
        let code = if memory.model == memory.code {
            memory.code_bytes
        } else {
            0
        };
        let mut models = Vec::new();
        for ty in TYPES {
            let model = self.model(ty)?;
            let bytes = fs::metadata(&model).map_or(u64::MAX, |file| file.len());
            if code.saturating_add(bytes) <= memory.model.len {
                models.push(model);
            }
        }
        if models.is_empty() {
            models.push(self.model(SMALLEST)?);
        }
        Ok(models)
    }

    /// The model with weights of a type, converted and quantized by `smidgen`. Where blocks need it,
    /// the feed-forward size is padded.
    ///
    /// # Errors
    /// `smidgen` does not build, or it fails.
    pub(super) fn model(&self, ty: &str) -> Result<PathBuf> {
        let smidgen = build::smidgen()?;
        let folder = target_dir().join("models");
        fs::create_dir_all(&folder)?;
        let path = |ty: &str| folder.join(format!("{}-{ty}.gguf", self.name));
        let mut convert = Command::new(&smidgen);
        convert.args(["convert", "--quiet", "--force"]);
        convert.arg(&self.weights).arg("--vocab").arg(&self.vocab);
        output(convert.arg("-o").arg(path("F32")))?;
        if ty != "F32" {
            let mut quantize = Command::new(&smidgen);
            quantize.args(["quantize", "--quiet", "--force"]);
            let pure = ty.strip_suffix("-pure");
            quantize.args(pure.map(|_| "--pure"));
            quantize.arg(path("F32")).arg(path(ty));
            output(quantize.arg(pure.unwrap_or(ty)))?;
        }
        Ok(path(ty))
    }
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
