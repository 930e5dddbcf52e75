//! A GGUF file in a region of flash of its own, so that model and firmware are written apart.
//!
//! A header of 64 bytes comes first, so that the file behind it is aligned if the region is. All
//! numbers are little-endian:
//!
//! | bytes | what |
//! |---|---|
//! | 0..8 | `SMIDGEN` and a zero |
//! | 8..12 | version: 1 |
//! | 12..16 | where the file begins, counted from the header's start: 64 |
//! | 16..24 | bytes of the file |
//! | 24..32 | FNV-1a with 64 bits over the file |
//! | 32..40 | hash of a few logits, see [`ModelImage::logits_hash`] |
//! | 40..56 | zero |
//! | 56..64 | FNV-1a with 64 bits over the bytes before |

use core::fmt;
use core::hash::Hasher;

use fnv::FnvHasher;

use crate::Hex;
use crate::message::Message;

const MAGIC: [u8; 8] = *b"SMIDGEN\0";
const VERSION: u32 = 1;
const HEADER_LEN: usize = 64;

/// A model behind its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelImage<'a> {
    /// The GGUF file; [`verify`](Self::verify) tells whether it is whole.
    pub model: &'a [u8],
    /// Its checksum according to the header.
    pub checksum: u64,
    /// What the logits behind [`ModelImage::test_token`] 0 to 3 hash to, by
    /// [`LogitsHash`](crate::LogitsHash), taken from position 0 on with a cache of
    /// [`KvType::Q8`](crate::kv_cache::KvType). All chips compute the same, so that a board can look
    /// whether it does.
    pub logits_hash: u64,
}

/// Why a region holds no model that can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum ModelImageError {
    /// Only erased flash, or zeros.
    Missing,
    /// The region has no room for a header.
    NoRoom {
        /// Bytes of the region.
        region: usize,
    },
    /// A GGUF file without the header.
    Unpacked,
    /// Something else.
    Foreign {
        /// The first bytes.
        found: [u8; 4],
    },
    /// The header is not what was written.
    Header,
    /// A layout that is not known here.
    Version {
        /// The version of the header.
        found: u32,
    },
    /// The header tells of more bytes than the region has.
    TooLong {
        /// Bytes of the file.
        len: u64,
        /// Bytes of the region behind the header.
        room: usize,
    },
    /// From some byte to its end the file is erased flash: writing it was cut short.
    Cut {
        /// Bytes of the file that are there.
        there: usize,
        /// Bytes of the file.
        len: usize,
    },
    /// The file is not what was written.
    Checksum {
        /// According to the header.
        expected: u64,
        /// Of the bytes that are there.
        found: u64,
    },
}

impl fmt::Display for ModelImageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Checksum { expected, found } => write!(
                f,
                "the model is damaged: checksum {}, not {}",
                Hex::<16>(found),
                Hex::<16>(expected)
            ),
            _ => Message::print(f, |message| self.describe(message)),
        }
    }
}

impl ModelImageError {
    fn describe(&self, message: &mut Message<'_>) {
        match *self {
            Self::Missing => message.say("no model: its flash is empty"),
            Self::NoRoom { region } => message
                .say("no model: its flash has only # bytes")
                .sizes([region]),
            Self::Unpacked => message.say("a GGUF file without the header of a model image"),
            Self::Foreign { found } => message
                .say("no model image: it begins with %")
                .numbers([u32::from_be_bytes(found).into()]),
            Self::Header => message.say("the model's header is damaged"),
            Self::Version { found } => message
                .say("a model image of version #, not #")
                .numbers([found.into(), VERSION.into()]),
            Self::TooLong { len, room } => message
                .say("the model has # bytes, there is flash for only #")
                .numbers([len, room as u64]),
            Self::Cut { there, len } => message
                .say("the model is cut: # of # bytes are there")
                .sizes([there, len]),
            Self::Checksum { .. } => message.say("the model is damaged"),
        };
    }
}

impl core::error::Error for ModelImageError {}

