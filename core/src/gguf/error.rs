//! What can be wrong with the bytes of a GGUF file, and where.

use super::{GgmlType, ValueType};

/// A fault in the bytes and the offset, counted from the first byte of the file, at which it lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Error {
    /// What is wrong.
    pub kind: ErrorKind,
    /// Where: the offset in bytes of the field that is wrong.
    pub offset: u64,
}

/// The kinds of fault. Counts and lengths are as found in the file, `left` is how many bytes follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum ErrorKind {
    /// The bytes end inside `what`, which needs `needed` bytes where `left` are left.
    Truncated {
        /// The thing that was being read.
        what: &'static str,
        /// Bytes that it takes.
        needed: u64,
        /// Bytes that are there.
        left: u64,
    },
    /// The first four bytes are not `GGUF`.
    BadMagic {
        /// The bytes found.
        found: [u8; 4],
    },
    /// A version other than 1, 2 and 3.
    BadVersion {
        /// The version found.
        found: u32,
    },
    /// The version reads as 1 to 3 with its bytes swapped: a big-endian file.
    BigEndian,
    /// More tensors than the bytes that follow can hold.
    TensorCount {
        /// The count found.
        found: u64,
        /// The most that the bytes left can hold.
        room: u64,
    },
    /// More metadata entries than the bytes that follow can hold.
    MetadataCount {
        /// The count found.
        found: u64,
        /// The most that the bytes left can hold.
        room: u64,
    },
    /// Header, metadata and tensor infos reach past 4 GiB.
    MetadataTooLarge,
    /// More entries than can be checked without scratch, or than the scratch that was given holds.
    ScratchTooSmall {
        /// Elements of `u32` that are needed.
        needed: u64,
        /// Elements that were given.
        given: u64,
    },
    /// A key of no bytes.
    EmptyKey,
    /// A key longer than 65,535 bytes.
    KeyTooLong {
        /// Its length in bytes.
        len: u64,
    },
    /// A key that is not UTF-8 or holds a NUL.
    KeyCharset,
    /// A key that came before.
    DuplicateKey {
        /// Offset of the entry that has the key first.
        first: u64,
    },
    /// A number that stands for no value type.
    ValueType {
        /// The number found.
        found: u32,
    },
    /// A string longer than the bytes that follow.
    StringLength {
        /// The length found, in bytes.
        found: u64,
        /// Bytes that are there.
        left: u64,
    },
    /// An array of more elements than the bytes that follow can hold.
    ArrayLength {
        /// The element count found.
        found: u64,
        /// Bytes that are there.
        left: u64,
    },
    /// An array of arrays.
    NestedArray,
    /// A bool that is neither 0 nor 1.
    BoolValue {
        /// The byte found.
        found: u8,
    },
    /// `general.alignment` is not a `u32`.
    AlignmentType {
        /// The type found.
        found: ValueType,
    },
    /// `general.alignment` is not a power of two from 1 to 2^30.
    Alignment {
        /// The value found.
        found: u32,
    },
    /// A tensor name of no bytes.
    EmptyName,
    /// A tensor name longer than 63 bytes.
    NameTooLong {
        /// Its length in bytes.
        len: u64,
    },
    /// A tensor name that is not UTF-8 or holds a NUL.
    NameCharset,
    /// A tensor name that came before.
    DuplicateTensor {
        /// Offset of the tensor info that has the name first.
        first: u64,
    },
    /// More than four dimensions.
    DimensionCount {
        /// The count found.
        found: u32,
    },
    /// Dimensions whose product, in elements or in bytes, does not fit into 63 bits.
    ShapeOverflow,
    /// A tensor of more bytes than the whole file has.
    TensorTooLarge {
        /// Bytes of the tensor by its type and shape.
        bytes: u64,
        /// Bytes of the whole file.
        file: u64,
    },
    /// A type number that ggml does not define.
    TensorType {
        /// The number found.
        found: u32,
    },
    /// A row that is no whole number of blocks.
    RowLength {
        /// Elements of a row.
        row: u64,
        /// Elements of a block.
        block: u32,
        /// The tensor's type.
        ty: GgmlType,
    },
    /// A tensor's offset is not a multiple of the alignment.
    OffsetUnaligned {
        /// The offset found, counted from the start of the data.
        found: u64,
        /// The file's alignment in bytes.
        alignment: u32,
    },
    /// A tensor reaches past the end of the data.
    OffsetOutOfBounds {
        /// The offset found, counted from the start of the data.
        found: u64,
        /// Bytes of the tensor.
        bytes: u64,
        /// Bytes of data in the file.
        data: u64,
    },
    /// The data ends inside this tensor, which lies where it should: the file is cut.
    DataTruncated {
        /// Bytes of data that the tensor reaches to.
        needed: u64,
        /// Bytes of data in the file.
        data: u64,
    },
    /// A tensor shares bytes with another one.
    Overlap {
        /// Offset of the other tensor's info.
        other: u64,
    },
}

