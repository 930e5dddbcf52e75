//! The vocabulary of a file, where it lies.

use core::fmt;

use crate::gguf::{Array, Gguf, KeyError, Value, ValueType, keys};
use crate::message::{Message, display_message};

use super::index::{Index, IndexFault, IndexKind, word};

/// The only value of `tokenizer.ggml.model` that is understood: SentencePiece with scores.
const MODEL: &[u8] = b"llama";

/// Others that llama.cpp knows.
const OTHER_MODELS: [&str; 7] = ["gpt2", "bert", "t5", "rwkv", "plamo2", "no_vocab", "none"];

/// The keys of the unknown token, BOS and EOS.
const SPECIALS: [&str; 3] = [
    keys::TOKENIZER_GGML_UNKNOWN_TOKEN_ID,
    keys::TOKENIZER_GGML_BOS_TOKEN_ID,
    keys::TOKENIZER_GGML_EOS_TOKEN_ID,
];

/// The keys of what is added to a text: BOS, EOS, a space before it.
const FLAGS: [&str; 3] = [
    keys::TOKENIZER_GGML_ADD_BOS_TOKEN,
    keys::TOKENIZER_GGML_ADD_EOS_TOKEN,
    keys::TOKENIZER_GGML_ADD_SPACE_PREFIX,
];

/// What a token is for, numbered as in `tokenizer.ggml.token_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum TokenType {
    /// A piece of text.
    Normal,
    /// Stands for text that has no token.
    Unknown,
    /// Steers the model and has no text: BOS, EOS.
    Control,
    /// Text that is never split, looked for before all else.
    UserDefined,
    /// Means nothing.
    Unused,
    /// One byte, written `<0xNN>`.
    Byte,
    /// A number that llama.cpp does not know.
    Undefined,
}

impl TokenType {
    const fn from_id(id: u32) -> Self {
        match id {
            1 => Self::Normal,
            2 => Self::Unknown,
            3 => Self::Control,
            4 => Self::UserDefined,
            5 => Self::Unused,
            6 => Self::Byte,
            _ => Self::Undefined,
        }
    }
}

/// The tokens of a file with their scores and types, borrowed.
///
/// A token's text is found by the index arrays that `smidgen convert` writes, or by an index built
/// in the caller's buffer, or without either by walking, which is slow: see [`IndexKind`].
#[derive(Clone, Copy)]
pub struct Vocabulary<'a> {
    index: Index<'a>,
    index_fault: Option<IndexFault>,
    scores: Option<&'a [u8]>,
    types: Option<&'a [u8]>,
    len: u32,
    bos: Option<u32>,
    eos: Option<u32>,
    unknown: Option<u32>,
    pub(super) add_bos: bool,
    pub(super) add_eos: bool,
    pub(super) add_space_prefix: bool,
    /// The last id that encoding may look for in a text before all else.
    last_special: Option<u32>,
    has_user_defined: bool,
}

impl<'a> Vocabulary<'a> {
    /// Words that [`Vocabulary::load`] needs to build an index: none where the file has index
    /// arrays or no tokens, else twice the number of tokens and one.
    #[must_use]
    pub fn index_len(gguf: &Gguf<'_>) -> usize {
        let has = |key| gguf.get(key).is_some();
        if has(keys::SMIDGEN_TOKENIZER_OFFSETS) && has(keys::SMIDGEN_TOKENIZER_SORTED) {
            return 0;
        }
        match gguf.get(keys::TOKENIZER_GGML_TOKENS) {
            Some(Value::Array(tokens)) => Index::built_len(tokens.len()),
            _ => 0,
        }
    }

