//! F32: little-endian single precision.

use super::QuantError;

/// Copies numbers into `row`, four bytes an element.
#[allow(clippy::unnecessary_wraps)] // As the encoders of other types, which can fail.
pub(super) fn quantize(x: &[f32], row: &mut [u8]) -> Result<(), QuantError> {
    let (words, _) = row.as_chunks_mut::<4>();
    for (&x, out) in x.iter().zip(words) {
        *out = x.to_le_bytes();
    }
    Ok(())
}

/// Copies `row`, four bytes an element.
pub(super) fn dequantize(row: &[u8], out: &mut [f32]) {
    let (words, _) = row.as_chunks::<4>();
    for (out, &word) in out.iter_mut().zip(words) {
        *out = f32::from_le_bytes(word);
    }
}
