//! The model that is linked into the firmware.

use smidgen_core::model::Model;
use smidgen_core::session::{Buffers, Session, SessionError, SessionOptions};

use crate::{Failure, ModelFault};

/// Makes a session. A pointer, so that only the code of one kind is linked.
pub type NewSession =
    for<'b> fn(&'b Model<'b>, SessionOptions, Buffers<'b>) -> Result<Session<'b>, SessionError>;

/// A session with a buffer for logits.
///
/// # Errors
/// A buffer is too small.
pub fn with_logits<'b>(
    model: &'b Model<'b>,
    options: SessionOptions,
    buffers: Buffers<'b>,
) -> Result<Session<'b>, SessionError> {
    Session::new(model, options, buffers)
}

/// A session without a buffer for logits: tokens are chosen from chunks of them.
///
/// # Errors
/// A buffer is too small.
pub fn without_logits<'b>(
    model: &'b Model<'b>,
    options: SessionOptions,
    buffers: Buffers<'b>,
) -> Result<Session<'b>, SessionError> {
    Session::without_logits(model, options, buffers)
}

/// Bytes at an address that a GGUF file may lie at: its alignment holds for its tensors only if the
/// file itself is aligned.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Aligned<const N: usize>(pub [u8; N]);

/// A linked model and how it is to be run; made by the build script.
#[derive(Clone, Copy, Debug)]
pub struct Linked {
    /// The GGUF file.
    pub model: &'static [u8],
    /// FNV-1a with 64 bits over the file, as the build script found it.
    pub checksum: u64,
    /// Kind and size of the KV cache.
    pub options: SessionOptions,
    /// [`with_logits`] or [`without_logits`].
    pub new_session: NewSession,
}

impl Linked {
    /// A session with the linked model.
    ///
    /// # Errors
    /// A buffer is too small.
    pub fn session<'b>(
        &self,
        model: &'b Model<'b>,
        buffers: Buffers<'b>,
    ) -> Result<Session<'b>, SessionError> {
        (self.new_session)(model, self.options, buffers)
    }

    /// Whether the bytes are those that were linked.
    ///
    /// # Errors
    /// They are not.
    #[inline(never)] // Once, before the stack is needed for more.
    pub fn check(&self) -> Result<(), &'static Failure> {
        match ModelFault::find(self.model, self.checksum) {
            None => Ok(()),
            Some(fault) => Err(fault.into()),
        }
    }
}
