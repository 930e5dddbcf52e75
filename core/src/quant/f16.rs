//! F16: IEEE 754 half precision.

use super::QuantError;

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

/// The half-precision number nearest to `value`, ties to even, as `ggml_compute_fp32_to_fp16` gives
/// it: what is 65520 or more in magnitude becomes infinite, a NaN becomes quiet and loses its
/// payload.
#[inline(always)]
#[must_use]
pub fn f32_to_f16(value: f32) -> u16 {
    /// Bits of 65536, which no rounding brings below infinity.
    const TOO_LARGE: u32 = 143 << 23;
    /// Bits of 2^-14, the smallest number that is not subnormal.
    const NORMAL: u32 = 113 << 23;
    /// Added to a number below 2^-14, the sum has the result's digits as its last ones.
    const HALF: f32 = 0.5;
    let bits = value.to_bits();
    let magnitude = bits & 0x7fff_ffff;
    let half = if magnitude >= TOO_LARGE {
        if magnitude > 0x7f80_0000 {
            0x7e00
        } else {
            0x7c00
        }
    } else if magnitude < NORMAL {
        (f32::from_bits(magnitude) + HALF).to_bits() - HALF.to_bits()
    } else {
        let even = (magnitude >> 13) & 1;
        (magnitude - (112 << 23) + 0xfff + even) >> 13
    };
    (half | (bits >> 16 & 0x8000)) as u16
}

/// Encodes finite numbers into `row`, two bytes an element.
pub(super) fn quantize(x: &[f32], row: &mut [u8]) -> Result<(), QuantError> {
    let (halves, _) = row.as_chunks_mut::<2>();
    for ((index, &x), out) in x.iter().enumerate().zip(halves) {
        let bits = f32_to_f16(x);
        if bits & 0x7fff == 0x7c00 {
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

    #[test]
    fn what_is_between_two_numbers_goes_to_the_nearest_or_the_even_one() {
        for bits in 0..=u16::MAX {
            let value = f16_to_f32(bits);
            if value.is_nan() {
                assert_eq!(f32_to_f16(value), 0x7e00 | (bits & 0x8000));
                continue;
            }
            assert_eq!(f32_to_f16(value), bits);
            if value.is_infinite() {
                continue;
            }
            // The next number away from zero; behind the last one, where it would be.
            let next = match f16_to_f32(bits + 1) {
                next if next.is_finite() => next,
                _ => 65_536_f32.copysign(value),
            };
            let middle = value + (next - value) / 2.0;
            let even = bits + (bits & 1);
            assert_eq!(f32_to_f16(middle), even, "{middle}");
            let (below, above) = (middle.to_bits() - 1, middle.to_bits() + 1);
            assert_eq!(f32_to_f16(f32::from_bits(below)), bits, "{middle}");
            assert_eq!(f32_to_f16(f32::from_bits(above)), bits + 1, "{middle}");
        }
    }

    #[test]
    fn rounding_is_that_of_the_half_crate() {
        for bits in (0..=u32::MAX).step_by(4093) {
            let value = f32::from_bits(bits);
            if !value.is_nan() {
                let expected = half::f16::from_f32_const(value).to_bits();
                assert_eq!(f32_to_f16(value), expected, "{bits:#010x}");
            }
        }
    }
}