    /// The vocabulary of `gguf`. Its index arrays are checked; where they are missing or wrong
    /// (see [`Vocabulary::index_fault`]) an index is built in `index`, or none if that is empty.
    /// Takes linear time, or n log n to build.
    ///
    /// # Errors
    /// A tokenizer of another kind, missing or misshapen metadata, an `index` that is too short.
    #[inline(never)] // A frame of its own: boards have little stack.
    pub fn load(gguf: &Gguf<'a>, index: &'a mut [u32]) -> Result<Self, VocabularyError> {
        let missing = |key| VocabularyError::Key(KeyError::Missing { key });
        let model = gguf.get_bytes(keys::TOKENIZER_GGML_MODEL)?;
        let model = model.ok_or(missing(keys::TOKENIZER_GGML_MODEL))?;
        if model != MODEL {
            let mut known = OTHER_MODELS.iter();
            let found = known.find(|name| name.as_bytes() == model).copied();
            return Err(VocabularyError::Model { found });
        }
        let tokens = gguf.get_array(keys::TOKENIZER_GGML_TOKENS, ValueType::String)?;
        let tokens = tokens.ok_or(missing(keys::TOKENIZER_GGML_TOKENS))?;
        // The two highest numbers are free for marks.
        let len = u32::try_from(tokens.len()).ok();
        let len = len.filter(|len| *len < u32::MAX - 1);
        let len = len.ok_or(VocabularyError::TooManyTokens)?;

        let per_token = |key, ty| -> Result<Option<&'a [u8]>, VocabularyError> {
            match gguf.get_array(key, ty)? {
                Some(array) if array.len() != tokens.len() => Err(VocabularyError::Len {
                    key,
                    tokens: tokens.len(),
                    found: array.len(),
                }),
                array => Ok(array.map(|array| array.bytes())),
            }
        };
        let (index, index_fault) = load_index(gguf, tokens, index)?;
        let scores = per_token(keys::TOKENIZER_GGML_SCORES, ValueType::F32)?;
        let types = per_token(keys::TOKENIZER_GGML_TOKEN_TYPE, ValueType::I32)?;
        // What is not said is as in the first Llama, which is also llama.cpp's rule.
        let mut specials = [Some(0), Some(1), Some(2)];
        for (special, key) in specials.iter_mut().zip(&SPECIALS) {
            match gguf.get_u32(key)? {
                Some(id) if id >= len => return Err(VocabularyError::TokenId { key, id, len }),
                Some(id) => *special = Some(id),
                None => *special = special.filter(|id| *id < len),
            }
        }
        let [unknown, bos, eos] = specials;
        let mut flags = [true, false, true];
        for (flag, key) in flags.iter_mut().zip(&FLAGS) {
            *flag = gguf.get_bool(key)?.unwrap_or(*flag);
        }
        let [add_bos, add_eos, add_space_prefix] = flags;
        let mut this = Self {
            index,
            index_fault,
            scores,
            types,
            len,
            unknown,
            bos,
            eos,
            add_bos,
            add_eos,
            add_space_prefix,
            last_special: None,
            has_user_defined: false,
        };
        this.note_specials();
        Ok(this)
    }

    /// How many tokens there are.
    #[must_use]
    pub const fn len(&self) -> u32 {
        self.len
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How tokens are found.
    #[must_use]
    pub const fn index(&self) -> IndexKind {
        self.index.kind()
    }

    /// Why the index arrays of the file are not used, if it has any.
    #[must_use]
    pub const fn index_fault(&self) -> Option<IndexFault> {
        self.index_fault
    }

    /// The text of a token as it is stored: spaces are U+2581, bytes `<0xNN>`.
    #[must_use]
    pub fn piece(&self, id: u32) -> Option<&'a [u8]> {
        self.index.text(id)
    }

    /// The token whose stored text is `piece`, of several the one with the lowest id.
    #[must_use]
    pub fn find(&self, piece: &[u8]) -> Option<u32> {
        self.find_bytes(piece.iter().copied())
    }

    pub(super) fn find_bytes(&self, piece: impl Iterator<Item = u8> + Clone) -> Option<u32> {
        self.index.find(piece)
    }

    /// The score of a token: of two pairs that could be merged, that with the higher one is. 0 in
    /// a file without scores.
    #[must_use]
    pub fn score(&self, id: u32) -> Option<f32> {
        match self.scores {
            Some(scores) => word(scores, usize::try_from(id).ok()?).map(f32::from_bits),
            None => (id < self.len).then_some(0.0),
        }
    }

    /// What a token is for. In a file without types, BOS, EOS and unknown are what they are, a
    /// token `<0xNN>` is a byte, and all else is normal.
    #[must_use]
    pub fn token_type(&self, id: u32) -> Option<TokenType> {
        if let Some(types) = self.types {
            return word(types, usize::try_from(id).ok()?).map(TokenType::from_id);
        }
        let piece = self.piece(id)?;
        Some(if self.unknown == Some(id) {
            TokenType::Unknown
        } else if self.bos == Some(id) || self.eos == Some(id) {
            TokenType::Control
        } else if byte_of(piece).is_some() {
            TokenType::Byte
        } else {
            TokenType::Normal
        })
    }

    /// The token that begins every text, if the vocabulary has one.
    #[must_use]
    pub const fn bos(&self) -> Option<u32> {
        self.bos
    }

    /// The token that ends a text, if the vocabulary has one.
    #[must_use]
    pub const fn eos(&self) -> Option<u32> {
        self.eos
    }

    /// The token for what has none, if the vocabulary has one.
    #[must_use]
    pub const fn unknown(&self) -> Option<u32> {
        self.unknown
    }

    /// The token of a byte that is in no other: `<0xNN>`, else the byte itself.
    #[must_use]
    pub fn byte_token(&self, byte: u8) -> Option<u32> {
        let digit = |x: u8| if x < 10 { b'0' + x } else { b'A' + x - 10 };
        self.find(&[b'<', b'0', b'x', digit(byte >> 4), digit(byte & 15), b'>'])
            .or_else(|| self.find(&[byte]))
    }

    /// Whether a text is encoded as if a space came before it, as the metadata says.
    #[must_use]
    pub const fn add_space_prefix(&self) -> bool {
        self.add_space_prefix
    }

    /// Whether tokens are looked for in a text before it is split.
    pub(super) fn has_specials(&self, parse_special: bool) -> bool {
        if parse_special {
            self.last_special.is_some()
        } else {
            self.has_user_defined
        }
    }

    /// Shows the tokens that are looked for in a text before it is split, in the order of their
    /// ids: user-defined ones, and with `parse_special` control and unknown ones.
    pub(super) fn each_special(&self, parse_special: bool, each: &mut dyn FnMut(u32, &'a [u8])) {
        let end = self.last_special.map_or(0, |last| last + 1);
        for (id, piece) in (0..end).zip(self.index.tokens().strings()) {
            match self.token_type(id) {
                Some(TokenType::UserDefined) => each(id, piece),
                Some(TokenType::Control | TokenType::Unknown) if parse_special => each(id, piece),
                _ => {}
            }
        }
    }

    fn note_specials(&mut self) {
        if self.types.is_none() {
            self.last_special = self.bos.max(self.eos).max(self.unknown);
            return;
        }
        for id in 0..self.len {
            match self.token_type(id) {
                Some(TokenType::UserDefined) => {
                    self.has_user_defined = true;
                    self.last_special = Some(id);
                }
                Some(TokenType::Control | TokenType::Unknown) => self.last_special = Some(id),
                _ => {}
            }
        }
    }
}

