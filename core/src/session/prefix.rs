//! Saving what a session remembers, and taking it up again.

use core::hash::Hasher;

use super::Session;
use crate::kv_cache::KvType;
use crate::model::Model;

/// Bytes before the keys and values: magic, version, model hash, type, reserved, position.
const HEADER_LEN: usize = 32;
/// Bytes behind them: a hash of all before.
const CHECK_LEN: usize = 8;
const MAGIC: [u8; 4] = *b"SMKV";
const VERSION: u32 = 1;

/// Why a prefix cannot be saved or taken up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum PrefixError {
    /// The buffer is not as long as the prefix.
    Length {
        /// Bytes needed.
        needed: usize,
        /// Bytes given.
        given: usize,
    },
    /// The bytes do not start as a saved prefix does.
    Magic,
    /// The prefix was saved in another version of the form.
    Version {
        /// The version found.
        found: u32,
    },
    /// The prefix is that of another model.
    Model,
    /// The prefix has keys and values of another type.
    KvType,
    /// The prefix has more positions than the window, or that of a ring which has wrapped around
    /// in another window.
    Window,
    /// The bytes have been changed since they were saved.
    Corrupted,
    /// A step is half done.
    Busy,
}

impl core::fmt::Display for PrefixError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Length { needed, given } => {
                write!(f, "the prefix takes {needed} bytes, {given} were given")
            }
            Self::Magic => write!(f, "this is no saved prefix"),
            Self::Version { found } => {
                write!(f, "the prefix has version {found}, {VERSION} is expected")
            }
            Self::Model => write!(f, "the prefix belongs to another model"),
            Self::KvType => write!(f, "the prefix has another type of KV cache"),
            Self::Window => write!(f, "the prefix does not fit the window"),
            Self::Corrupted => write!(f, "the prefix is corrupted"),
            Self::Busy => write!(f, "a step is half done"),
        }
    }
}

impl core::error::Error for PrefixError {}

impl Session<'_> {
    /// Bytes that [`save`](Self::save) needs now.
    #[must_use]
    pub fn saved_len(&self) -> usize {
        let positions = self.position.min(self.options.window);
        HEADER_LEN + positions * self.cache.saved_position_bytes() + CHECK_LEN
    }

    /// Saves the keys and values of all positions behind, with a header that names the model, the
    /// type and the version. The same model, in any session with the same type of cache and a
    /// window that is large enough, can go on from there with the same bits. Takes a pass over all
    /// weights for the model's hash.
    ///
    /// # Errors
    /// `out` is not [`saved_len`](Self::saved_len) bytes long, or a step is half done.
    pub fn save(&self, out: &mut [u8]) -> Result<(), PrefixError> {
        if self.pass.is_some() {
            return Err(PrefixError::Busy);
        }
        let (needed, given) = (self.saved_len(), out.len());
        let split = out.split_at_mut_checked(HEADER_LEN);
        let (Some((header, body)), true) = (split, needed == given) else {
            return Err(PrefixError::Length { needed, given });
        };
        let fields = [
            &MAGIC[..],
            &VERSION.to_le_bytes(),
            &model_hash(self.model).to_le_bytes(),
            &kv_type_id(self.options.kv).to_le_bytes(),
            &wrapped_window(self.position, self.options.window).to_le_bytes(),
            &to_u64(self.position).to_le_bytes(),
        ];
        let mut bytes = fields.into_iter().flatten();
        header.fill_with(|| bytes.next().copied().unwrap_or(0));
        let positions = self.position.min(self.options.window);
        let (body, check) = body.split_at_mut(body.len() - CHECK_LEN);
        self.cache.save(positions, body);
        check.copy_from_slice(&hash(&[header, body]).to_le_bytes());
        Ok(())
    }

    /// Takes up what [`save`](Self::save) saved. Everything is checked before anything is changed.
    /// Logits are not saved: there are some once the next token has been taken.
    ///
    /// # Errors
    /// The bytes are none that were saved, or belong to another model, type or window.
    pub fn restore(&mut self, bytes: &[u8]) -> Result<(), PrefixError> {
        let given = bytes.len();
        let needed = HEADER_LEN + CHECK_LEN;
        if given < needed {
            return Err(PrefixError::Length { needed, given });
        }
        let (all, check) = bytes.split_at(given - CHECK_LEN);
        let (header, body) = all.split_at(HEADER_LEN);
        let (magic, fields) = header.split_at(MAGIC.len());
        if magic != MAGIC {
            return Err(PrefixError::Magic);
        }
        let found = u32_at(fields, 0);
        if found != VERSION {
            return Err(PrefixError::Version { found });
        }
        if u64_at(fields, 4) != model_hash(self.model) {
            return Err(PrefixError::Model);
        }
        if u32_at(fields, 12) != kv_type_id(self.options.kv) {
            return Err(PrefixError::KvType);
        }
        let position = usize::try_from(u64_at(fields, 20)).map_err(|_| PrefixError::Window)?;
        let window = self.options.window;
        let ring = self.options.ring || position <= window;
        if u32_at(fields, 16) != wrapped_window(position, window) || !ring {
            return Err(PrefixError::Window);
        }
        let positions = position.min(window);
        let needed = positions * self.cache.saved_position_bytes() + HEADER_LEN + CHECK_LEN;
        if given != needed {
            return Err(PrefixError::Length { needed, given });
        }
        if u64_at(check, 0) != hash(&[header, body]) {
            return Err(PrefixError::Corrupted);
        }
        self.cache.restore(positions, body);
        self.position = position;
        self.pass = None;
        self.has_logits = false;
        Ok(())
    }
}

/// The window, once a ring has wrapped around in it: positions lie in the slots of that window
/// alone. Else 0.
fn wrapped_window(position: usize, window: usize) -> u32 {
    if position <= window {
        return 0;
    }
    u32::try_from(window).unwrap_or(u32::MAX)
}

fn kv_type_id(ty: KvType) -> u32 {
    match ty {
        KvType::F32 => 0,
        KvType::F16 => 1,
        KvType::Q8 => 2,
        KvType::Q8Row => 3,
    }
}

/// FNV-1a (64 bits) over the numbers and the weights of a model.
fn model_hash(model: &Model<'_>) -> u64 {
    let hp = &model.hyperparameters;
    let mut hasher = fnv::FnvHasher::default();
    let counts = [hp.n_layers, hp.n_embd, hp.n_ff, hp.n_heads, hp.n_kv_heads];
    for count in counts
        .into_iter()
        .chain([hp.head_dim, hp.n_vocab, hp.rope_dim])
    {
        hasher.write(&to_u64(count).to_le_bytes());
    }
    for number in [hp.rope_freq_base, hp.rope_scale, hp.rms_eps] {
        hasher.write(&number.to_le_bytes());
    }
    for matrix in model.matrices() {
        hasher.write(&matrix.ty.id().to_le_bytes());
        hasher.write(matrix.bytes);
    }
    for layer in model.layers {
        hasher.write(layer.attn_norm);
        hasher.write(layer.ffn_norm);
    }
    hasher.write(model.output_norm);
    hasher.finish()
}

fn hash(parts: &[&[u8]]) -> u64 {
    let mut hasher = fnv::FnvHasher::default();
    for part in parts {
        hasher.write(part);
    }
    hasher.finish()
}

fn to_u64(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let bytes = bytes.get(at..).and_then(|bytes| bytes.first_chunk());
    u32::from_le_bytes(bytes.copied().unwrap_or_default())
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let bytes = bytes.get(at..).and_then(|bytes| bytes.first_chunk());
    u64::from_le_bytes(bytes.copied().unwrap_or_default())
}