impl ErrorKind {
    /// The kind's name for programs: its variant in lower case, `bad_magic`. It does not change.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Truncated { .. } => "truncated",
            Self::BadMagic { .. } => "bad_magic",
            Self::BadVersion { .. } => "bad_version",
            Self::BigEndian => "big_endian",
            Self::TensorCount { .. } => "tensor_count",
            Self::MetadataCount { .. } => "metadata_count",
            Self::MetadataTooLarge => "metadata_too_large",
            Self::ScratchTooSmall { .. } => "scratch_too_small",
            Self::EmptyKey => "empty_key",
            Self::KeyTooLong { .. } => "key_too_long",
            Self::KeyCharset => "key_charset",
            Self::DuplicateKey { .. } => "duplicate_key",
            Self::ValueType { .. } => "value_type",
            Self::StringLength { .. } => "string_length",
            Self::ArrayLength { .. } => "array_length",
            Self::NestedArray => "nested_array",
            Self::BoolValue { .. } => "bool_value",
            Self::AlignmentType { .. } => "alignment_type",
            Self::Alignment { .. } => "alignment",
            Self::EmptyName => "empty_name",
            Self::NameTooLong { .. } => "name_too_long",
            Self::NameCharset => "name_charset",
            Self::DuplicateTensor { .. } => "duplicate_tensor",
            Self::DimensionCount { .. } => "dimension_count",
            Self::ShapeOverflow => "shape_overflow",
            Self::TensorTooLarge { .. } => "tensor_too_large",
            Self::TensorType { .. } => "tensor_type",
            Self::RowLength { .. } => "row_length",
            Self::OffsetUnaligned { .. } => "offset_unaligned",
            Self::OffsetOutOfBounds { .. } => "offset_out_of_bounds",
            Self::DataTruncated { .. } => "data_truncated",
            Self::Overlap { .. } => "overlap",
        }
    }
}

impl core::fmt::Display for Error {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "at byte {}: {}", self.offset, self.kind)
    }
}

