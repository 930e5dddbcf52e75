//! Checkpoints of all three versions: header, exact length, where each tensor lies.

use crate::{CheckpointError, Config, LengthCause, Role, Weights, foreign};

/// `ak42`, which little-endian files store as `24ka`.
const MAGIC: [u8; 4] = *b"24ka";

/// Bytes of the header of version 1 and 2.
const HEADER_LEN: usize = 256;

/// Bytes of the header of the legacy version.
const LEGACY_HEADER_LEN: usize = 28;

/// The layout of a checkpoint, as llama2.c's `export.py` numbers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// Version 0: a header of seven numbers, f32 weights, RoPE tables that nobody reads.
    Legacy,
    /// Version 1: a header of 256 bytes, f32 weights.
    V1,
    /// Version 2: a header of 256 bytes, f32 norms, int8 matrices with a scale for each group.
    V2 {
        /// Elements of a group; divides `dim`.
        group_size: u32,
    },
}

impl Version {
    /// The number that `export.py --version` takes.
    #[must_use]
    pub fn number(self) -> u32 {
        match self {
            Self::Legacy => 0,
            Self::V1 => 1,
            Self::V2 { .. } => 2,
        }
    }
}

/// A checkpoint whose header and length have been checked; the bytes stay where they are.
#[derive(Clone, Copy, Debug)]
pub struct Checkpoint<'a> {
    bytes: &'a [u8],
    header: Header,
}

/// A run of bytes in the file: one tensor, or that tensor of every layer in turn.
#[derive(Clone, Copy)]
enum Section {
    Tensor(Role),
    /// `freq_cis_real` and `freq_cis_imag`.
    RopeTables,
}

impl<'a> Checkpoint<'a> {
    /// Looks at a checkpoint. The version is told by its content, and its length must be exactly
    /// what its header asks for.
    ///
    /// # Errors
    /// It is something else, its hyperparameters are wrong, or its length is.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, CheckpointError> {
        let header = Header::read(bytes)?;
        let expected = header.file_len();
        let found = bytes.len() as u64;
        if u128::from(found) != expected {
            return Err(CheckpointError::Length {
                found,
                expected,
                cause: header.length_cause(found),
            });
        }
        Ok(Self { bytes, header })
    }

    /// The layout that the content has told.
    #[must_use]
    pub fn version(&self) -> Version {
        self.header.version
    }

    /// The hyperparameters.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.header.config
    }

    /// Whether the classifier is the embeddings, and [`Role::Output`] has no weights of its own.
    #[must_use]
    pub fn shared_classifier(&self) -> bool {
        self.header.shared_classifier
    }

    /// The weights of a tensor; `layer` counts for those that every layer has. `None` for
    /// [`Role::Output`] with a shared classifier, and for a layer that is not there.
    #[must_use]
    pub fn weights(&self, role: Role, layer: u32) -> Option<Weights<'a>> {
        let header = &self.header;
        if role.in_layer() && layer >= header.config.n_layers() {
            return None;
        }
        let mut at = header.header_len() as u128;
        for section in header.sections() {
            match section {
                Section::Tensor(found) if found == role => {
                    let len = header.tensor_len(role);
                    if role.in_layer() {
                        at += u128::from(layer) * u128::from(len);
                    }
                    let at = usize::try_from(at).ok()?;
                    let bytes = self.bytes.get(at..)?.get(..usize::try_from(len).ok()?)?;
                    return header.weights(role, bytes);
                }
                other => at += header.section_len(other),
            }
        }
        None
    }
}

/// What the header says of the weights behind it.
#[derive(Clone, Copy, Debug)]
struct Header {
    version: Version,
    config: Config,
    shared_classifier: bool,
    /// What the field of version 2 holds, be the version as it may.
    group_size: Option<u32>,
}

impl Header {
    fn read(bytes: &[u8]) -> Result<Self, CheckpointError> {
        let truncated = |needed| CheckpointError::Header {
            needed,
            found: bytes.len() as u64,
        };
        if let Some(format) = foreign::recognize(bytes) {
            return Err(CheckpointError::Foreign { format });
        }
        let magic = bytes.first_chunk::<4>();
        if magic == Some(b"ak42") {
            return Err(CheckpointError::SwappedMagic);
        }
        if magic != Some(&MAGIC) {
            let Some(header) = ints::<7>(bytes, 0) else {
                return Err(truncated(LEGACY_HEADER_LEN as u64));
            };
            return Self::legacy(header).map_err(|error| foreign::explain(bytes, error));
        }
        let Some([version]) = ints::<1>(bytes, 4) else {
            return Err(truncated(HEADER_LEN as u64));
        };
        if !(1..=2).contains(&version) {
            return Err(CheckpointError::Version { found: version });
        }
        let fields = (ints::<7>(bytes, 8), bytes.get(36), ints::<1>(bytes, 37));
        let (true, (Some(config), Some(&shared), Some([group_size]))) =
            (bytes.len() >= HEADER_LEN, fields)
        else {
            return Err(truncated(HEADER_LEN as u64));
        };
        let config = Config::new(config)?;
        if shared > 1 {
            return Err(CheckpointError::SharedFlag { found: shared });
        }
        let found = group_size;
        let group_size = u32::try_from(found).ok();
        let group_size = group_size.filter(|&size| size > 0 && config.dim() % size == 0);
        let version = match (version, group_size) {
            (1, _) => Version::V1,
            (_, Some(group_size)) => Version::V2 { group_size },
            (_, None) => {
                let dim = config.dim();
                return Err(CheckpointError::GroupSize { found, dim });
            }
        };
        Ok(Self {
            version,
            config,
            shared_classifier: shared == 1,
            group_size,
        })
    }

