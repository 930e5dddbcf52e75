//! A run of a model: tokens in, logits out, keys and values kept between.

mod buffers;
mod chunks;
mod generate;
mod memory;
mod prefix;
mod probe;
mod step;
mod stop_text;

pub use buffers::{Buffers, Plan, SessionOptions};
pub use generate::{
    GenerateError, GenerateOptions, Generated, Generator, GeneratorBuffers, Mask, Prompt, Sink,
    StopReason, Watch,
};
pub use prefix::PrefixError;
pub use probe::{Probe, Tap};
pub use step::Progress;
pub use stop_text::held_len;

use crate::kernels::Backend;
use crate::kv_cache::{KvCache, KvError, KvLayout};
use crate::message::{Message, display_message};
use crate::model::Model;
use crate::ops::{Parallel, Pause, Spread, phase_steps};
use generate::Choose;
use step::Pass;

/// Why a session cannot be made or go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum SessionError {
    /// The KV cache does not fit its buffers.
    Kv(KvError),
    /// A buffer is smaller than the plan says.
    BufferTooSmall {
        /// Which one: the field of [`Buffers`].
        buffer: &'static str,
        /// Elements needed.
        needed: usize,
        /// Elements given.
        given: usize,
    },
    /// No token was given.
    NoTokens,
    /// More tokens at once than [`SessionOptions::batch`].
    BatchTooLarge {
        /// Tokens given.
        given: usize,
        /// The most at once.
        batch: usize,
    },
    /// A token that the vocabulary does not have.
    Token {
        /// The token.
        id: u32,
        /// Tokens of the vocabulary.
        n_vocab: usize,
    },
    /// All positions of the cache are taken, and it is no ring.
    ContextFull {
        /// Positions of the cache.
        window: usize,
        /// Positions that would be needed.
        needed: usize,
    },
    /// A step is half done: [`Session::advance`] finishes it.
    Busy,
    /// There is nothing to advance.
    Idle,
    /// No logits have been computed for the position: nothing has been taken yet, or the session
    /// has been set back or restored.
    NoLogits,
    /// The session has no buffer for logits: [`Session::logits_in_chunks`] computes them.
    InChunks,
    /// A logit is NaN or infinite: weights or activations overflowed.
    NotFinite {
        /// The first such token.
        id: u32,
    },
}

impl From<KvError> for SessionError {
    fn from(error: KvError) -> Self {
        Self::Kv(error)
    }
}

impl SessionError {
    pub(crate) fn describe(&self, message: &mut Message<'_>) {
        match *self {
            Self::Kv(error) => {
                error.describe(message);
                message
            }
            Self::BufferTooSmall {
                buffer,
                needed,
                given,
            } => message
                .say("buffer $ needs # elements, # were given")
                .words([buffer])
                .sizes([needed, given]),
            Self::NoTokens => message.say("no token was given"),
            Self::BatchTooLarge { given, batch } => message
                .say("# tokens were given at once, at most # are allowed")
                .sizes([given, batch]),
            Self::Token { id, n_vocab } => message
                .say("token # does not exist, the vocabulary has #")
                .numbers([id.into(), n_vocab as u64]),
            Self::ContextFull { window, needed } => message
                .say("context full: # positions are needed, the cache has #")
                .sizes([needed, window]),
            Self::Busy => message.say("a step is half done"),
            Self::Idle => message.say("no step has been started"),
            Self::NoLogits => message.say("no logits have been computed for this position"),
            Self::InChunks => message.say("the session has no room for all logits at once"),
            Self::NotFinite { id } => message
                .say("the logit of token # is not finite")
                .numbers([id.into()]),
        };
    }
}

display_message!(SessionError);

/// A run of a model. All memory is the caller's: [`Plan`] tells how much, [`Buffers`] hands it over.
///
/// Batching, threads, steps that yield, a restored prefix: no way of getting there changes a bit of
/// the logits.
pub struct Session<'b> {
    model: &'b Model<'b>,
    backend: Backend,
    spread: Spread<'b>,
    probe: Option<&'b mut Probe<'b>>,
    options: SessionOptions,
    cache: KvCache<'b>,
    floats: &'b mut [f32],
    q8: &'b mut [crate::quant::Q8Act],
    q8k: &'b mut [crate::quant::Q8KAct],
    ints: &'b mut [i16],
    steps: &'b mut [u64],
    plan: Plan,
    /// How a generator chooses: a program that makes sessions of one kind has the code for one.
    choose: Choose,
    position: usize,
    pass: Option<Pass>,
    /// Whether the logits, or what goes into the classifier, are those behind the last token.
    has_logits: bool,
}

