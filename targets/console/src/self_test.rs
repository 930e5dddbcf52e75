//! Whether the chip computes as all others do.

use smidgen_core::session::{Session, SessionError};
use smidgen_core::{LogitsHash, ModelImage};

/// What a model's image holds as [`ModelImage::logits_hash`], computed here. The session is at
/// position 0 before and behind it.
///
/// # Errors
/// What [`Session::step`] reports.
pub fn logits_hash(session: &mut Session<'_>) -> Result<u64, SessionError> {
    let n_vocab = session.model().hyperparameters.n_vocab;
    let n_vocab = u32::try_from(n_vocab).unwrap_or(u32::MAX);
    let mut hash = LogitsHash::new();
    session.reset();
    for at in 0..ModelImage::TEST_TOKENS {
        let logits = session.step(ModelImage::test_token(at, n_vocab))?;
        hash.update(logits);
    }
    session.reset();
    Ok(hash.value())
}
