//! What block types have in common: packing and unpacking, and what follows from it: encoding and
//! decoding.

use super::QuantError;

/// One block of 32 elements: element `i` is `d * qs[i] + m`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unpacked32 {
    /// Scale.
    pub(crate) d: f32,
    /// What is added to each element; used only where [`Block32::HAS_MIN`].
    pub(crate) m: f32,
    /// Quants with their offset taken off, -128..=127.
    pub(crate) qs: [i8; 32],
}

/// A type whose blocks hold 32 elements in `BYTES` bytes.
pub(crate) trait Block32<const BYTES: usize> {
    /// Whether elements have an additive part.
    const HAS_MIN: bool;

    /// The block's numbers; any bytes are a legal block.
    fn unpack(block: &[u8; BYTES]) -> Unpacked32;

    /// The bytes that unpack to these numbers. `d` and `m` must be f16 numbers, quants such as the
    /// type has.
    fn pack(numbers: &Unpacked32) -> [u8; BYTES];

    /// The numbers of the block that ggml's reference makes of `x`, which are finite. Scale or
    /// minimum are infinite where they are too large for f16.
    fn quantize(x: &[f32; 32]) -> Unpacked32;
}

/// One block of 256 elements: element `i` is `d * scales[i / 16] * qs[i] - dmin * mins[i / 16]`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unpacked256 {
    /// Scale of the scales.
    pub(crate) d: f32,
    /// Scale of the minima; used only where [`Block256::HAS_MIN`].
    pub(crate) dmin: f32,
    /// Scale of each 16 elements, -128..=127.
    pub(crate) scales: [i8; 16],
    /// Minimum of each 16 elements, 0..=63.
    pub(crate) mins: [u8; 16],
    /// Quants with their offset taken off, -32..=31.
    pub(crate) qs: [i8; 256],
}

/// A K type: blocks of 256 elements in `BYTES` bytes.
pub(crate) trait Block256<const BYTES: usize> {
    /// Whether elements have a subtractive part.
    const HAS_MIN: bool;

    /// The block's numbers; any bytes are a legal block.
    fn unpack(block: &[u8; BYTES]) -> Unpacked256;

    /// The bytes that unpack to these numbers. `d` and `dmin` must be f16 numbers, the others such
    /// as the type has.
    fn pack(numbers: &Unpacked256) -> [u8; BYTES];

    /// The numbers of the block that ggml's reference makes of `x`, which are finite. `d` or `dmin`
    /// are infinite where they are too large for f16.
    fn quantize(x: &[f32; 256]) -> Unpacked256;
}

/// Encodes `x`, 32 finite numbers a block, into the blocks of `row`.
pub(super) fn quantize32<T: Block32<BYTES>, const BYTES: usize>(
    x: &[f32],
    row: &mut [u8],
) -> Result<(), QuantError> {
    let (xs, _) = x.as_chunks::<32>();
    let (blocks, _) = row.as_chunks_mut::<BYTES>();
    for ((x, block), index) in xs.iter().zip(blocks).zip((0..).step_by(32)) {
        let numbers = T::quantize(x);
        if !(numbers.d.is_finite() && numbers.m.is_finite()) {
            return Err(QuantError::ScaleTooLarge { index });
        }
        *block = T::pack(&numbers);
    }
    Ok(())
}

/// Encodes `x`, 256 finite numbers a block, into the blocks of `row`.
pub(super) fn quantize256<T: Block256<BYTES>, const BYTES: usize>(
    x: &[f32],
    row: &mut [u8],
) -> Result<(), QuantError> {
    let (xs, _) = x.as_chunks::<256>();
    let (blocks, _) = row.as_chunks_mut::<BYTES>();
    for ((x, block), index) in xs.iter().zip(blocks).zip((0..).step_by(256)) {
        let numbers = T::quantize(x);
        if !(numbers.d.is_finite() && numbers.dmin.is_finite()) {
            return Err(QuantError::ScaleTooLarge { index });
        }
        *block = T::pack(&numbers);
    }
    Ok(())
}

/// Decodes the blocks of `row` into `out`, which holds 32 elements for each.
pub(super) fn dequantize32<T: Block32<BYTES>, const BYTES: usize>(row: &[u8], out: &mut [f32]) {
    let (blocks, _) = row.as_chunks::<BYTES>();
    let (outs, _) = out.as_chunks_mut::<32>();
    for (block, out) in blocks.iter().zip(outs) {
        let Unpacked32 { d, m, qs } = T::unpack(block);
        for (out, q) in out.iter_mut().zip(qs) {
            let scaled = d * f32::from(q);
            *out = if T::HAS_MIN { scaled + m } else { scaled };
        }
    }
}

/// Decodes the blocks of `row` into `out`, which holds 256 elements for each.
pub(super) fn dequantize256<T: Block256<BYTES>, const BYTES: usize>(row: &[u8], out: &mut [f32]) {
    let (blocks, _) = row.as_chunks::<BYTES>();
    let (outs, _) = out.as_chunks_mut::<256>();
    for (block, out) in blocks.iter().zip(outs) {
        let unpacked = T::unpack(block);
        let (out, _) = out.as_chunks_mut::<16>();
        let (qs, _) = unpacked.qs.as_chunks::<16>();
        let parts = out.iter_mut().zip(qs);
        let scales = unpacked.scales.iter().zip(unpacked.mins);
        for ((out, qs), (&scale, min)) in parts.zip(scales) {
            let d = unpacked.d * f32::from(scale);
            let m = unpacked.dmin * f32::from(min);
            for (out, &q) in out.iter_mut().zip(qs) {
                let scaled = d * f32::from(q);
                *out = if T::HAS_MIN { scaled - m } else { scaled };
            }
        }
    }
}

