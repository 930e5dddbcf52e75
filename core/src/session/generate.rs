//! From a prompt to text: tokens, logits, choice, characters, again and again.

use core::ops::ControlFlow;

use super::stop_text::Matcher;
use super::{Session, SessionError};
use crate::message::{Message, display_message};
use crate::sampler::{Each, Recent, SampleError, Sampler, logit_bias_from};
use crate::tokenizer::{Decoder, EncodeError, EncodeOptions, NoSuchToken, Vocabulary};

/// Takes text as it comes, in whole characters; breaks to have no more.
pub type Sink<'s> = dyn FnMut(&[u8]) -> ControlFlow<()> + 's;

/// Sees the logits before a choice, and may change them.
pub type Mask<'m> = dyn FnMut(&mut [f32]) + 'm;

/// Sees the logits that a token is chosen from, once a choice and before a mask: all of them, or
/// piece by piece in the order of ids, with the id of the piece's first.
pub type Watch<'w> = dyn FnMut(u32, &[f32]) + 'w;

/// What a text begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prompt<'p> {
    /// Bytes to be encoded; BOS comes first if the vocabulary says so and the session is at its
    /// start.
    Text(&'p [u8]),
    /// Ids as they are. None at all goes on from the logits that the session has.
    Ids(&'p [u32]),
}

/// When generating ends, and what of it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GenerateOptions<'o> {
    /// New tokens at most.
    pub max_new_tokens: usize,
    /// Texts that end it; they are not given out. They are found wherever tokens begin and end.
    pub stop_texts: &'o [&'o str],
    /// Forbid EOS and BOS, so that only the other reasons end it.
    pub ignore_eos: bool,
    /// Give out the prompt as well, as its tokens decode.
    pub echo: bool,
}

impl Default for GenerateOptions<'_> {
    /// 128 new tokens, no stop texts, without the prompt.
    fn default() -> Self {
        Self {
            max_new_tokens: 128,
            stop_texts: &[],
            ignore_eos: false,
            echo: false,
        }
    }
}

/// Why generating ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum StopReason {
    /// The token that ends a text was chosen.
    Eos,
    /// The token that begins a text was chosen: some models end a text so.
    Bos,
    /// There are [`GenerateOptions::max_new_tokens`].
    Length,
    /// The last position of the cache is taken, and it is no ring.
    ContextFull,
    /// A stop text came up.
    StopText {
        /// Its index in [`GenerateOptions::stop_texts`].
        index: usize,
    },
    /// The sink wants no more.
    Sink,
}

/// What [`Generator::generate`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Generated {
    /// Tokens of the prompt, with BOS.
    pub prompt_tokens: usize,
    /// Tokens chosen, without a closing EOS or BOS.
    pub new_tokens: usize,
    /// Why it ended.
    pub stop: StopReason,
    /// The last token chosen, which the session has not taken. Begin the next prompt with it to go
    /// on.
    pub last: Option<u32>,
}

/// Why no text can be generated.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum GenerateError {
    /// The prompt cannot be encoded.
    Encode(EncodeError),
    /// The prompt is longer than what is left of the context, and the cache is no ring.
    PromptTooLong {
        /// Tokens of the prompt.
        tokens: usize,
        /// Positions that are left.
        room: usize,
        /// Positions of the cache.
        window: usize,
    },
    /// The model does not have as many tokens as the vocabulary.
    Vocabulary {
        /// Tokens of the vocabulary.
        vocabulary: u32,
        /// Tokens of the model.
        model: usize,
    },
    /// A stop text is empty.
    EmptyStopText,
    /// The buffer for text that may belong to a stop text is too small.
    HeldTooSmall {
        /// Bytes needed.
        needed: usize,
        /// Bytes given.
        given: usize,
    },
    /// A mask wants to see all logits at once, and the session has no buffer for them.
    MaskInChunks,
    /// The session fails.
    Session(SessionError),
    /// No token can be chosen.
    Sample(SampleError),
}

impl From<SessionError> for GenerateError {
    fn from(error: SessionError) -> Self {
        Self::Session(error)
    }
}

