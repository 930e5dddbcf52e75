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

#[cfg(test)]
mod tests {
    use super::*;

    /// Four wide, six hidden, two layers, two heads over one KV head, five tokens, three positions.
    const CONFIG: [i32; 7] = [4, 6, 2, 2, 1, 5, 3];

    /// A header of 256 bytes.
    fn header(version: i32, shared: u8, group_size: i32) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(version.to_le_bytes());
        bytes.extend(CONFIG.iter().flat_map(|v| v.to_le_bytes()));
        bytes.push(shared);
        bytes.extend(group_size.to_le_bytes());
        bytes.resize(HEADER_LEN, 0);
        bytes
    }

    /// The numbers from 0 on, behind `header`.
    fn with_floats(mut header: Vec<u8>, count: u16) -> Vec<u8> {
        header.extend((0..count).flat_map(|n| f32::from(n).to_le_bytes()));
        header
    }

    fn legacy(shared: bool) -> Vec<u8> {
        let mut config = CONFIG;
        if !shared {
            config[5] = -config[5];
        }
        let header = config.iter().flat_map(|v| v.to_le_bytes()).collect();
        with_floats(header, if shared { 286 } else { 306 })
    }

    fn v1(shared: bool) -> Vec<u8> {
        let header = header(1, shared.into(), 0);
        with_floats(header, if shared { 280 } else { 300 })
    }

    /// Quants and scales are numbered on as well: 1, 2, 3 … and 1.0, 2.0, 3.0 … in each tensor.
    fn v2(shared: bool) -> Vec<u8> {
        let mut bytes = with_floats(header(2, shared.into(), 2), 20);
        let matrices = [20, 16, 16, 8, 8, 8, 8, 16, 16, 24, 24, 24, 24, 24, 24];
        let classifier = if shared { None } else { Some(20) };
        for elements in matrices.into_iter().chain(classifier) {
            bytes.extend(1..=elements);
            let scales = (1..=elements / 2).map(f32::from);
            bytes.extend(scales.flat_map(f32::to_le_bytes));
        }
        bytes
    }

    /// The first number of a tensor and how many it has.
    fn first(checkpoint: &Checkpoint<'_>, role: Role, layer: u32) -> Option<(f32, usize)> {
        let weights = checkpoint.weights(role, layer)?;
        let mut number = [f32::NAN];
        weights.read(0, &mut number);
        Some((number[0], weights.len()))
    }

    #[test]
    fn tensors_of_a_legacy_file_lie_where_run_c_looks_for_them() {
        let bytes = legacy(false);
        let checkpoint = Checkpoint::parse(&bytes).unwrap();
        assert_eq!(checkpoint.version(), Version::Legacy);
        assert!(!checkpoint.shared_classifier());
        for (role, layer, start, len) in [
            (Role::TokenEmbd, 0, 0.0, 20),
            (Role::AttnNorm, 0, 20.0, 4),
            (Role::AttnNorm, 1, 24.0, 4),
            (Role::AttnQ, 0, 28.0, 16),
            (Role::AttnQ, 1, 44.0, 16),
            (Role::AttnK, 0, 60.0, 8),
            (Role::AttnV, 1, 84.0, 8),
            (Role::AttnOutput, 0, 92.0, 16),
            (Role::FfnNorm, 1, 128.0, 4),
            (Role::FfnGate, 0, 132.0, 24),
            (Role::FfnDown, 1, 204.0, 24),
            (Role::FfnUp, 1, 252.0, 24),
            (Role::OutputNorm, 0, 276.0, 4),
            // Six numbers of tables between.
            (Role::Output, 0, 286.0, 20),
        ] {
            let found = first(&checkpoint, role, layer);
            assert_eq!(found, Some((start, len)), "{role:?} {layer}");
        }
        assert_eq!(first(&checkpoint, Role::AttnQ, 2), None);
        let bytes = legacy(true);
        let tied = Checkpoint::parse(&bytes).unwrap();
        assert!(tied.shared_classifier());
        assert_eq!(first(&tied, Role::Output, 0), None);
    }

    #[test]
    fn tensors_of_the_newer_versions_lie_where_export_py_puts_them() {
        let bytes = v1(false);
        let checkpoint = Checkpoint::parse(&bytes).unwrap();
        assert_eq!(checkpoint.version(), Version::V1);
        for (role, layer, start, len) in [
            (Role::AttnNorm, 1, 4.0, 4),
            (Role::FfnNorm, 0, 8.0, 4),
            (Role::OutputNorm, 0, 16.0, 4),
            (Role::TokenEmbd, 0, 20.0, 20),
            (Role::AttnQ, 1, 56.0, 16),
            (Role::AttnK, 0, 72.0, 8),
            (Role::AttnV, 0, 88.0, 8),
            (Role::AttnOutput, 0, 104.0, 16),
            (Role::FfnGate, 0, 136.0, 24),
            (Role::FfnDown, 0, 184.0, 24),
            (Role::FfnUp, 1, 256.0, 24),
            (Role::Output, 0, 280.0, 20),
        ] {
            let found = first(&checkpoint, role, layer);
            assert_eq!(found, Some((start, len)), "{role:?} {layer}");
        }

        let bytes = v2(false);
        let checkpoint = Checkpoint::parse(&bytes).unwrap();
        assert_eq!(checkpoint.version(), Version::V2 { group_size: 2 });
        assert_eq!(first(&checkpoint, Role::OutputNorm, 0), Some((16.0, 4)));
        for (role, layer) in [(Role::TokenEmbd, 0), (Role::AttnK, 1), (Role::Output, 0)] {
            let mut numbers = [0.0; 6];
            let weights = checkpoint.weights(role, layer).unwrap();
            weights.read(0, &mut numbers);
            assert_eq!(numbers, [1.0, 2.0, 6.0, 8.0, 15.0, 18.0], "{role:?}");
        }
    }

    #[test]
    fn lengths_that_are_wrong_say_why() {
        let cause = |bytes: &[u8]| match Checkpoint::parse(bytes).unwrap_err() {
            CheckpointError::Length { cause, .. } => cause,
            other => panic!("{other}"),
        };
        for good in [
            legacy(true),
            legacy(false),
            v1(true),
            v1(false),
            v2(true),
            v2(false),
        ] {
            assert!(Checkpoint::parse(&good).is_ok());
            for len in 0..good.len() {
                assert!(Checkpoint::parse(&good[..len]).is_err(), "{len}");
            }
            assert_eq!(cause(&good[..good.len() - 1]), LengthCause::CutShort);
            let more = [&good[..], b"\n"].concat();
            assert_eq!(cause(&more), LengthCause::TrailingBytes);
        }
        // The header of one and the body of another.
        let splice = |header: Vec<u8>, body: Vec<u8>, at: usize| {
            cause(&[&header[..at], &body[at..]].concat())
        };
        let lost_sign = LengthCause::ClassifierPresent { legacy: true };
        assert_eq!(splice(legacy(true), legacy(false), 28), lost_sign);
        let missing = LengthCause::ClassifierMissing;
        assert_eq!(splice(legacy(false), legacy(true), 28), missing);
        let wrong_flag = LengthCause::ClassifierPresent { legacy: false };
        assert_eq!(splice(v1(true), v1(false), 256), wrong_flag);
        assert_eq!(splice(v2(false), v2(true), 256), missing);
        let tables = legacy(true);
        let tables = cause(&tables[..tables.len() - 24]);
        assert_eq!(tables, LengthCause::RopeTablesMissing);
        let other = |number| LengthCause::OtherVersion { number };
        assert_eq!(splice(header(2, 1, 2), v1(true), 256), other(1));
        assert_eq!(splice(header(1, 1, 2), v2(true), 256), other(2));
    }

    #[test]
    fn no_header_leads_astray() {
        // Every byte of every header, with the values at which numbers tip over.
        for good in [legacy(true), v1(false), v2(true)] {
            for at in 0..64.min(good.len()) {
                for value in [0, 1, 0x7f, 0x80, 0xff] {
                    let mut bytes = good.clone();
                    bytes[at] = value;
                    if let Ok(checkpoint) = Checkpoint::parse(&bytes) {
                        for role in Role::LAYER {
                            assert!(first(&checkpoint, role, 0).is_some());
                        }
                    }
                }
            }
        }
        let largest = [i32::MAX, i32::MAX, i32::MAX, 1, 1, i32::MIN, i32::MAX];
        let largest: Vec<_> = largest.iter().flat_map(|v| v.to_le_bytes()).collect();
        assert!(Checkpoint::parse(&largest).is_err());
    }

    #[test]
    fn flags_and_groups_are_checked() {
        let error = |bytes: Vec<u8>| Checkpoint::parse(&bytes).unwrap_err();
        let flag = CheckpointError::SharedFlag { found: 2 };
        assert_eq!(error(header(1, 2, 0)), flag);
        for found in [0, -1, 3, 8] {
            let group = CheckpointError::GroupSize { found, dim: 4 };
            assert_eq!(error(header(2, 1, found)), group);
        }
        for found in [0, 3, -1] {
            let version = CheckpointError::Version { found };
            assert_eq!(error(header(found, 1, 2)), version);
        }
    }
}