impl<'b> Session<'b> {
    /// A session at position 0.
    ///
    /// # Errors
    /// A buffer is smaller than [`Plan::new`] says for the same options.
    pub fn new(
        model: &'b Model<'b>,
        options: SessionOptions,
        buffers: Buffers<'b>,
    ) -> Result<Self, SessionError> {
        let plan = Plan::new(model, &options);
        Self::with_plan(model, options, plan, generate::choose_at_once, buffers)
    }

    #[inline(never)] // A frame of its own: boards have little stack.
    fn with_plan(
        model: &'b Model<'b>,
        options: SessionOptions,
        plan: Plan,
        choose: Choose,
        buffers: Buffers<'b>,
    ) -> Result<Self, SessionError> {
        let hp = &model.hyperparameters;
        let layout = KvLayout::new(hp, options.kv, options.window);
        let cache = KvCache::new(layout, buffers.kv)?;
        let lengths = [
            ("floats", plan.floats, buffers.floats.len()),
            ("q8", plan.q8, buffers.q8.len()),
            ("q8k", plan.q8k, buffers.q8k.len()),
            ("ints", plan.ints, buffers.ints.len()),
            ("steps", plan.steps, buffers.steps.len()),
        ];
        for (buffer, needed, given) in lengths {
            if given < needed {
                return Err(SessionError::BufferTooSmall {
                    buffer,
                    needed,
                    given,
                });
            }
        }
        let steps = buffers.steps.get_mut(..plan.steps).unwrap_or_default();
        phase_steps(hp, steps);
        Ok(Self {
            model,
            backend: Backend::best(),
            spread: Spread::AtOnce,
            probe: None,
            options,
            cache,
            floats: buffers.floats,
            q8: buffers.q8,
            q8k: buffers.q8k,
            ints: buffers.ints,
            steps,
            plan,
            choose,
            position: 0,
            pass: None,
            has_logits: false,
        })
    }

    /// A session at position 0 whose buffers all lie in `memory`, which holds [`Plan::words`] or
    /// more. What it holds does not matter.
    ///
    /// # Errors
    /// The memory is too short; the model cannot be run with these options.
    pub fn in_memory(
        model: &'b Model<'b>,
        options: SessionOptions,
        memory: &'b mut [u64],
    ) -> Result<Self, SessionError> {
        let plan = Plan::new(model, &options);
        Self::new(model, options, Buffers::cut(&plan, options.kv, memory)?)
    }

    /// Uses another back end than the fastest.
    #[must_use]
    pub fn with_backend(mut self, backend: Backend) -> Self {
        self.backend = backend;
        self
    }

    /// Spreads large products over threads.
    #[must_use]
    pub fn with_parallel(mut self, parallel: &'b dyn Parallel) -> Self {
        self.spread = Spread::over_threads(parallel);
        self
    }

    /// Calls a function between pieces of every step, for a caller with other duties; then nothing
    /// is spread over threads.
    #[must_use]
    pub fn with_pause(mut self, pause: &'b mut Pause<'b>) -> Self {
        self.spread = Spread::in_pieces(pause);
        self
    }

    /// Shows a function what goes into every matrix; importances are measured so.
    #[must_use]
    pub fn with_probe(mut self, probe: &'b mut Probe<'b>) -> Self {
        self.probe = Some(probe);
        self
    }

    /// The model.
    #[must_use]
    pub fn model(&self) -> &'b Model<'b> {
        self.model
    }

    /// The options that it was made with.
    #[must_use]
    pub fn options(&self) -> &SessionOptions {
        &self.options
    }

    /// The back end in use.
    #[must_use]
    pub fn backend(&self) -> Backend {
        self.backend
    }

    /// How many positions are behind: the position of the next token.
    #[must_use]
    pub fn position(&self) -> usize {
        self.position
    }

    /// Back to position 0.
    pub fn reset(&mut self) {
        self.position = 0;
        self.pass = None;
        self.has_logits = false;
    }

    /// Back to an earlier position, as if what came later had not been; `false` if a ring has
    /// overwritten what would be needed, or `position` lies ahead.
    pub fn truncate(&mut self, position: usize) -> bool {
        let wrapped = self.position > self.options.window && position < self.position;
        if position > self.position || wrapped {
            return false;
        }
        self.has_logits &= position == self.position;
        self.position = position;
        self.pass = None;
        true
    }

