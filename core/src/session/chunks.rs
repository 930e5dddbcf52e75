//! Logits a few at a time, for who has no room for all of them.

use super::generate::choose_in_chunks;
use super::{Buffers, Plan, Session, SessionError, SessionOptions};
use crate::model::{Matrix, Model};
use crate::ops::Inputs;

impl<'b> Session<'b> {
    /// A session at position 0 that has no buffer for logits: the classifier is done in chunks of
    /// rows, as often as [`logits_in_chunks`](Self::logits_in_chunks) is called. The bits are those
    /// of a session with a buffer.
    ///
    /// # Errors
    /// A buffer is smaller than [`Plan::without_logits`] says.
    pub fn without_logits(
        model: &'b Model<'b>,
        options: SessionOptions,
        buffers: Buffers<'b>,
    ) -> Result<Self, SessionError> {
        let plan = Plan::new(model, &options).without_logits();
        Self::with_plan(model, options, plan, choose_in_chunks, buffers)
    }

    /// Whether there is no buffer for logits.
    #[must_use]
    pub fn is_in_chunks(&self) -> bool {
        self.plan.logits().is_empty()
    }

    /// Computes the logits behind the last token and hands them to `each`, chunk by chunk in the
    /// order of ids, with the id of the chunk's first. `each` may change them. Every call computes
    /// them anew.
    ///
    /// # Errors
    /// A step is half done, there are no logits for the position, or one of them is NaN or infinite:
    /// then chunks before it have been handed out.
    #[inline(never)] // A frame of its own: boards have little stack.
    pub fn logits_in_chunks(
        &mut self,
        each: &mut dyn FnMut(u32, &mut [f32]),
    ) -> Result<(), SessionError> {
        self.check_logits()?;
        let (backend, spread) = (self.backend, &mut self.spread);
        let n_embd = self.model.hyperparameters.n_embd;
        let parts = self.plan.split(self.floats);
        // What the last token has left in `input` and in the quantized form stays; the room for what
        // a layer computes is free between passes.
        let inputs = Inputs {
            x: parts.input.get(..n_embd).unwrap_or_default(),
            q8: self.q8,
            q8k: self.q8k,
            tokens: 1,
        };
        let output = &self.model.output;
        let rows = parts.middle.len().max(1);
        let mut first = 0;
        for bytes in output.bytes.chunks(rows * output.row_bytes.max(1)) {
            let count = bytes.len() / output.row_bytes.max(1);
            let chunk = parts.middle.get_mut(..count).unwrap_or_default();
            let rows = Matrix { bytes, ..*output };
            inputs.multiply(backend, spread, &rows, chunk);
            if let Some(at) = chunk.iter().position(|logit| !logit.is_finite()) {
                let id = first + u32::try_from(at).unwrap_or(u32::MAX);
                return Err(SessionError::NotFinite { id });
            }
            each(first, chunk);
            first += u32::try_from(count).unwrap_or(u32::MAX);
        }
        Ok(())
    }

    /// An error if there is no buffer for all logits.
    pub(super) fn check_whole(&self) -> Result<(), SessionError> {
        if self.is_in_chunks() {
            return Err(SessionError::InChunks);
        }
        Ok(())
    }
}