impl From<SampleError> for GenerateError {
    fn from(error: SampleError) -> Self {
        Self::Sample(error)
    }
}

impl GenerateError {
    fn describe(&self, message: &mut Message<'_>) {
        match *self {
            Self::Encode(error) => {
                error.describe(message);
                message
            }
            Self::PromptTooLong {
                tokens,
                room,
                window,
            } if room == window => message
                .say("the prompt has # tokens, the context has room for #")
                .sizes([tokens, window]),
            Self::PromptTooLong {
                tokens,
                room,
                window,
            } => message
                .say("the prompt has # tokens, of the # positions of the context # are left")
                .sizes([tokens, window, room]),
            Self::Vocabulary { vocabulary, model } => message
                .say("the vocabulary has # tokens, the model has #")
                .numbers([vocabulary.into(), model as u64]),
            Self::EmptyStopText => message.say("a stop text is empty"),
            Self::HeldTooSmall { needed, given } => message
                .say("stop texts take a buffer of # bytes, # were given")
                .sizes([needed, given]),
            Self::MaskInChunks => message.say("a mask needs a session with a buffer for logits"),
            Self::Session(error) => {
                error.describe(message);
                message
            }
            Self::Sample(error) => {
                error.describe(message);
                message
            }
        };
    }
}

display_message!(GenerateError);

/// Memory for a [`Generator`]. What it holds does not matter.
#[derive(Debug, Default)]
pub struct GeneratorBuffers<'b> {
    /// The ids of a prompt that is given as text: as many as it has tokens.
    pub ids: &'b mut [u32],
    /// For encoding a prompt that is given as text
    /// ([`Vocabulary::scratch_len`] words), and for choosing (of any length, see
    /// [`SamplerSettings::choose`](crate::sampler::SamplerSettings::choose)).
    pub scratch: &'b mut [u32],
    /// Tokens that the repetition penalty looks back on; may be empty.
    pub recent: &'b mut [u32],
    /// Text that may belong to a stop text: [`held_len`](super::held_len) bytes.
    pub held: &'b mut [u8],
}

/// Makes text with a session. It has no memory of its own and can go on with a text.
///
/// [`generate`](Self::generate) does it all. Who has other duties in between takes its parts:
/// [`encode`](Self::encode) for the prompt, [`Session::start`] and [`Session::advance`] for its
/// tokens and each new one, [`choose`](Self::choose) for the next.
pub struct Generator<'g> {
    vocabulary: &'g Vocabulary<'g>,
    sampler: &'g mut Sampler,
    decoder: Decoder,
    recent: Recent<'g>,
    ids: &'g mut [u32],
    scratch: &'g mut [u32],
    held: &'g mut [u8],
    mask: Option<&'g mut Mask<'g>>,
    watch: Option<&'g mut Watch<'g>>,
}

impl<'g> Generator<'g> {
    /// A generator at the start of a text.
    #[must_use]
    pub fn new(
        vocabulary: &'g Vocabulary<'g>,
        sampler: &'g mut Sampler,
        buffers: GeneratorBuffers<'g>,
    ) -> Self {
        Self {
            vocabulary,
            sampler,
            decoder: Decoder::new(),
            recent: Recent::new(buffers.recent),
            ids: buffers.ids,
            scratch: buffers.scratch,
            held: buffers.held,
            mask: None,
            watch: None,
        }
    }

    /// Lets `mask` see the logits before every choice, and change them: forbid tokens, favour
    /// others, hash them.
    #[must_use]
    pub fn with_mask(mut self, mask: &'g mut Mask<'g>) -> Self {
        self.mask = Some(mask);
        self
    }

    /// Shows `watch` the logits of every choice: to hash them.
    #[must_use]
    pub fn with_watch(mut self, watch: &'g mut Watch<'g>) -> Self {
        self.watch = Some(watch);
        self
    }

