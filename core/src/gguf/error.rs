//! What can be wrong with the bytes of a GGUF file, and where.

use super::{GgmlType, ValueType};
use crate::message::{Message, display_message};

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

const KEY: &str = "key";
const NAME: &str = "tensor name";
const COUNT: &str =
    "$ count # is too large, the bytes that follow hold at most #: truncated or corrupted";
const LENGTH: &str = "$ length #, but # bytes are left: truncated or corrupted";
const EMPTY: &str = "empty $";
const TOO_LONG: &str = "$ of # bytes, at most # are allowed";
const CHARSET: &str = "$ is not UTF-8 or holds a NUL";
const DUPLICATE: &str = "duplicate $, first seen at byte #";

impl Error {
    pub(crate) fn describe(&self, message: &mut Message<'_>) {
        message.at_byte(self.offset);
        self.kind.describe(message);
    }
}

display_message!(Error);

impl ErrorKind {
    fn describe(&self, message: &mut Message<'_>) {
        match *self {
            Self::Truncated { what, needed, left } => message
                .say("truncated: $ takes # bytes, # bytes are left")
                .words([what])
                .numbers([needed, left]),
            Self::BadMagic { found } => message
                .say("bad magic %, expected 47475546 (GGUF): $")
                .numbers([u32::from_be_bytes(found).into()])
                .words([guess(found)]),
            Self::BadVersion { found } => message
                .say("version # is not supported, 1 to 3 are")
                .numbers([found.into()]),
            Self::BigEndian => message.say("big-endian file: only little-endian GGUF is supported"),
            Self::TensorCount { found, room } => {
                message.say(COUNT).words(["tensor"]).numbers([found, room])
            }
            Self::MetadataCount { found, room } => message
                .say(COUNT)
                .words(["metadata"])
                .numbers([found, room]),
            Self::MetadataTooLarge => message.say("metadata reaches past 4 GiB"),
            Self::ScratchTooSmall { needed, given } => message
                .say("checking this many entries takes # words of scratch, # were given")
                .numbers([needed, given]),
            Self::EmptyKey => message.say(EMPTY).words([KEY]),
            Self::KeyTooLong { len } => message.say(TOO_LONG).words([KEY]).numbers([len, 65_535]),
            Self::KeyCharset => message.say(CHARSET).words([KEY]),
            Self::DuplicateKey { first } => message.say(DUPLICATE).words([KEY]).numbers([first]),
            Self::ValueType { found } => message
                .say("value type # does not exist, 0 to 12 do")
                .numbers([found.into()]),
            Self::StringLength { found, left } => {
                message.say(LENGTH).words(["string"]).numbers([found, left])
            }
            Self::ArrayLength { found, left } => {
                message.say(LENGTH).words(["array"]).numbers([found, left])
            }
            Self::NestedArray => message.say("nested array: arrays of arrays are not supported"),
            Self::BoolValue { found } => message
                .say("bool of value #, only 0 and 1 are")
                .numbers([found.into()]),
            Self::AlignmentType { found } => message
                .say("general.alignment must be a u32, it is a $")
                .words([found.name()]),
            Self::Alignment { found } => message
                .say("alignment # is not a power of two from 1 to 1073741824")
                .numbers([found.into()]),
            Self::EmptyName => message.say(EMPTY).words([NAME]),
            Self::NameTooLong { len } => message.say(TOO_LONG).words([NAME]).numbers([len, 63]),
            Self::NameCharset => message.say(CHARSET).words([NAME]),
            Self::DuplicateTensor { first } => {
                message.say(DUPLICATE).words([NAME]).numbers([first])
            }
            Self::DimensionCount { found } => message
                .say("# dimensions, at most 4 are allowed")
                .numbers([found.into()]),
            Self::ShapeOverflow => message.say("shape overflows: its size does not fit 63 bits"),
            Self::TensorTooLarge { bytes, file } => message
                .say("shape asks for # bytes, the whole file has #: wrong or truncated")
                .numbers([bytes, file]),
            Self::TensorType { found } => message
                .say("tensor type # is unknown")
                .numbers([found.into()]),
            Self::RowLength { row, block, ty } => message
                .say("row of # elements is no multiple of #, the block of $")
                .numbers([row, block.into()])
                .words([ty.name().unwrap_or_default()]),
            Self::OffsetUnaligned { found, alignment } => message
                .say("tensor offset # is not a multiple of the alignment #")
                .numbers([found, alignment.into()]),
            Self::OffsetOutOfBounds { found, bytes, data } => message
                .say("tensor offset # with # bytes reaches past the data, which has # bytes")
                .numbers([found, bytes, data]),
            Self::DataTruncated { needed, data } => message
                .say("truncated: this tensor ends after # bytes of data, the file has #")
                .numbers([needed, data]),
            Self::Overlap { other } => message
                .say("tensor overlaps the one whose info is at byte #")
                .numbers([other]),
        };
    }
}

impl core::fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        Message::print(f, |message| self.describe(message))
    }
}

/// What the file might be instead: these come up where GGUF files are handled.
fn guess(found: [u8; 4]) -> &'static str {
    if cfg!(target_os = "none") {
        return "not a GGUF file";
    }
    match found {
        [0x1f, 0x8b, ..] => "gzip: unpack it first",
        [b'P', b'K', ..] => "zip, perhaps a PyTorch checkpoint",
        [b'v', b'e', b'r', b's'] => "text, perhaps a Git LFS pointer: fetch the real file",
        [b'l', b'm', b'g', b'g'] | [b'f', b'm', b'g', b'g'] | [b't', b'j', b'g', b'g'] => {
            "an old ggml format: convert it again"
        }
        [b'F', b'U', b'G', b'G'] => "GGUF with its bytes swapped",
        _ => "not a GGUF file",
    }
}

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

impl KeyError<'_> {
    pub(crate) fn describe<'m>(&'m self, message: &mut Message<'m>) {
        match *self {
            Self::Missing { key } => message.say("metadata key $ is missing").words([key]),
            Self::WrongType {
                key,
                expected,
                found,
            } => message.say("metadata key $ must be $, it is $").words([
                key,
                expected,
                found.name(),
            ]),
            Self::OutOfRange { key, expected } => message
                .say("metadata key $ must be $, it is out of range")
                .words([key, expected]),
        };
    }
}

display_message!(KeyError<'_>);
