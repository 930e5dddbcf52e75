//! The model that is linked into the firmware.

use smidgen_core::model::Model;
use smidgen_core::session::{Buffers, Session, SessionError, SessionOptions};

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
    /// Whether there is a buffer for logits; without, tokens are chosen from chunks of them.
    pub has_logits: bool,
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
        if self.has_logits {
            Session::new(model, self.options, buffers)
        } else {
            Session::without_logits(model, self.options, buffers)
        }
    }

    /// Whether the bytes are those that were linked: flash can be read wrongly, or have been
    /// written wrongly.
    #[must_use]
    pub fn is_intact(&self) -> bool {
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        for &byte in self.model {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
        hash == self.checksum
    }
}