impl<'a> ModelImage<'a> {
    /// Bytes of the header.
    pub const HEADER_LEN: usize = HEADER_LEN;

    /// Tokens that [`logits_hash`](Self::logits_hash) is taken over.
    pub const TEST_TOKENS: u32 = 4;

    /// One of them, for a vocabulary of a size.
    #[must_use]
    pub const fn test_token(at: u32, n_vocab: u32) -> u32 {
        (at * 197 + 1) % if n_vocab == 0 { 1 } else { n_vocab }
    }

    /// Finds the model at the start of `region`, which may be longer. The file's bytes are not looked
    /// at.
    ///
    /// # Errors
    /// There is no header, or it cannot be right.
    pub fn parse(region: &'a [u8]) -> Result<Self, ModelImageError> {
        let Some((header, behind)) = region.split_first_chunk::<HEADER_LEN>() else {
            return Err(ModelImageError::NoRoom {
                region: region.len(),
            });
        };
        if is_filled(header, 0xff) || is_filled(header, 0) {
            return Err(ModelImageError::Missing);
        }
        let found = field::<4>(header, 0);
        if field::<8>(header, 0) != MAGIC {
            return Err(match &found {
                b"GGUF" => ModelImageError::Unpacked,
                _ => ModelImageError::Foreign { found },
            });
        }
        let (told, own) = header.split_at(56);
        if checksum(told).to_le_bytes() != *own {
            return Err(ModelImageError::Header);
        }
        let version = u32::from_le_bytes(field(header, 8));
        let start = u32::from_le_bytes(field(header, 12));
        if version != VERSION || usize::try_from(start) != Ok(HEADER_LEN) {
            return Err(ModelImageError::Version { found: version });
        }
        let len = u64::from_le_bytes(field(header, 16));
        let model = usize::try_from(len).ok().and_then(|len| behind.get(..len));
        Ok(Self {
            model: model.ok_or(ModelImageError::TooLong {
                len,
                room: behind.len(),
            })?,
            checksum: u64::from_le_bytes(field(header, 24)),
            logits_hash: u64::from_le_bytes(field(header, 32)),
        })
    }

    /// Compares the file with its checksum.
    ///
    /// # Errors
    /// It is not what was written, or only a part of it is there.
    pub fn verify(&self) -> Result<(), ModelImageError> {
        let (expected, found) = (self.checksum, checksum(self.model));
        if expected == found {
            return Ok(());
        }
        let len = self.model.len();
        let there = self.model.iter().rposition(|&byte| byte != 0xff);
        let there = there.map_or(0, |last| last + 1);
        // The last bytes of weights may be such by chance, but not that many.
        if len - there >= 16 {
            return Err(ModelImageError::Cut { there, len });
        }
        Err(ModelImageError::Checksum { expected, found })
    }

    /// The header to be written before a file; see [`logits_hash`](Self::logits_hash).
    #[must_use]
    pub fn header(model: &[u8], logits_hash: u64) -> [u8; HEADER_LEN] {
        let mut header = [0; Self::HEADER_LEN];
        let len = u64::try_from(model.len()).unwrap_or(u64::MAX);
        let fields: [&[u8]; 6] = [
            &MAGIC,
            &VERSION.to_le_bytes(),
            &64_u32.to_le_bytes(),
            &len.to_le_bytes(),
            &checksum(model).to_le_bytes(),
            &logits_hash.to_le_bytes(),
        ];
        for (to, &byte) in header.iter_mut().zip(fields.into_iter().flatten()) {
            *to = byte;
        }
        let (told, own) = header.split_at_mut(56);
        own.copy_from_slice(&checksum(told).to_le_bytes());
        header
    }
}

fn checksum(bytes: &[u8]) -> u64 {
    let mut hasher = FnvHasher::default();
    hasher.write(bytes);
    hasher.finish()
}

fn is_filled(bytes: &[u8], with: u8) -> bool {
    bytes.iter().all(|&byte| byte == with)
}