/// Splits the `N` bytes at `AT` off a block; both are constants, so it costs nothing.
#[inline(always)]
pub(super) fn field<const AT: usize, const N: usize, const BYTES: usize>(
    block: &[u8; BYTES],
) -> [u8; N] {
    const { assert!(AT + N <= BYTES) };
    core::array::from_fn(|i| block[AT + i])
}

/// The f16 number at byte `AT` of a block, as f32.
#[inline(always)]
pub(super) fn half<const AT: usize, const BYTES: usize>(block: &[u8; BYTES]) -> f32 {
    super::f16_to_f32(u16::from_le_bytes(field::<AT, 2, BYTES>(block)))
}

/// Puts bytes at `AT` of a block.
#[inline(always)]
pub(super) fn put<const AT: usize, const N: usize, const BYTES: usize>(
    block: &mut [u8; BYTES],
    bytes: [u8; N],
) {
    const { assert!(AT + N <= BYTES) };
    for (i, byte) in bytes.into_iter().enumerate() {
        block[AT + i] = byte;
    }
}

/// Puts an f16 number at byte `AT` of a block.
#[inline(always)]
pub(super) fn put_half<const AT: usize, const BYTES: usize>(block: &mut [u8; BYTES], x: f32) {
    put::<AT, 2, BYTES>(block, super::f32_to_f16(x).to_le_bytes());
}

/// The nearest f16 number, infinite if it is too large.
#[inline(always)]
pub(super) fn rounded_to_half(x: f32) -> f32 {
    super::f16_to_f32(super::f32_to_f16(x))
}

/// `1 / d`, or 0 where there is none: ggml checks only for 0, but the reciprocal of a small
/// subnormal is infinite, and what an infinite product becomes as an integer is undefined in C.
#[inline(always)]
pub(super) fn reciprocal(d: f32) -> f32 {
    let inverse = 1.0 / d;
    if inverse.is_finite() { inverse } else { 0.0 }
}

/// The number of largest magnitude, the first of several.
#[inline(always)]
pub(super) fn largest(x: &[f32]) -> f32 {
    let (mut max, mut amax) = (0.0, 0.0);
    for &x in x {
        if x.abs() > amax {
            (max, amax) = (x, x.abs());
        }
    }
    max
}

/// The whole part of a number from 0 to 127.
#[inline(always)]
pub(super) fn cut(x: f32) -> i8 {
    #[allow(clippy::cast_possible_truncation)]
    let whole = x as i32 as i8;
    whole
}

/// The smallest and the largest of the numbers.
#[inline(always)]
pub(super) fn range(x: &[f32; 32]) -> (f32, f32) {
    let (mut min, mut max) = (x[0], x[0]);
    for &x in x {
        if x < min {
            min = x;
        }
        if x > max {
            max = x;
        }
    }
    (min, max)
}

/// 32 nibbles, which must be below 16, in 16 bytes: the first half in the low ones.
#[inline(always)]
pub(super) fn from_nibbles(qs: [u8; 32]) -> [u8; 16] {
    core::array::from_fn(|i| qs[i] | (qs[i + 16] << 4))
}

/// A byte's bits from a signed value; only the name of a cast that keeps the bits.
#[inline(always)]
pub(super) fn unsigned(value: i8) -> u8 {
    u8::from_ne_bytes(value.to_ne_bytes())
}

/// The 32 nibbles of 16 bytes: the low ones first.
#[inline(always)]
pub(super) fn nibbles(bytes: [u8; 16]) -> [u8; 32] {
    core::array::from_fn(|i| {
        if i < 16 {
            bytes[i] & 15
        } else {
            bytes[i - 16] >> 4
        }
    })
}

/// `-128..=127` from a byte's low values; only the name of a cast that keeps the bits.
#[inline(always)]
pub(super) fn signed(byte: u8) -> i8 {
    i8::from_ne_bytes([byte])
}

/// Scales and minima of the eight groups of 32 in the 12 bytes that `Q4_K` and `Q5_K` share, each
/// given twice so that there is one for each 16 elements.
///
/// Bytes 0..4 hold the low six bits of scales 0..4, bytes 4..8 those of minima 0..4, bytes 8..12
/// the low four bits of scales (low) and minima (high) 4..8, whose upper two bits are the upper
/// two bits of bytes 0..8.
#[inline(always)]
pub(super) fn scales_and_mins(packed: [u8; 12]) -> ([i8; 16], [u8; 16]) {
    let scale = |group: usize| {
        if group < 4 {
            packed[group] & 63
        } else {
            (packed[group + 4] & 15) | ((packed[group - 4] >> 2) & 48)
        }
    };
    let min = |group: usize| {
        if group < 4 {
            packed[group + 4] & 63
        } else {
            (packed[group + 4] >> 4) | ((packed[group] >> 2) & 48)
        }
    };
    (
        core::array::from_fn(|i| signed(scale(i / 2))),
        core::array::from_fn(|i| min(i / 2)),
    )
}

/// Packs eight scales and minima below 64, given twice each, as [`scales_and_mins`] unpacks them.
#[inline(always)]
pub(super) fn from_scales_and_mins(scales: [i8; 16], mins: [u8; 16]) -> [u8; 12] {
    let scale = |group: usize| unsigned(scales[group * 2]) & 63;
    let min = |group: usize| mins[group * 2] & 63;
    core::array::from_fn(|i| match i {
        0..4 => scale(i) | ((scale(i + 4) >> 4) << 6),
        4..8 => min(i - 4) | ((min(i) >> 4) << 6),
        _ => (scale(i - 4) & 15) | ((min(i - 4) & 15) << 4),
    })
}