impl core::fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match *self {
            Self::Truncated { what, needed, left } => {
                write!(f, "truncated: {what} takes {needed} bytes, {left} are left")
            }
            Self::BadMagic { found } => bad_magic(f, found),
            Self::BadVersion { found } => {
                write!(f, "version {found} is not supported, 1 to 3 are")
            }
            Self::BigEndian => {
                write!(f, "big-endian file: only little-endian GGUF is supported")
            }
            Self::TensorCount { found, room } => write!(
                f,
                "tensor count {found} is too large: the bytes that follow hold at most {room}; \
                 truncated file or corrupted count"
            ),
            Self::MetadataCount { found, room } => write!(
                f,
                "metadata count {found} is too large: the bytes that follow hold at most {room}; \
                 truncated file or corrupted count"
            ),
            Self::MetadataTooLarge => write!(f, "metadata reaches past 4 GiB"),
            Self::ScratchTooSmall { needed, given } => write!(
                f,
                "checking this many entries takes {needed} words of scratch, {given} were given"
            ),
            Self::EmptyKey => write!(f, "empty key"),
            Self::KeyTooLong { len } => {
                write!(f, "key of {len} bytes, at most 65535 are allowed")
            }
            Self::KeyCharset => write!(f, "key is not UTF-8 or holds a NUL"),
            Self::DuplicateKey { first } => {
                write!(f, "duplicate key, first seen at byte {first}")
            }
            Self::ValueType { found } => {
                write!(f, "value type {found} does not exist, 0 to 12 do")
            }
            Self::StringLength { found, left } => {
                write!(
                    f,
                    "string length {found}, but {left} bytes are left: truncated file or corrupted length"
                )
            }
            Self::ArrayLength { found, left } => {
                write!(
                    f,
                    "array length {found}, but {left} bytes are left: truncated file or corrupted length"
                )
            }
            Self::NestedArray => write!(f, "nested array: arrays of arrays are not supported"),
            Self::BoolValue { found } => write!(f, "bool of value {found}, only 0 and 1 are"),
            Self::AlignmentType { found } => {
                write!(f, "general.alignment must be a u32, it is a {found}")
            }
            Self::Alignment { found } => write!(
                f,
                "alignment {found} is not a power of two from 1 to 1073741824"
            ),
            Self::EmptyName => write!(f, "empty tensor name"),
            Self::NameTooLong { len } => {
                write!(f, "tensor name of {len} bytes, at most 63 are allowed")
            }
            Self::NameCharset => write!(f, "tensor name is not UTF-8 or holds a NUL"),
            Self::DuplicateTensor { first } => {
                write!(f, "duplicate tensor name, first seen at byte {first}")
            }
            Self::DimensionCount { found } => {
                write!(f, "{found} dimensions, at most 4 are allowed")
            }
            Self::ShapeOverflow => write!(f, "shape overflows: its size does not fit 63 bits"),
            Self::TensorTooLarge { bytes, file } => write!(
                f,
                "shape asks for {bytes} bytes, the whole file has {file}: wrong shape or a file \
                 cut short"
            ),
            Self::TensorType { found } => write!(f, "tensor type {found} is unknown"),
            Self::RowLength { row, block, ty } => write!(
                f,
                "row of {row} elements is no multiple of {block}, the block of {ty}"
            ),
            Self::OffsetUnaligned { found, alignment } => write!(
                f,
                "tensor offset {found} is not a multiple of the alignment {alignment}"
            ),
            Self::OffsetOutOfBounds { found, bytes, data } => write!(
                f,
                "tensor offset {found} with {bytes} bytes reaches past the data, which has \
                 {data} bytes"
            ),
            Self::DataTruncated { needed, data } => write!(
                f,
                "truncated: this tensor ends after {needed} bytes of data, the file has {data}"
            ),
            Self::Overlap { other } => {
                write!(f, "tensor overlaps the one whose info is at byte {other}")
            }
        }
    }
}

/// Says what the file might be instead: these come up where GGUF files are handled.
fn bad_magic(f: &mut core::fmt::Formatter<'_>, found: [u8; 4]) -> core::fmt::Result {
    let guess = match found {
        [0x1f, 0x8b, ..] => "gzip: unpack it first",
        [b'P', b'K', ..] => "zip, perhaps a PyTorch checkpoint",
        [b'v', b'e', b'r', b's'] => "text, perhaps a Git LFS pointer: fetch the real file",
        [b'l', b'm', b'g', b'g'] | [b'f', b'm', b'g', b'g'] | [b't', b'j', b'g', b'g'] => {
            "an old ggml format: convert it again"
        }
        [b'F', b'U', b'G', b'G'] => "GGUF with its bytes swapped",
        _ => "not a GGUF file",
    };
    let [a, b, c, d] = found;
    write!(
        f,
        "bad magic {a:02x} {b:02x} {c:02x} {d:02x}, expected 47 47 55 46 (GGUF): {guess}"
    )
}

impl core::error::Error for Error {}

/// A metadata key that is not there, or not as it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum KeyError<'k> {
    /// The key is required and not there.
    Missing {
        /// The key.
        key: &'k str,
    },
    /// The key is there with a value of another type.
    WrongType {
        /// The key.
        key: &'k str,
        /// What its value should be, in words.
        expected: &'static str,
        /// The type of its value.
        found: ValueType,
    },
    /// The key's value is a number outside the range of the type that was asked for.
    OutOfRange {
        /// The key.
        key: &'k str,
        /// What its value should be, in words.
        expected: &'static str,
    },
}

impl core::fmt::Display for KeyError<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match *self {
            Self::Missing { key } => write!(f, "metadata key {key} is missing"),
            Self::WrongType {
                key,
                expected,
                found,
            } => write!(f, "metadata key {key} must be {expected}, it is {found}"),
            Self::OutOfRange { key, expected } => {
                write!(
                    f,
                    "metadata key {key} must be {expected}, it is out of range"
                )
            }
        }
    }
}

impl core::error::Error for KeyError<'_> {}
