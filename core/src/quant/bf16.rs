//! BF16: the upper half of an f32.

use super::QuantError;

/// The value of a bfloat16 number.
#[inline(always)]
#[must_use]
pub fn bf16_to_f32(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// The bfloat16 number nearest to `value`, ties to even, as `ggml_compute_fp32_to_bf16` gives it; a
/// NaN becomes quiet.
#[inline(always)]
#[must_use]
pub fn f32_to_bf16(value: f32) -> u16 {
    let bits = value.to_bits();
    let upper = bits >> 16;
    let rounded = if value.is_nan() {
        upper | 0x40
    } else {
        (bits + 0x7fff + (upper & 1)) >> 16
    };
    rounded as u16
}

/// Encodes finite numbers into `row`, two bytes an element.
pub(super) fn quantize(x: &[f32], row: &mut [u8]) -> Result<(), QuantError> {
    let (halves, _) = row.as_chunks_mut::<2>();
    for ((index, &x), out) in x.iter().enumerate().zip(halves) {
        let bits = f32_to_bf16(x);
        if bits & 0x7fff == 0x7f80 {
            return Err(QuantError::TooLarge { index });
        }
        *out = bits.to_le_bytes();
    }
    Ok(())
}

/// Decodes `row`, two bytes an element.
pub(super) fn dequantize(row: &[u8], out: &mut [f32]) {
    let (halves, _) = row.as_chunks::<2>();
    for (out, &half) in out.iter_mut().zip(halves) {
        *out = bf16_to_f32(u16::from_le_bytes(half));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_is_that_of_the_half_crate() {
        let ties = (0..=u16::MAX).map(|upper| u32::from(upper) << 16 | 0x8000);
        let around = ties.flat_map(|tie| [tie - 1, tie, tie + 1]);
        for bits in around.chain((0..=u32::MAX).step_by(4093)) {
            let value = f32::from_bits(bits);
            let expected = half::bf16::from_f32_const(value).to_bits();
            assert_eq!(f32_to_bf16(value), expected, "{bits:#010x}");
        }
    }

    #[test]
    fn every_number_comes_back() {
        for bits in 0..=u16::MAX {
            let quiet = if bf16_to_f32(bits).is_nan() { 0x40 } else { 0 };
            assert_eq!(f32_to_bf16(bf16_to_f32(bits)), bits | quiet);
        }
    }
}