/// The `N` bytes from `at` on.
fn field<const N: usize>(header: &[u8; HEADER_LEN], at: usize) -> [u8; N] {
    let bytes = header.get(at..).and_then(|from| from.first_chunk());
    bytes.copied().unwrap_or([0; N])
}

#[cfg(test)]
mod tests {
    use std::string::ToString as _;
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    fn image(model: &[u8]) -> Vec<u8> {
        [&ModelImage::header(model, 0x1234)[..], model].concat()
    }

    fn whole(region: &[u8]) -> Result<&[u8], ModelImageError> {
        let image = ModelImage::parse(region)?;
        image.verify()?;
        Ok(image.model)
    }

    /// FNV-1a from its description, over the layout from the module's: an image made apart.
    #[test]
    fn the_header_is_laid_out_as_told() {
        let fnv = |bytes: &[u8]| {
            bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
            })
        };
        // A published value.
        assert_eq!(fnv(b"foobar"), 0x8594_4171_f739_67e8);
        let mut expected = b"SMIDGEN\0\x01\0\0\0\x40\0\0\0\x06\0\0\0\0\0\0\0".to_vec();
        expected.extend(0x8594_4171_f739_67e8_u64.to_le_bytes());
        expected.extend([8, 7, 6, 5, 4, 3, 2, 1]);
        expected.resize(56, 0);
        expected.extend(fnv(&expected).to_le_bytes());
        assert_eq!(
            ModelImage::header(b"foobar", 0x0102_0304_0506_0708)[..],
            expected
        );
    }

    #[test]
    fn what_is_wrong_is_named() {
        let model: Vec<u8> = (0..=255).collect();
        let good = image(&model);
        let text = |region: &[u8]| whole(region).unwrap_err().to_string();
        assert_eq!(whole(&good), Ok(&model[..]));
        assert_eq!(text(&[0xff; 4096]), "no model: its flash is empty");
        assert_eq!(text(&[0; 4096]), "no model: its flash is empty");
        assert_eq!(text(&good[..63]), "no model: its flash has only 63 bytes");
        assert_eq!(
            text(&good[..good.len() - 1]),
            "the model has 256 bytes, there is flash for only 255"
        );
        let mut gguf = good.clone();
        gguf[..4].copy_from_slice(b"GGUF");
        assert!(text(&gguf).starts_with("a GGUF file without"));
        gguf[..4].copy_from_slice(b"\x7fELF");
        assert_eq!(text(&gguf), "no model image: it begins with 7f454c46");
        let mut later = good.clone();
        later[8] = 2;
        assert_eq!(text(&later), "the model's header is damaged");
        let own = checksum(&later[..56]).to_le_bytes();
        later[56..64].copy_from_slice(&own);
        assert_eq!(text(&later), "a model image of version 2, not 1");
        let mut cut = good.clone();
        cut[264..].fill(0xff);
        assert_eq!(text(&cut), "the model is cut: 200 of 256 bytes are there");
        let mut damaged = good;
        damaged[100] ^= 1;
        assert!(text(&damaged).starts_with("the model is damaged: checksum "));
    }

    proptest! {
        #[test]
        fn any_model_comes_back(model: Vec<u8>, behind: Vec<u8>) {
            let mut region = image(&model);
            region.extend(behind);
            prop_assert_eq!(whole(&region), Ok(&model[..]));
        }

        #[test]
        fn any_changed_byte_is_found(
            model in proptest::collection::vec(any::<u8>(), 1..200),
            at: prop::sample::Index,
            change in 1..=255_u8,
        ) {
            let mut region = image(&model);
            region[at.index(64 + model.len())] ^= change;
            prop_assert!(whole(&region).is_err());
        }

        #[test]
        fn any_bytes_are_an_answer(region: Vec<u8>, pick: bool) {
            let mut region = region;
            if pick {
                region.splice(..region.len().min(8), MAGIC);
            }
            if let Ok(model) = whole(&region) {
                prop_assert_eq!(&image(model)[64..], &region[64..64 + model.len()]);
            }
        }
    }
}
