//! Whether a change makes a file worse.

use smidgen_core::{
    gguf::{Gguf, keys},
    model::{Layer, Model},
    tokenizer::Vocabulary,
};
use smidgen_io::FileBytes;

use crate::{EditError, Finding, verify};

/// What was wrong before the change.
#[derive(Debug)]
pub(crate) struct Before {
    faults: Vec<String>,
    runs: bool,
}

impl Before {
    /// `as_model` is false where it may change whether the engine runs the file.
    pub(crate) fn of(bytes: &FileBytes, gguf: &Gguf<'_>, as_model: bool) -> Self {
        let faults = verify(bytes, None).faults;
        Self {
            faults: faults.into_iter().map(|fault| fault.message).collect(),
            runs: as_model && engine_fault(gguf).is_none(),
        }
    }
}

/// Refuses a changed file that has faults which the file before had not, or that the engine does
/// not run any more. With `force` only what no reader takes is refused.
pub(crate) fn not_worse(before: &Before, after: &FileBytes, force: bool) -> Result<(), EditError> {
    let gguf = after.gguf()?;
    if force {
        return Ok(());
    }
    let is_new = |fault: &Finding| !before.faults.contains(&fault.message);
    let faults = verify(after, None).faults;
    let mut faults: Vec<_> = faults
        .into_iter()
        .filter(is_new)
        .map(|fault| fault.message)
        .collect();
    if before.runs {
        faults.extend(engine_fault(&gguf));
    }
    if faults.is_empty() {
        return Ok(());
    }
    Err(EditError::Worse { faults })
}

/// Why the engine would not run a model; `None` for one that it runs, and for what is no llama.
fn engine_fault(gguf: &Gguf<'_>) -> Option<String> {
    if gguf.get_str(keys::GENERAL_ARCHITECTURE) != Ok(Some("llama")) || gguf.tensor_count() == 0 {
        return None;
    }
    let count = Model::layers_len(gguf);
    // Each layer has tensors of its own; a count beyond that is not worth the memory.
    if count > gguf.tensor_count() {
        return Some(format!("{count} layers are more than there are tensors"));
    }
    let mut layers = vec![Layer::EMPTY; count];
    let model = match Model::load(&[*gguf], &mut layers) {
        Ok(model) => model,
        Err(error) => return Some(error.to_string()),
    };
    let mut index = vec![0; Vocabulary::index_len(gguf)];
    let vocabulary = match Vocabulary::load(gguf, &mut index) {
        Ok(vocabulary) => vocabulary,
        Err(error) => return Some(error.to_string()),
    };
    let (tokens, rows) = (vocabulary.len(), model.hyperparameters.n_vocab);
    let same = usize::try_from(tokens) == Ok(rows);
    (!same).then(|| format!("there are {tokens} tokens and embeddings of {rows}"))
}