    /// Takes a prompt and gives out text in whole characters until there is a reason to stop.
    ///
    /// At position 0 of the session a new text begins. When it ends, all text has been given out.
    ///
    /// # Errors
    /// A prompt that cannot be encoded or does not fit, in which case the session is as it was;
    /// what [`Session::prompt`] and [`Sampler::sample`] report.
    pub fn generate(
        &mut self,
        session: &mut Session<'_>,
        prompt: Prompt<'_>,
        options: &GenerateOptions<'_>,
        sink: &mut Sink<'_>,
    ) -> Result<Generated, GenerateError> {
        self.check(session)?;
        let mut matcher = Matcher::new(options.stop_texts, core::mem::take(&mut self.held))?;
        let result = self.run(session, prompt, options, &mut matcher, sink);
        self.held = matcher.into_buffer();
        result
    }

    #[inline(never)] // A frame of its own: boards have little stack.
    fn run(
        &mut self,
        session: &mut Session<'_>,
        prompt: Prompt<'_>,
        options: &GenerateOptions<'_>,
        matcher: &mut Matcher<'_, '_>,
        sink: &mut Sink<'_>,
    ) -> Result<Generated, GenerateError> {
        let start = session.position() == 0;
        let encoded = match prompt {
            Prompt::Text(text) => self.encode_prompt(text, start),
            Prompt::Ids(ids) => Ok(ids.len()),
        };
        let tokens = match encoded {
            Ok(tokens) | Err(EncodeError::OutputLen { needed: tokens, .. }) => tokens,
            Err(_) => 0,
        };
        let window = session.options().window;
        let room = window.saturating_sub(session.position());
        if !session.options().ring && tokens > room {
            return Err(GenerateError::PromptTooLong {
                tokens,
                room,
                window,
            });
        }
        let len = encoded.map_err(GenerateError::Encode)?;
        let ids = match prompt {
            Prompt::Text(_) => self.ids.get(..len).unwrap_or_default(),
            Prompt::Ids(ids) => ids,
        };
        if start {
            self.decoder = Decoder::new();
            self.recent.clear();
        }
        if start || !ids.is_empty() {
            session.take(ids)?;
        }

        let mut flow = ControlFlow::Continue(());
        for &id in ids {
            self.recent.push(id);
            let pushed = self.decoder.push(self.vocabulary, id, &mut |bytes| {
                if options.echo && flow.is_continue() {
                    flow = sink(bytes);
                }
            });
            pushed.map_err(|NoSuchToken { id, .. }| unknown(session, id))?;
        }
        let mut generated = Generated {
            prompt_tokens: len,
            new_tokens: 0,
            stop: StopReason::Length,
            last: None,
        };
        if flow.is_break() {
            generated.stop = StopReason::Sink;
            return Ok(generated);
        }
        while generated.new_tokens < options.max_new_tokens {
            if let Some(last) = generated.last.take() {
                session.take(&[last])?;
            }
            let id = self.choose(session, options.ignore_eos)?;
            if let Some(reason) = self.ends(id).filter(|_| !options.ignore_eos) {
                generated.stop = reason;
                break;
            }
            generated.new_tokens += 1;
            generated.last = Some(id);
            let mut stop = None;
            let pushed = self.decoder.push(self.vocabulary, id, &mut |bytes| {
                if stop.is_none() {
                    stop = matcher.push(bytes, sink).break_value();
                }
            });
            pushed.map_err(|NoSuchToken { id, .. }| unknown(session, id))?;
            if let Some(reason) = stop {
                generated.stop = reason;
                return Ok(generated);
            }
            if !session.options().ring && session.position() >= window {
                generated.stop = StopReason::ContextFull;
                break;
            }
        }
        let mut flow = matcher.finish(sink);
        self.decoder.flush(&mut |bytes| {
            if flow.is_continue() {
                flow = sink(bytes);
            }
        });
        Ok(generated)
    }

    /// The ids of a prompt, with BOS if it is the `start` of a text and the vocabulary says so.
    ///
    /// # Errors
    /// What [`Vocabulary::encode_into`] reports.
    pub fn encode(&mut self, text: &[u8], start: bool) -> Result<&[u32], EncodeError> {
        let len = self.encode_prompt(text, start)?;
        Ok(self.ids.get(..len).unwrap_or_default())
    }

