//! Block types of weights and activations: how bytes become numbers.
//!
//! One file a block type. A type of 32 elements is a `Block32`, a K type of 256 elements a
//! `Block256`; both say how the bytes of one block unpack into small integers and their scales,
//! and everything else (decoding here, dot products in [`crate::kernels`]) follows from that.

mod activation;
mod bf16;
mod block;
mod f16;
mod f32;
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

pub use activation::{ActivationKind, Activations, Q8Act, Q8KAct, activation_kind};
pub use bf16::{bf16_to_f32, f32_to_bf16};
pub(crate) use block::{Block32, Block256, Unpacked32, Unpacked256};
pub use f16::{f16_to_f32, f32_to_f16};
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

use crate::gguf::GgmlType;

/// Why a row could not be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum QuantError {
    /// There is no decoder for this type.
    Unsupported(GgmlType),
    /// A row of this many elements of the type does not have this many bytes.
    Length {
        /// The type of the row.
        ty: GgmlType,
        /// Elements that the output has room for.
        elements: usize,
        /// Bytes that were given.
        bytes: usize,
    },
}

impl core::fmt::Display for QuantError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match *self {
            Self::Unsupported(ty) => write!(f, "no decoder for type {ty}"),
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
/// [`QuantError::Unsupported`] for a type without a decoder, [`QuantError::Length`] if `row` does
/// not hold exactly `out.len()` elements.
pub fn dequantize_row(ty: GgmlType, row: &[u8], out: &mut [f32]) -> Result<(), QuantError> {
    let decode: fn(&[u8], &mut [f32]) = match ty {
        GgmlType::F32 => f32::dequantize,
        GgmlType::F16 => f16::dequantize,
        GgmlType::BF16 => bf16::dequantize,
        GgmlType::Q8_0 => block::dequantize32::<Q8_0, _>,
        GgmlType::Q4_0 => block::dequantize32::<Q4_0, _>,
        GgmlType::Q4_1 => block::dequantize32::<Q4_1, _>,
        GgmlType::Q5_0 => block::dequantize32::<Q5_0, _>,
        GgmlType::Q5_1 => block::dequantize32::<Q5_1, _>,
        GgmlType::IQ4_NL => block::dequantize32::<Iq4Nl, _>,
        GgmlType::Q2_K => block::dequantize256::<Q2K, _>,
        GgmlType::Q3_K => block::dequantize256::<Q3K, _>,
        GgmlType::Q4_K => block::dequantize256::<Q4K, _>,
        GgmlType::Q5_K => block::dequantize256::<Q5K, _>,
        GgmlType::Q6_K => block::dequantize256::<Q6K, _>,
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
