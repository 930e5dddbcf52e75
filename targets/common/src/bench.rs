//! The program that counts the instructions of a step.

use core::mem::take;

use smidgen_core::gguf::Gguf;
use smidgen_core::model::Model;
use smidgen_core::sampler::{Each, SamplerSettings};
use smidgen_core::session::Session;
use smidgen_core::tokenizer::Vocabulary;

use crate::program::say;
use crate::{Counter, Failure, Linked, Memory, Request};

/// Counts the instructions of each step, with the classifier and without the choice of a token,
/// over as many positions as asked for, from BOS on and greedily. Prints those of the first
/// position, those of the last, and the mean.
///
/// # Errors
/// A model that cannot be run, no room.
pub fn bench<B: Counter>(
    board: &mut B,
    linked: &Linked,
    memory: &'static mut Memory,
    request: &Request<'static>,
) -> Result<(), &'static Failure> {
    let gguf = Gguf::parse_small(linked.model)?;
    let vocabulary = Vocabulary::load(&gguf, take(&mut memory.index))?;
    let model = Model::load(&[gguf], take(&mut memory.layers))?;
    let session = linked.session(&model, memory.take_buffers())?;
    let mut session = session.with_backend(request.backend);
    let mut id = vocabulary.bos().unwrap_or(0);
    let (mut first, mut last, mut sum) = (None, 0, 0);
    for _ in 0..request.tokens {
        let before = board.instructions();
        step(&mut session, id)?;
        last = board.instructions() - before;
        first.get_or_insert(last);
        sum += last;
        id = likeliest(&mut session)?;
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

/// Takes a token and computes all logits, be it in chunks.
fn step(session: &mut Session<'_>, id: u32) -> Result<(), &'static Failure> {
    if session.is_in_chunks() {
        session.take(&[id])?;
        session.logits_in_chunks(&mut |_, _| {})?;
    } else {
        session.step(id)?;
    }
    Ok(())
}

fn likeliest(session: &mut Session<'_>) -> Result<u32, &'static Failure> {
    let settings = SamplerSettings::GREEDY;
    if session.is_in_chunks() {
        let mut pass = |each: &mut Each<'_>| Ok(session.logits_in_chunks(each)?);
        return settings.choose_in_passes(&mut pass, &[], &mut [], || 0.0);
    }
    Ok(settings.choose(session.logits_mut()?, &[], &mut [], || 0.0)?)
}
