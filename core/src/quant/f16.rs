//! F16: IEEE 754 half precision.

/// The value of a half-precision number, exactly; subnormals are kept, a NaN becomes quiet.
#[inline(always)]
#[must_use]
pub fn f16_to_f32(bits: u16) -> f32 {
    /// 2^112, the difference between the exponent biases of f32 and f16.
    const REBIAS: f32 = f32::from_bits(239 << 23);
    let sign = u32::from(bits & 0x8000) << 16;
    let magnitude = u32::from(bits & 0x7fff);
    let value = if magnitude >= 0x7c00 {
        let quiet = if magnitude > 0x7c00 { 0x40_0000 } else { 0 };
        0x7f80_0000 | (magnitude << 13) | quiet
    } else {
        // Exact: the product has no more digits than the number, and a subnormal becomes normal.
        (f32::from_bits(magnitude << 13) * REBIAS).to_bits()
    };
    f32::from_bits(value | sign)
}

/// Decodes `row`, two bytes an element.
pub(super) fn dequantize(row: &[u8], out: &mut [f32]) {
    let (halves, _) = row.as_chunks::<2>();
    for (out, &half) in out.iter_mut().zip(halves) {
        *out = f16_to_f32(u16::from_le_bytes(half));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_that_of_the_half_crate() {
        for bits in 0..=u16::MAX {
            let expected = half::f16::from_bits(bits).to_f32_const();
            assert_eq!(
                f16_to_f32(bits).to_bits(),
                expected.to_bits(),
                "{bits:#06x}"
            );
        }
    }
}