    #[inline(never)] // A frame of its own: boards have little stack.
    fn encode_prompt(&mut self, text: &[u8], start: bool) -> Result<usize, EncodeError> {
        let of_file = self.vocabulary.prompt_options();
        let options = EncodeOptions {
            add_bos: of_file.add_bos && start,
            ..of_file
        };
        self.vocabulary
            .encode_into(text, options, self.scratch, self.ids)
    }

    /// Chooses the token that comes after what the session has taken, and takes note of it for the
    /// repetition penalty. The logits are used up.
    ///
    /// # Errors
    /// What [`Session::logits_mut`] and [`Sampler::sample`] report.
    #[inline(never)] // A frame of its own: boards have little stack.
    pub fn choose(
        &mut self,
        session: &mut Session<'_>,
        ignore_eos: bool,
    ) -> Result<u32, GenerateError> {
        let ends = [self.vocabulary.eos(), self.vocabulary.bos()].map(|id| id.unwrap_or(u32::MAX));
        let forbid = ends.map(|id| (id, f32::NEG_INFINITY));
        let forbidden = if ignore_eos { &forbid[..] } else { &[] };
        let id = (session.choose)(self, session, forbidden)?;
        self.recent.push(id);
        Ok(id)
    }

    /// Why a token ends a text, if it does.
    #[must_use]
    pub fn ends(&self, id: u32) -> Option<StopReason> {
        if self.vocabulary.eos() == Some(id) {
            Some(StopReason::Eos)
        } else if self.vocabulary.bos() == Some(id) {
            Some(StopReason::Bos)
        } else {
            None
        }
    }

    fn check(&self, session: &Session<'_>) -> Result<(), GenerateError> {
        let (vocabulary, model) = (
            self.vocabulary.len(),
            session.model().hyperparameters.n_vocab,
        );
        if usize::try_from(vocabulary) != Ok(model) {
            return Err(GenerateError::Vocabulary { vocabulary, model });
        }
        Ok(())
    }
}

/// Chooses the next token, where some tokens have their logits changed.
pub(super) type Choose =
    fn(&mut Generator<'_>, &mut Session<'_>, &[(u32, f32)]) -> Result<u32, GenerateError>;

#[inline(never)] // A frame of its own: boards have little stack.
pub(super) fn choose_at_once(
    generator: &mut Generator<'_>,
    session: &mut Session<'_>,
    forbidden: &[(u32, f32)],
) -> Result<u32, GenerateError> {
    let logits = session.logits_mut()?;
    if let Some(watch) = &mut generator.watch {
        watch(0, logits);
    }
    if let Some(mask) = &mut generator.mask {
        mask(logits);
    }
    logit_bias_from(0, logits, forbidden);
    let recent = generator.recent.ids();
    let id = generator
        .sampler
        .sample(logits, recent, generator.scratch)?;
    Ok(id)
}

#[inline(never)] // As above.
pub(super) fn choose_in_chunks(
    generator: &mut Generator<'_>,
    session: &mut Session<'_>,
    forbidden: &[(u32, f32)],
) -> Result<u32, GenerateError> {
    if generator.mask.is_some() {
        return Err(GenerateError::MaskInChunks);
    }
    let mut watch = generator.watch.as_mut();
    let mut pass = |each: &mut Each<'_>| -> Result<(), GenerateError> {
        session.logits_in_chunks(&mut |first, logits| {
            if let Some(watch) = &mut watch {
                watch(first, logits);
            }
            logit_bias_from(first, logits, forbidden);
            each(first, logits);
        })?;
        // It has seen all.
        watch = None;
        Ok(())
    };
    let recent = generator.recent.ids();
    generator
        .sampler
        .sample_in_passes(&mut pass, recent, generator.scratch)
}

/// A token that the vocabulary does not have; the session would have refused it.
fn unknown(session: &Session<'_>, id: u32) -> GenerateError {
    let n_vocab = session.model().hyperparameters.n_vocab;
    GenerateError::Session(SessionError::Token { id, n_vocab })
}

impl core::fmt::Debug for Generator<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Generator")
            .field("vocabulary", &self.vocabulary)
            .field("sampler", &self.sampler)
            .field("decoder", &self.decoder)
            .finish_non_exhaustive()
    }
}