    /// A header of seven numbers; a negative `vocab_size` stands for a separate classifier.
    fn legacy(mut header: [i32; 7]) -> Result<Self, CheckpointError> {
        let shared_classifier = header[5] > 0;
        header[5] = header[5].checked_abs().unwrap_or(header[5]);
        match Config::new(header) {
            Ok(config) => Ok(Self {
                version: Version::Legacy,
                config,
                shared_classifier,
                group_size: None,
            }),
            Err(source) => {
                let swapped = header.map(i32::swap_bytes);
                Err(if Config::new(swapped).is_ok() {
                    CheckpointError::BigEndian { source }
                } else {
                    CheckpointError::Config { source }
                })
            }
        }
    }

    fn header_len(&self) -> usize {
        match self.version {
            Version::Legacy => LEGACY_HEADER_LEN,
            Version::V1 | Version::V2 { .. } => HEADER_LEN,
        }
    }

    /// Everything behind the header, in the order of the file.
    fn sections(&self) -> impl Iterator<Item = Section> {
        use Role::*;
        const LEGACY: &[Section] = &[
            Section::Tensor(TokenEmbd),
            Section::Tensor(AttnNorm),
            Section::Tensor(AttnQ),
            Section::Tensor(AttnK),
            Section::Tensor(AttnV),
            Section::Tensor(AttnOutput),
            Section::Tensor(FfnNorm),
            Section::Tensor(FfnGate),
            Section::Tensor(FfnDown),
            Section::Tensor(FfnUp),
            Section::Tensor(OutputNorm),
            Section::RopeTables,
        ];
        const NEWER: &[Section] = &[
            Section::Tensor(AttnNorm),
            Section::Tensor(FfnNorm),
            Section::Tensor(OutputNorm),
            Section::Tensor(TokenEmbd),
            Section::Tensor(AttnQ),
            Section::Tensor(AttnK),
            Section::Tensor(AttnV),
            Section::Tensor(AttnOutput),
            Section::Tensor(FfnGate),
            Section::Tensor(FfnDown),
            Section::Tensor(FfnUp),
        ];
        let sections = match self.version {
            Version::Legacy => LEGACY,
            Version::V1 | Version::V2 { .. } => NEWER,
        };
        let classifier = (!self.shared_classifier).then_some(Section::Tensor(Output));
        sections.iter().copied().chain(classifier)
    }

    /// Bytes of one tensor.
    fn tensor_len(&self, role: Role) -> u64 {
        let elements = role.elements(&self.config);
        match self.version {
            Version::V2 { group_size } if !role.is_norm() => {
                elements + elements / u64::from(group_size) * 4
            }
            _ => elements * 4,
        }
    }

    /// Bytes of a section.
    fn section_len(&self, section: Section) -> u128 {
        match section {
            Section::Tensor(role) => {
                let times = if role.in_layer() {
                    self.config.n_layers()
                } else {
                    1
                };
                u128::from(self.tensor_len(role)) * u128::from(times)
            }
            // Half a head's size in each of two tables.
            Section::RopeTables => {
                u128::from(self.config.seq_len()) * u128::from(self.config.head_size()) * 4
            }
        }
    }

    /// Bytes of the file. No sum of these lengths comes near the end of a `u128`.
    fn file_len(&self) -> u128 {
        let sections = self.sections().map(|section| self.section_len(section));
        self.header_len() as u128 + sections.sum::<u128>()
    }

    /// Which mistake would explain a length that is wrong.
    fn length_cause(&self, found: u64) -> LengthCause {
        let (found, expected) = (u128::from(found), self.file_len());
        let classifier = self.section_len(Section::Tensor(Role::Output));
        let rope_tables = self.section_len(Section::RopeTables);
        if self.shared_classifier && found == expected + classifier {
            return LengthCause::ClassifierPresent {
                legacy: self.version == Version::Legacy,
            };
        }
        if !self.shared_classifier && found + classifier == expected {
            return LengthCause::ClassifierMissing;
        }
        if self.version == Version::Legacy && found + rope_tables == expected {
            return LengthCause::RopeTablesMissing;
        }
        let other = match self.version {
            Version::Legacy => None,
            Version::V1 => self.group_size.map(|group_size| Version::V2 { group_size }),
            Version::V2 { .. } => Some(Version::V1),
        };
        let has_length = |&version: &Version| Self { version, ..*self }.file_len() == found;
        match other.filter(has_length) {
            Some(version) => LengthCause::OtherVersion {
                number: version.number(),
            },
            None if found < expected => LengthCause::CutShort,
            None => LengthCause::TrailingBytes,
        }
    }

    /// The weights in the bytes of one tensor.
    fn weights<'a>(&self, role: Role, bytes: &'a [u8]) -> Option<Weights<'a>> {
        match self.version {
            Version::V2 { group_size } if !role.is_norm() => {
                let elements = usize::try_from(role.elements(&self.config)).ok()?;
                let (quants, scales) = bytes.split_at_checked(elements)?;
                Some(Weights::Int8 {
                    quants,
                    scales: scales.as_chunks().0,
                    group_size: usize::try_from(group_size).ok()?,
                })
            }
            _ => Some(Weights::F32(bytes.as_chunks().0)),
        }
    }
}

/// `N` little-endian integers from `at` on.
fn ints<const N: usize>(bytes: &[u8], at: usize) -> Option<[i32; N]> {
    let (chunks, _) = bytes.get(at..)?.as_chunks::<4>();
    let chunks = chunks.first_chunk::<N>()?;
    Some(chunks.map(i32::from_le_bytes))
}
