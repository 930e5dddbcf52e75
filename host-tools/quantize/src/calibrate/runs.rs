//! Running models that lie in memory.

use std::fmt;

use smidgen_core::{
    gguf::Gguf,
    kv_cache::KvType,
    model::{Layer, Model},
    session::{Plan, SessionOptions},
};
use smidgen_io::SessionMemory;

/// Why a model could not be run, with the cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CalibrateError(String);

impl CalibrateError {
    pub(crate) fn new(cause: &impl fmt::Display) -> Self {
        Self(cause.to_string())
    }
}

impl fmt::Display for CalibrateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the model cannot be run: {}", self.0)
    }
}

impl std::error::Error for CalibrateError {}

/// Does something with the model in a file.
pub(crate) fn with_model<R>(
    file: &[u8],
    job: impl FnOnce(&Model<'_>) -> Result<R, CalibrateError>,
) -> Result<R, CalibrateError> {
    let gguf = super::parse(file)?;
    // A layer has tensors, so that their number bounds a count that is beyond all reason.
    let layers = Model::layers_len(&gguf).min(Gguf::tensor_count(&gguf) + 1);
    let mut layers = vec![Layer::EMPTY; layers];
    let parts = [gguf];
    let model = Model::load(&parts, &mut layers);
    job(&model.map_err(|error| CalibrateError::new(&error))?)
}

/// Options for sequences of this many tokens, and the memory for a session.
pub(crate) fn memory(model: &Model<'_>, len: usize) -> (SessionOptions, SessionMemory) {
    let options = SessionOptions {
        kv: KvType::F32,
        window: len.max(1),
        ring: false,
        batch: len.clamp(1, 32),
    };
    let plan = Plan::new(model, &options);
    (options, SessionMemory::new(&plan, &options))
}
