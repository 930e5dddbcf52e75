//! F32: little-endian single precision.

/// Copies `row`, four bytes an element.
pub(super) fn dequantize(row: &[u8], out: &mut [f32]) {
    let (words, _) = row.as_chunks::<4>();
    for (out, &word) in out.iter_mut().zip(words) {
        *out = f32::from_le_bytes(word);
    }
}
