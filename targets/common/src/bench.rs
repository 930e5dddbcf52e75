//! The program that counts the instructions of a step.

use smidgen_core::gguf::Gguf;
use smidgen_core::model::Model;
use smidgen_core::sampler::SamplerSettings;
use smidgen_core::session::Session;
use smidgen_core::tokenizer::Vocabulary;

use crate::program::say;
use crate::{Board, Failure, Linked, Memory, Request};

/// Counts the instructions of each step, with the classifier and without the choice of a token,
/// over as many positions as asked for, from BOS on and greedily. Prints those of the first
/// position, those of the last, and the mean.
///
/// # Errors
/// A model that cannot be run, no room.
pub fn bench<B: Board>(
    board: &mut B,
    linked: &Linked,
    memory: Memory<'_>,
    request: &Request<'static>,
) -> Result<(), Failure> {
    let gguf = Gguf::parse_small(linked.model)?;
    let vocabulary = Vocabulary::load(&gguf, memory.index)?;
    let model = Model::load(&[gguf], memory.layers)?;
    let session = Session::new(&model, linked.options, memory.buffers)?;
    let mut session = session.with_backend(request.backend);
    let mut id = vocabulary.bos().unwrap_or(0);
    let (mut first, mut last, mut sum) = (None, 0, 0);
    for _ in 0..request.tokens {
        let before = board.instructions();
        session.step(id)?;
        last = board.instructions() - before;
        first.get_or_insert(last);
        sum += last;
        let chosen = SamplerSettings::GREEDY.choose(session.logits_mut()?, &[], &mut [], || 0.0);
        id = chosen?;
    }
    let count = u64::try_from(request.tokens.max(1)).unwrap_or(u64::MAX);
    let (first, mean) = (first.unwrap_or(0), (sum + count / 2) / count);
    let backend = request.backend.name();
    say(
        board.console(),
        format_args!("backend {backend}\nfirst {first}\nlast {last}\nmean {mean}\n"),
    );
    Ok(())
}
