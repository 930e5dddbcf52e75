//! Block types of weights and activations: how bytes become numbers.
//!
//! One file a block type. A type of 32 elements is a `Block32`, a K type of 256 elements a
//! `Block256`; both say how the bytes of one block unpack into small integers and their scales,
//! and back, and everything else (decoding here, dot products in [`crate::kernels`]) follows from
//! that. How a block is chosen for given numbers is ggml's reference, bit for bit; who knows better
//! which numbers matter chooses quants of a [`Grid`].

mod activation;
mod bf16;
mod block;
mod f16;
mod f32;
mod grid;
mod iq4_nl;
mod q2_k;
mod q3_k;
mod q4_0;
mod q4_1;
mod q4_k;
mod q5_0;
mod q5_1;
mod q5_k;
mod q6_k;
mod q8_0;
mod search;

pub use activation::{ActivationKind, Activations, Q8Act, Q8KAct, activation_kind};
pub use bf16::{bf16_to_f32, f32_to_bf16};
pub(crate) use block::{Block32, Block256, Unpacked32, Unpacked256};
pub use f16::{f16_to_f32, f32_to_f16};
pub use grid::Grid;
pub(crate) use iq4_nl::Iq4Nl;
pub(crate) use q2_k::Q2K;
pub(crate) use q3_k::Q3K;
pub(crate) use q4_0::Q4_0;
pub(crate) use q4_1::Q4_1;
pub(crate) use q4_k::Q4K;
pub(crate) use q5_0::Q5_0;
pub(crate) use q5_1::Q5_1;
pub(crate) use q5_k::Q5K;
pub(crate) use q6_k::Q6K;
pub(crate) use q8_0::Q8_0;

use crate::built_in;
use crate::gguf::GgmlType;

/// Why a row could not be decoded or encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum QuantError {
    /// There is no decoder and no encoder for this type.
    Unsupported(GgmlType),
    /// A row of this many elements of the type does not have this many bytes.
    Length {
        /// The type of the row.
        ty: GgmlType,
        /// Elements given, or that the output has room for.
        elements: usize,
        /// Bytes given, or that the output has room for.
        bytes: usize,
    },
    /// A number to be encoded is NaN or infinite.
    NotFinite {
        /// The first such element.
        index: usize,
    },
    /// A number to be encoded is too large for the type.
    TooLarge {
        /// The first such element.
        index: usize,
    },
    /// The numbers of a block are so large that its scale or minimum is no f16.
    ScaleTooLarge {
        /// The first element of the first such block.
        index: usize,
    },
}

impl core::fmt::Display for QuantError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match *self {
            Self::Unsupported(ty) => write!(f, "no codec for type {ty}"),
            Self::Length {
                ty,
                elements,
                bytes,
            } => match row_bytes(ty, elements) {
                Some(expected) => write!(
                    f,
                    "{elements} elements of type {ty} take {expected} bytes, found {bytes}"
                ),
                None => write!(
                    f,
                    "{elements} elements are not a whole number of blocks of type {ty}"
                ),
            },
            Self::NotFinite { index } => write!(f, "element {index} is NaN or infinite"),
            Self::TooLarge { index } => write!(f, "element {index} is too large for the type"),
            Self::ScaleTooLarge { index } => {
                write!(
                    f,
                    "the scale of the block at element {index} is too large for f16"
                )
            }
        }
    }
}

impl core::error::Error for QuantError {}

/// Bytes that a row of `cols` elements takes; `None` if the type is unknown, `cols` is no multiple
/// of its block length or the size overflows.
#[must_use]
pub fn row_bytes(ty: GgmlType, cols: usize) -> Option<usize> {
    let geometry = ty.geometry()?;
    let block_len = usize::try_from(geometry.block_len).ok()?;
    let block_bytes = usize::try_from(geometry.block_bytes).ok()?;
    if !cols.is_multiple_of(block_len) {
        return None;
    }
    (cols / block_len).checked_mul(block_bytes)
}

