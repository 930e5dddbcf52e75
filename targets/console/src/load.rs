//! From flash and RAM to a session.

use core::fmt;

use smidgen_core::gguf::{self, Gguf, keys};
use smidgen_core::kernels::{Backend, SelfTestError, self_test};
use smidgen_core::kv_cache::KvType;
use smidgen_core::model::{Layer, Model, ModelError};
use smidgen_core::session::{Buffers, Plan, Session, SessionError, SessionOptions};
use smidgen_core::tokenizer::{Vocabulary, VocabularyError, max_scratch_len};
use smidgen_core::{Hex, ModelImage, ModelImageError, Number};

use zerocopy::{FromBytes as _, IntoBytes as _};

use crate::{LINE, logits_hash};

/// Tokens of a line, with BOS and the space before it.
const IDS: usize = LINE + 2;

/// Words to encode a line.
const SCRATCH: usize = max_scratch_len(LINE);

/// Fewer positions are no use.
const MIN_WINDOW: usize = 16;

/// RAM for a model and for stories.
#[derive(Debug)]
pub struct Memory<'a> {
    /// A place for each layer.
    pub layers: &'a mut [Layer<'a>],
    /// For all else: what is left of it goes into positions.
    pub words: &'a mut [u64],
}

/// Why there is no session.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum LoadError {
    /// The flash holds no whole model.
    Image(ModelImageError),
    /// What it holds is no GGUF file.
    Gguf(gguf::Error),
    /// It cannot be run.
    Model(ModelError),
    /// It has no vocabulary that can be used.
    Vocabulary(VocabularyError),
    /// The session cannot be made, or fails.
    Session(SessionError),
    /// There is not enough RAM.
    Ram {
        /// Bytes needed for the fewest positions that are of use.
        needed: usize,
        /// Bytes there are.
        given: usize,
    },
    /// A back end computes something else than the scalar one.
    Kernels(SelfTestError),
    /// The logits are not those of the chip that packed the model.
    Logits {
        /// The hash that came with the model.
        expected: u64,
        /// The hash computed.
        found: u64,
    },
}

macro_rules! from {
    ($($name:ident($error:ty),)*) => {
        $(impl From<$error> for LoadError {
            fn from(error: $error) -> Self {
                Self::$name(error)
            }
        })*

        impl fmt::Display for LoadError {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(Self::$name(error) => error.fmt(f),)*
                    Self::Ram { needed, given } => write!(
                        f,
                        "the model needs {} bytes of RAM, there are {}",
                        Number(*needed as u64),
                        Number(*given as u64)
                    ),
                    Self::Logits { expected, found } => write!(
                        f,
                        "this chip computes other logits: hash {}, not {}",
                        Hex::<16>(*found),
                        Hex::<16>(*expected)
                    ),
                }
            }
        }
    };
}

from! {
    Image(ModelImageError),
    Gguf(gguf::Error),
    Model(ModelError),
    Vocabulary(VocabularyError),
    Session(SessionError),
    Kernels(SelfTestError),
}

impl core::error::Error for LoadError {}

/// A model that can tell.
pub(crate) struct Loaded<'b> {
    pub(crate) vocabulary: &'b Vocabulary<'b>,
    pub(crate) session: Session<'b>,
    pub(crate) ids: &'b mut [u32],
    pub(crate) scratch: &'b mut [u32],
    pub(crate) about: About<'b>,
}

/// What the banner says about a model.
pub(crate) struct About<'b> {
    name: &'b str,
    model_bytes: usize,
    checksum: u64,
    plan: Plan,
    window: usize,
    ram: usize,
    ram_used: usize,
    backend: Backend,
    cases: u32,
    logits_hash: u64,
}

impl fmt::Display for About<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            name,
            model_bytes,
            checksum,
            plan,
            window,
            ram,
            ram_used,
            ..
        } = self;
        let (kv, activations) = (plan.kv_bytes, plan.activation_bytes());
        let other = ram_used - kv - activations;
        f.write_str("model: ")?;
        f.write_str(name)?;
        let checksum = Hex::<16>(*checksum);
        let [model_bytes, window, kv, activations, other, ram_used, ram] = [
            *model_bytes,
            *window,
            kv,
            activations,
            other,
            *ram_used,
            *ram,
        ]
        .map(|number| Number(number as u64));
        writeln!(f, ", {model_bytes} bytes, checksum {checksum}")?;
        writeln!(
            f,
            "RAM: {window} positions, KV cache {kv}, activations {activations}, other {other}, \
             together {ram_used} of {ram} bytes"
        )?;
        let Self {
            backend,
            cases,
            logits_hash,
            ..
        } = self;
        let (cases, logits_hash) = (Number((*cases).into()), Hex::<16>(*logits_hash));
        write!(f, "self-test: {cases} cases, ")?;
        f.write_str(backend.name())?;
        writeln!(f, ", logits {logits_hash}")
    }
}