    /// Takes a token and gives the logits behind it.
    ///
    /// # Errors
    /// An unknown token, no room, a step that is half done, logits that are not finite.
    pub fn step(&mut self, token: u32) -> Result<&[f32], SessionError> {
        self.prompt(&[token])
    }

    /// Takes one or more tokens, as many at a time as [`SessionOptions::batch`], and gives the
    /// logits behind the last.
    ///
    /// # Errors
    /// As [`step`](Self::step). Room and all tokens are checked first: on such an error nothing has
    /// been taken.
    pub fn prompt(&mut self, tokens: &[u32]) -> Result<&[f32], SessionError> {
        self.check_whole()?;
        self.take(tokens)?;
        self.logits()
    }

    /// As [`prompt`](Self::prompt), for who does not want to see the logits yet.
    ///
    /// # Errors
    /// As [`prompt`](Self::prompt), but logits that are not finite show only when they are asked
    /// for.
    pub fn take(&mut self, tokens: &[u32]) -> Result<(), SessionError> {
        self.check(tokens)?;
        let mut left = tokens;
        let mut last = 0;
        while !left.is_empty() {
            let (batch, rest) = left.split_at(left.len().min(self.options.batch.max(1)));
            left = rest;
            last = batch.len() - 1;
            // Only behind the last token of all.
            let wanted = if rest.is_empty() { last } else { batch.len() };
            self.pass(batch, wanted)?;
        }
        self.classify(last);
        Ok(())
    }

    /// As [`prompt`](Self::prompt), but computes the logits behind every token and hands them to
    /// `each` with the token's index.
    ///
    /// # Errors
    /// As [`prompt`](Self::prompt); logits that are not finite end it where they come up.
    pub fn prompt_each(
        &mut self,
        tokens: &[u32],
        mut each: impl FnMut(usize, &[f32]),
    ) -> Result<(), SessionError> {
        self.check_whole()?;
        self.check(tokens)?;
        let mut index = 0;
        for batch in tokens.chunks(self.options.batch.max(1)) {
            self.pass(batch, 0)?;
            for of_batch in 0..batch.len() {
                self.classify(of_batch);
                each(index, self.logits()?);
                index += 1;
            }
        }
        Ok(())
    }

    /// The logits behind the last token.
    ///
    /// # Errors
    /// One of them is NaN or infinite, or none have been computed since the session was set back or
    /// restored.
    pub fn logits(&self) -> Result<&[f32], SessionError> {
        self.check_whole()?;
        self.check_logits()?;
        let logits = self.floats.get(self.plan.logits()).unwrap_or_default();
        match self.first_not_finite(logits) {
            None => Ok(logits),
            Some(id) => Err(SessionError::NotFinite { id }),
        }
    }

    /// The logits behind the last token, to be changed: by a mask, or by a sampler that works in
    /// place.
    ///
    /// # Errors
    /// As [`logits`](Self::logits).
    pub fn logits_mut(&mut self) -> Result<&mut [f32], SessionError> {
        self.logits()?;
        Ok(self.floats.get_mut(self.plan.logits()).unwrap_or_default())
    }

    /// The first token whose logit is NaN or infinite.
    fn first_not_finite(&self, logits: &[f32]) -> Option<u32> {
        if self.backend.largest_magnitude(logits) < f32::INFINITY.to_bits() {
            return None;
        }
        let at = logits.iter().position(|logit| !logit.is_finite());
        at.and_then(|at| u32::try_from(at).ok())
    }

    fn check_logits(&self) -> Result<(), SessionError> {
        if self.pass.is_some() {
            return Err(SessionError::Busy);
        }
        if !self.has_logits {
            return Err(SessionError::NoLogits);
        }
        Ok(())
    }

    fn check(&self, tokens: &[u32]) -> Result<(), SessionError> {
        if tokens.is_empty() {
            return Err(SessionError::NoTokens);
        }
        if self.pass.is_some() {
            return Err(SessionError::Busy);
        }
        let n_vocab = self.model.hyperparameters.n_vocab;
        let exists = |&id: &u32| usize::try_from(id).is_ok_and(|id| id < n_vocab);
        if let Some(&id) = tokens.iter().find(|id| !exists(id)) {
            return Err(SessionError::Token { id, n_vocab });
        }
        let window = self.options.window;
        let needed = self.position + tokens.len();
        if !self.options.ring && needed > window {
            return Err(SessionError::ContextFull { window, needed });
        }
        Ok(())
    }
}

impl core::fmt::Debug for Session<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Session")
            .field("options", &self.options)
            .field("backend", &self.backend)
            .field("position", &self.position)
            .field("pass", &self.pass)
            .finish_non_exhaustive()
    }
}
