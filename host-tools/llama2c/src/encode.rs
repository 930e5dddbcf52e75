//! Streams a tensor's numbers into the file, in the type that was asked for.

use std::io::{self, Write};

use smidgen_core::gguf::GgmlType;
use smidgen_core::quant::{f32_to_bf16, f32_to_f16};

use crate::Weights;

/// Elements that are read, checked and written at a time.
const CHUNK: usize = 1 << 16;

/// The type that matrices are stored in; norms are always F32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WeightType {
    /// As the checkpoint has them; int8 weights are multiplied out.
    #[default]
    F32,
    /// Half precision, rounded to nearest even.
    F16,
    /// The upper half of f32, rounded to nearest even.
    BF16,
}

impl WeightType {
    /// ggml's type.
    #[must_use]
    pub fn ggml_type(self) -> GgmlType {
        match self {
            Self::F32 => GgmlType::F32,
            Self::F16 => GgmlType::F16,
            Self::BF16 => GgmlType::BF16,
        }
    }

    /// The number for `general.file_type`, llama.cpp's `LLAMA_FTYPE_…`.
    #[must_use]
    pub fn file_type(self) -> u32 {
        match self {
            Self::F32 => 0,
            Self::F16 => 1,
            Self::BF16 => 32,
        }
    }

    /// The greatest f32 that does not become infinite.
    fn limit(self) -> f32 {
        match self {
            Self::F32 => f32::MAX,
            // 65520 is half way between 65504 and what would be the next number.
            Self::F16 => 65_520_f32.next_down(),
            Self::BF16 => f32::from_bits(0x7f7f_7fff),
        }
    }
}

/// A number that cannot be stored, and where it stands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct BadNumber {
    /// The element, counted through all rows.
    pub(crate) index: usize,
    pub(crate) value: f32,
}

/// Why a tensor could not be written.
#[derive(Debug)]
pub(crate) enum Failure {
    Io(io::Error),
    Number(BadNumber),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Writes all elements of `weights` as `ty`.
pub(crate) fn write(
    weights: &Weights<'_>,
    ty: WeightType,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    if let (Weights::F32(values), WeightType::F32) = (weights, ty) {
        return copy(values, out);
    }
    let mut numbers = vec![0.0; CHUNK.min(weights.len())];
    let mut bytes = vec![0; numbers.len() * 4];
    let limit = ty.limit();
    let mut start = 0;
    while start < weights.len() {
        let numbers = weights.read(start, &mut numbers);
        check(numbers, start, limit, |&v| v)?;
        let bytes = match ty {
            WeightType::F32 => store(numbers, &mut bytes, f32::to_le_bytes),
            WeightType::F16 => store(numbers, &mut bytes, |v| f32_to_f16(v).to_le_bytes()),
            WeightType::BF16 => store(numbers, &mut bytes, |v| f32_to_bf16(v).to_le_bytes()),
        };
        out.write_all(bytes)?;
        start += numbers.len();
    }
    Ok(())
}

/// Puts each number as `N` bytes into `bytes`, and returns the part that they fill.
fn store<'b, const N: usize>(
    numbers: &[f32],
    bytes: &'b mut [u8],
    encode: impl Fn(f32) -> [u8; N],
) -> &'b [u8] {
    let bytes = &mut bytes[..numbers.len() * N];
    for (bytes, &number) in bytes.as_chunks_mut().0.iter_mut().zip(numbers) {
        *bytes = encode(number);
    }
    bytes
}

/// Writes f32 as they are, straight from where they lie.
fn copy(values: &[[u8; 4]], out: &mut dyn Write) -> Result<(), Failure> {
    for (chunk, start) in values.chunks(CHUNK).zip((0..).step_by(CHUNK)) {
        check(chunk, start, f32::MAX, |&v| f32::from_le_bytes(v))?;
        out.write_all(chunk.as_flattened())?;
    }
    Ok(())
}