/// Finds the model at the start of `region`, makes a session with as many positions as there is RAM
/// for, and looks whether the chip computes with it what it should.
///
/// `pause` is then called between pieces of every step.
pub(crate) fn load<'a, R>(
    region: &'a [u8],
    memory: Memory<'a>,
    pause: fn(),
    then: impl FnOnce(Loaded<'_>) -> R,
) -> Result<R, LoadError> {
    let Memory { layers, mut words } = memory;
    let ram = size_of_val(words);
    let image = ModelImage::parse(region)?;
    image.verify()?;
    let gguf = Gguf::parse_small(image.model)?;
    let index_len = Vocabulary::index_len(&gguf);
    let fixed = (index_len + IDS + SCRATCH).saturating_mul(size_of::<u32>());
    let no_room = |of_session: usize| LoadError::Ram {
        needed: fixed.saturating_add(of_session),
        given: ram,
    };
    let mut cut = |len| cut(&mut words, len).ok_or(no_room(0));
    let (index, ids, scratch) = (cut(index_len)?, cut(IDS)?, cut(SCRATCH)?);
    let vocabulary = Vocabulary::load(&gguf, index)?;
    let model = Model::load(&[gguf], layers)?;
    let fitting = as_many_positions_as_fit(&model, words.len());
    let (options, plan) = fitting.map_err(|words| no_room(words.saturating_mul(8)))?;
    let ram_used = ram - size_of_val(words) + plan.bytes();
    let buffers = Buffers::cut(&plan, options.kv, words)?;
    let mut pause = pause;
    let session = Session::new(&model, options, buffers)?;
    let mut session = session.with_pause(&mut pause);

    let mut cases = 0;
    for backend in Backend::available() {
        cases += self_test(backend)?;
    }
    let found = logits_hash(&mut session)?;
    let expected = image.logits_hash;
    if found != expected {
        return Err(LoadError::Logits { expected, found });
    }
    let about = About {
        name: gguf
            .get_str(keys::GENERAL_NAME)
            .ok()
            .flatten()
            .unwrap_or("a model"),
        model_bytes: image.model.len(),
        checksum: image.checksum,
        plan,
        window: options.window,
        ram,
        ram_used,
        backend: session.backend(),
        cases,
        logits_hash: found,
    };
    Ok(then(Loaded {
        vocabulary: &vocabulary,
        session,
        ids,
        scratch,
        about,
    }))
}

fn options(window: usize) -> SessionOptions {
    SessionOptions {
        kv: KvType::Q8,
        window,
        // A story may go on after the first positions are forgotten.
        ring: true,
        batch: 1,
    }
}

/// The options with the most positions whose buffers fit into `room` words; else the words that the
/// fewest take.
fn as_many_positions_as_fit(
    model: &Model<'_>,
    room: usize,
) -> Result<(SessionOptions, Plan), usize> {
    let plan = |window| Plan::new(model, &options(window));
    let needed = |window| plan(window).words();
    let n_ctx = model.hyperparameters.n_ctx.max(1);
    let mut fits = n_ctx.min(MIN_WINDOW);
    if needed(fits) > room {
        return Err(needed(fits));
    }
    let mut too_many = n_ctx + 1;
    while too_many - fits > 1 {
        let middle = fits + (too_many - fits) / 2;
        if needed(middle) <= room {
            fits = middle;
        } else {
            too_many = middle;
        }
    }
    Ok((options(fits), plan(fits)))
}

/// The first `len` numbers of what is left.
fn cut<'a>(left: &mut &'a mut [u64], len: usize) -> Option<&'a mut [u32]> {
    let words = core::mem::take(left);
    let (words, behind) = words.split_at_mut_checked(len.div_ceil(2))?;
    *left = behind;
    <[u32]>::mut_from_bytes(words.as_mut_bytes())
        .ok()?
        .get_mut(..len)
}
