//! BF16: the upper half of an f32.

/// The value of a bfloat16 number.
#[inline(always)]
#[must_use]
pub fn bf16_to_f32(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// Decodes `row`, two bytes an element.
pub(super) fn dequantize(row: &[u8], out: &mut [f32]) {
    let (halves, _) = row.as_chunks::<2>();
    for (out, &half) in out.iter_mut().zip(halves) {
        *out = bf16_to_f32(u16::from_le_bytes(half));
    }
}