impl fmt::Debug for Vocabulary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Vocabulary")
            .field("len", &self.len)
            .field("index", &self.index())
            .field("bos", &self.bos)
            .field("eos", &self.eos)
            .field("unknown", &self.unknown)
            .finish_non_exhaustive()
    }
}

/// The index of the file, or one built in `buffer`, or none.
fn load_index<'a>(
    gguf: &Gguf<'a>,
    tokens: Array<'a>,
    buffer: &'a mut [u32],
) -> Result<(Index<'a>, Option<IndexFault>), VocabularyError> {
    let stored = (
        gguf.get(keys::SMIDGEN_TOKENIZER_OFFSETS),
        gguf.get(keys::SMIDGEN_TOKENIZER_SORTED),
    );
    let fault = match stored {
        (Some(Value::Array(offsets)), Some(Value::Array(sorted))) => {
            match Index::stored(tokens, offsets, sorted) {
                Ok(index) => return Ok((index, None)),
                Err(fault) => Some(fault),
            }
        }
        (None, None) => None,
        (Some(_), Some(_)) => Some(IndexFault::Type),
        _ => Some(IndexFault::Half),
    };
    if buffer.is_empty() {
        return Ok((Index::walk(tokens), fault));
    }
    let error = VocabularyError::IndexBuffer {
        needed: Index::built_len(tokens.len()),
        found: buffer.len(),
    };
    Ok((Index::build(tokens, buffer).ok_or(error)?, fault))
}

/// The byte that a piece `<0xNN>` stands for.
pub(super) fn byte_of(piece: &[u8]) -> Option<u8> {
    let [b'<', b'0', b'x', high, low, b'>'] = piece else {
        return None;
    };
    let digit = |c: u8| char::from(c).to_digit(16);
    u8::try_from(digit(*high)? << 4 | digit(*low)?).ok()
}

/// Why a file has no vocabulary that can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum VocabularyError {
    /// A metadata key is missing or of the wrong type.
    Key(KeyError<'static>),
    /// `tokenizer.ggml.model` is not `llama`.
    Model {
        /// The name, if it is one that llama.cpp knows.
        found: Option<&'static str>,
    },
    /// There are too many tokens to number them.
    TooManyTokens,
    /// An array does not have one entry a token.
    Len {
        /// Its key.
        key: &'static str,
        /// How many tokens there are.
        tokens: usize,
        /// How many entries it has.
        found: usize,
    },
    /// A token that the metadata names is not there.
    TokenId {
        /// The key that names it.
        key: &'static str,
        /// The id.
        id: u32,
        /// How many tokens there are.
        len: u32,
    },
    /// The buffer for the index is too short.
    IndexBuffer {
        /// Words that are needed.
        needed: usize,
        /// Words that were given.
        found: usize,
    },
}

impl From<KeyError<'static>> for VocabularyError {
    fn from(error: KeyError<'static>) -> Self {
        Self::Key(error)
    }
}

impl VocabularyError {
    fn describe<'m>(&'m self, message: &mut Message<'m>) {
        match self {
            Self::Key(error) => {
                error.describe(message);
                message
            }
            Self::Model { found } => message
                .say("tokenizer.ggml.model is $, only llama is supported")
                .words([found.unwrap_or("of an unknown kind")]),
            Self::TooManyTokens => message.say("there are more tokens than numbers for them"),
            Self::Len { key, tokens, found } => message
                .say("$ has # entries for # tokens")
                .words([key])
                .sizes([*found, *tokens]),
            Self::TokenId { key, id, len } => message
                .say("$ is #, but there are only # tokens")
                .words([key])
                .numbers([(*id).into(), (*len).into()]),
            Self::IndexBuffer { needed, found } => message
                .say("the index of the vocabulary takes # words, the buffer has #")
                .sizes([*needed, *found]),
        };
    }
}

display_message!(VocabularyError);