/// Decodes whole rows: all of `row` into all of `out`, bit for bit as ggml's reference does it.
///
/// # Errors
///
/// [`QuantError::Unsupported`] for a type without a decoder, or whose decoder is not
/// [built in](crate::built_in), [`QuantError::Length`] if `row` does not hold exactly `out.len()`
/// elements.
pub fn dequantize_row(ty: GgmlType, row: &[u8], out: &mut [f32]) -> Result<(), QuantError> {
    let decode: fn(&[u8], &mut [f32]) = match ty {
        GgmlType::F32 if built_in::F32 => f32::dequantize,
        GgmlType::F16 if built_in::F16 => f16::dequantize,
        GgmlType::BF16 if built_in::BF16 => bf16::dequantize,
        GgmlType::Q8_0 if built_in::Q8_0 => block::dequantize32::<Q8_0, _>,
        GgmlType::Q4_0 if built_in::Q4_0 => block::dequantize32::<Q4_0, _>,
        GgmlType::Q4_1 if built_in::Q4_1 => block::dequantize32::<Q4_1, _>,
        GgmlType::Q5_0 if built_in::Q5_0 => block::dequantize32::<Q5_0, _>,
        GgmlType::Q5_1 if built_in::Q5_1 => block::dequantize32::<Q5_1, _>,
        GgmlType::IQ4_NL if built_in::IQ4_NL => block::dequantize32::<Iq4Nl, _>,
        GgmlType::Q2_K if built_in::Q2_K => block::dequantize256::<Q2K, _>,
        GgmlType::Q3_K if built_in::Q3_K => block::dequantize256::<Q3K, _>,
        GgmlType::Q4_K if built_in::Q4_K => block::dequantize256::<Q4K, _>,
        GgmlType::Q5_K if built_in::Q5_K => block::dequantize256::<Q5K, _>,
        GgmlType::Q6_K if built_in::Q6_K => block::dequantize256::<Q6K, _>,
        other => return Err(QuantError::Unsupported(other)),
    };
    if row_bytes(ty, out.len()) != Some(row.len()) {
        return Err(QuantError::Length {
            ty,
            elements: out.len(),
            bytes: row.len(),
        });
    }
    decode(row, out);
    Ok(())
}

/// Encodes whole rows: all of `x` into all of `row`, bit for bit as ggml's reference does it (its
/// `quantize_row_…_ref`, compiled without fused multiply-add).
///
/// Where C leaves the outcome open, for blocks whose scale is so small that its reciprocal is
/// infinite, they become zeros.
///
/// # Errors
///
/// [`QuantError::Unsupported`] for a type without an encoder, [`QuantError::Length`] if `row` does
/// not take exactly `x.len()` elements, and where a number cannot be stored, which one. What `row`
/// holds is then undefined.
pub fn quantize_row(ty: GgmlType, x: &[f32], row: &mut [u8]) -> Result<(), QuantError> {
    let encode: fn(&[f32], &mut [u8]) -> Result<(), QuantError> = match ty {
        GgmlType::F32 => f32::quantize,
        GgmlType::F16 => f16::quantize,
        GgmlType::BF16 => bf16::quantize,
        GgmlType::Q8_0 => block::quantize32::<Q8_0, _>,
        GgmlType::Q4_0 => block::quantize32::<Q4_0, _>,
        GgmlType::Q4_1 => block::quantize32::<Q4_1, _>,
        GgmlType::Q5_0 => block::quantize32::<Q5_0, _>,
        GgmlType::Q5_1 => block::quantize32::<Q5_1, _>,
        GgmlType::IQ4_NL => block::quantize32::<Iq4Nl, _>,
        GgmlType::Q2_K => block::quantize256::<Q2K, _>,
        GgmlType::Q3_K => block::quantize256::<Q3K, _>,
        GgmlType::Q4_K => block::quantize256::<Q4K, _>,
        GgmlType::Q5_K => block::quantize256::<Q5K, _>,
        GgmlType::Q6_K => block::quantize256::<Q6K, _>,
        other => return Err(QuantError::Unsupported(other)),
    };
    if row_bytes(ty, x.len()) != Some(row.len()) {
        return Err(QuantError::Length {
            ty,
            elements: x.len(),
            bytes: row.len(),
        });
    }
    let finite = |x: &f32| x.is_finite();
    // Without a way out of the loop it is compiled to vector instructions.
    if !x.iter().fold(true, |all, x| all & finite(x)) {
        let index = x.iter().position(|x| !finite(x)).unwrap_or_default();
        return Err(QuantError::NotFinite { index });
    }
    encode(x, row)
}