/// Fails with the first number beyond `limit`, or that is none.
fn check<T>(
    numbers: &[T],
    start: usize,
    limit: f32,
    value: impl Fn(&T) -> f32,
) -> Result<(), Failure> {
    let good = |number: &T| value(number).abs() <= limit;
    // Without a way out of the loop it is compiled to vector instructions.
    if numbers.iter().fold(true, |all, number| all & good(number)) {
        return Ok(());
    }
    let at = numbers.iter().position(|number| !good(number));
    let at = at.unwrap_or_default();
    Err(Failure::Number(BadNumber {
        index: start + at,
        value: value(&numbers[at]),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes written, or what was wrong.
    fn written(numbers: &[f32], ty: WeightType) -> Result<Vec<u8>, BadNumber> {
        let values: Vec<_> = numbers.iter().map(|v| v.to_le_bytes()).collect();
        let mut bytes = Vec::new();
        match write(&Weights::F32(&values), ty, &mut bytes) {
            Ok(()) => Ok(bytes),
            Err(Failure::Number(bad)) => Err(bad),
            Err(Failure::Io(error)) => panic!("{error}"),
        }
    }

    fn halves(numbers: &[f32], ty: WeightType) -> Vec<u16> {
        let bytes = written(numbers, ty).unwrap();
        let (halves, _) = bytes.as_chunks();
        halves
            .iter()
            .map(|&half| u16::from_le_bytes(half))
            .collect()
    }

    #[test]
    fn halves_are_rounded_to_nearest_even() {
        // By hand from IEEE 754: 1 + 2^-11 and 1 + 3 * 2^-11 are ties; 2^-24 is the smallest
        // subnormal, half of it is a tie to zero.
        let bits = |bits| f32::from_bits(bits);
        let numbers = [
            1.0,
            bits(0x3f80_1000),
            bits(0x3f80_1001),
            bits(0x3f80_3000),
            -2.0,
            65_504.0,
            65_519.0,
            2_f32.powi(-24),
            2_f32.powi(-25),
            bits(0x3300_0001),
            -0.0,
        ];
        let expected = [
            0x3c00, 0x3c00, 0x3c01, 0x3c02, 0xc000, 0x7bff, 0x7bff, 1, 0, 1, 0x8000,
        ];
        assert_eq!(halves(&numbers, WeightType::F16), expected);
        let numbers = [
            bits(0x3f80_8000),
            bits(0x3f80_8001),
            bits(0x3f81_8000),
            bits(0x7f7f_7fff),
            bits(0x0000_8001),
            -0.0,
        ];
        let expected = [0x3f80, 0x3f81, 0x3f82, 0x7f7f, 1, 0x8000];
        assert_eq!(halves(&numbers, WeightType::BF16), expected);
    }

    #[test]
    fn what_is_or_becomes_infinite_is_refused_with_its_place() {
        for ty in [WeightType::F32, WeightType::F16, WeightType::BF16] {
            for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
                for at in [0, CHUNK - 1, CHUNK, CHUNK + 5] {
                    let mut numbers = vec![0.5; CHUNK + 7];
                    numbers[at] = value;
                    let bad = written(&numbers, ty).unwrap_err();
                    assert_eq!(bad.index, at);
                    assert_eq!(bad.value.to_bits(), value.to_bits());
                }
            }
        }
        assert!(written(&[65_520.0], WeightType::F16).is_err());
        assert!(written(&[f32::from_bits(0x7f7f_8000)], WeightType::BF16).is_err());
        assert!(written(&[f32::MAX], WeightType::F32).is_ok());
    }

    #[test]
    fn f32_are_copied() {
        let numbers: Vec<f32> = (0..CHUNK + 3).map(|i| i as f32 - 0.1).collect();
        let expected: Vec<u8> = numbers.iter().flat_map(|v| v.to_le_bytes()).collect();
        assert!(written(&numbers, WeightType::F32).unwrap() == expected);
    }
}
