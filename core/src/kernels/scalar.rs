//! The definition of every operation, in plain Rust; see the [module](super) for the order of sums.

use super::backend::Shape;
use super::math::ROUNDER;
use crate::built_in;
use crate::gguf::GgmlType;
use crate::quant::{
    Activations, Block32, Block256, Iq4Nl, Q2K, Q3K, Q4_0, Q4_1, Q4K, Q5_0, Q5_1, Q5K, Q6K, Q8_0,
    Q8Act, Q8KAct, Unpacked32, Unpacked256, bf16_to_f32, f16_to_f32,
};

/// Bits of 2^-90: a block of activations below it quantizes to zero.
pub(super) const TINY: u32 = (127 - 90) << 23;

/// Bits of infinity.
pub(super) const INFINITE: u32 = 0x7f80_0000;

/// `out[t * rows + r]` becomes the product of weight row `r` and activation row `t`.
pub(super) fn matmul(
    ty: GgmlType,
    weights: &[u8],
    shape: Shape,
    x: Activations<'_>,
    out: &mut [f32],
) {
    match (ty, x) {
        (GgmlType::F32, Activations::F32(x)) if built_in::F32 => {
            each_f32(weights, shape, x, out, f32::from_le_bytes);
        }
        (GgmlType::F16, Activations::F32(x)) if built_in::F16 => {
            each_f32(weights, shape, x, out, |bytes| {
                f16_to_f32(u16::from_le_bytes(bytes))
            });
        }
        (GgmlType::BF16, Activations::F32(x)) if built_in::BF16 => {
            each_f32(weights, shape, x, out, |bytes| {
                bf16_to_f32(u16::from_le_bytes(bytes))
            });
        }
        (GgmlType::Q8_0, Activations::Q8(x)) if built_in::Q8_0 => {
            each_32::<Q8_0, _>(weights, shape, x, out);
        }
        (GgmlType::Q4_0, Activations::Q8(x)) if built_in::Q4_0 => {
            each_32::<Q4_0, _>(weights, shape, x, out);
        }
        (GgmlType::Q4_1, Activations::Q8(x)) if built_in::Q4_1 => {
            each_32::<Q4_1, _>(weights, shape, x, out);
        }
        (GgmlType::Q5_0, Activations::Q8(x)) if built_in::Q5_0 => {
            each_32::<Q5_0, _>(weights, shape, x, out);
        }
        (GgmlType::Q5_1, Activations::Q8(x)) if built_in::Q5_1 => {
            each_32::<Q5_1, _>(weights, shape, x, out);
        }
        (GgmlType::IQ4_NL, Activations::Q8(x)) if built_in::IQ4_NL => {
            each_32::<Iq4Nl, _>(weights, shape, x, out);
        }
        (GgmlType::Q2_K, Activations::Q8K(x)) if built_in::Q2_K => {
            each_256::<Q2K, _>(weights, shape, x, out);
        }
        (GgmlType::Q3_K, Activations::Q8K(x)) if built_in::Q3_K => {
            each_256::<Q3K, _>(weights, shape, x, out);
        }
        (GgmlType::Q4_K, Activations::Q8K(x)) if built_in::Q4_K => {
            each_256::<Q4K, _>(weights, shape, x, out);
        }
        (GgmlType::Q5_K, Activations::Q8K(x)) if built_in::Q5_K => {
            each_256::<Q5K, _>(weights, shape, x, out);
        }
        (GgmlType::Q6_K, Activations::Q8K(x)) if built_in::Q6_K => {
            each_256::<Q6K, _>(weights, shape, x, out);
        }
        // A shape is only made for a type and the form of activations that belongs to it.
        _ => {}
    }
}

/// Calls `dot` for every pair of a row of weights and a row of activations.
#[inline(always)]
fn each_pair<X>(
    weights: &[u8],
    shape: Shape,
    x: &[X],
    out: &mut [f32],
    dot: impl Fn(&[u8], &[X]) -> f32,
) {
    let outs = out.chunks_exact_mut(shape.rows);
    for (x, out) in x.chunks_exact(shape.blocks).zip(outs) {
        for (row, out) in weights.chunks_exact(shape.row_bytes).zip(out) {
            *out = dot(row, x);
        }
    }
}

#[inline(always)]
fn each_f32<const BYTES: usize>(
    weights: &[u8],
    shape: Shape,
    x: &[f32],
    out: &mut [f32],
    value: impl Fn([u8; BYTES]) -> f32,
) {
    each_pair(weights, shape, x, out, |row, x| dot_f32(row, x, &value));
}

fn each_32<T: Block32<BYTES>, const BYTES: usize>(
    weights: &[u8],
    shape: Shape,
    x: &[Q8Act],
    out: &mut [f32],
) {
    each_pair(weights, shape, x, out, dot_32::<T, BYTES>);
}

fn each_256<T: Block256<BYTES>, const BYTES: usize>(
    weights: &[u8],
    shape: Shape,
    x: &[Q8KAct],
    out: &mut [f32],
) {
    each_pair(weights, shape, x, out, dot_256::<T, BYTES>);
}

/// The product of a row of numbers of `BYTES` bytes and as many activations.
#[inline(always)]
fn dot_f32<const BYTES: usize>(row: &[u8], x: &[f32], value: impl Fn([u8; BYTES]) -> f32) -> f32 {
    let mut lanes = [0.0f32; 8];
    let (row, _) = row.as_chunks::<BYTES>();
    for (row, x) in row.chunks(8).zip(x.chunks(8)) {
        for ((lane, &w), &x) in lanes.iter_mut().zip(row).zip(x) {
            *lane += value(w) * x;
        }
    }
    join(lanes)
}

/// The sum of eight lanes.
#[inline(always)]
fn join(l: [f32; 8]) -> f32 {
    ((l[0] + l[4]) + (l[2] + l[6])) + ((l[1] + l[5]) + (l[3] + l[7]))
}

/// The product of a row of blocks of 32 and as many blocks of activations.
#[inline(always)]
fn dot_32<T: Block32<BYTES>, const BYTES: usize>(row: &[u8], x: &[Q8Act]) -> f32 {
    let mut acc = 0.0f32;
    let (blocks, _) = row.as_chunks::<BYTES>();
    for (block, x) in blocks.iter().zip(x) {
        let Unpacked32 { d, m, qs } = T::unpack(block);
        let products = qs.iter().zip(x.quants()).map(|(&q, x)| i32::from(q) * x);
        let isum: i32 = products.sum();
        let scaled = (d * x.d) * to_f32(isum);
        acc += if T::HAS_MIN {
            scaled + (m * x.d) * to_f32(x.sum)
        } else {
            scaled
        };
    }
    acc
}

/// The product of a row of blocks of 256 and as many blocks of activations.
///
/// The largest `isum` is that of `Q6_K`, 256 * 128 * 32 * 127 < 2^28.
#[inline(always)]
fn dot_256<T: Block256<BYTES>, const BYTES: usize>(row: &[u8], x: &[Q8KAct]) -> f32 {
    let mut acc = 0.0f32;
    let (blocks, _) = row.as_chunks::<BYTES>();
    for (block, x) in blocks.iter().zip(x) {
        let Unpacked256 {
            d,
            dmin,
            scales,
            mins,
            qs,
        } = T::unpack(block);
        let (q16, _) = qs.as_chunks::<16>();
        let (x16, _) = x.qs().as_chunks::<16>();
        let groups = q16.iter().zip(x16).zip(scales);
        let isum: i32 = groups
            .map(|((qs, xs), scale)| {
                let products = qs.iter().zip(xs).map(|(&q, &x)| product(q, x));
                products.sum::<i32>() * i32::from(scale)
            })
            .sum();
        let scaled = (d * x.d) * to_f32(isum);
        acc += if T::HAS_MIN {
            let mins = mins.iter().zip(x.sums());
            let msum: i32 = mins.map(|(&m, &s)| i32::from(m) * i32::from(s)).sum();
            scaled - (dmin * x.d) * to_f32(msum)
        } else {
            scaled
        };
    }
    acc
}

#[inline(always)]
fn product(q: i8, x: i8) -> i32 {
    i32::from(q) * i32::from(x)
}

/// The nearest f32, ties to even.
#[inline(always)]
#[allow(clippy::cast_precision_loss)] // Meant: what `as` does is the definition.
fn to_f32(n: i32) -> f32 {
    n as f32
}

/// Scale of a block whose largest magnitude has the bits `amax`, and what its numbers are
/// multiplied with to become quants; `None` where all quants are 0.
#[inline(always)]
pub(super) fn scale_of(amax: u32) -> (f32, Option<f32>) {
    if amax < TINY {
        (0.0, None)
    } else if amax >= INFINITE {
        (f32::from_bits(amax), None)
    } else {
        let d = f32::from_bits(amax) / 127.0;
        (d, Some(1.0 / d))
    }
}

/// Scale and quants of a block.
#[inline(always)]
fn quantize<const N: usize>(x: &[f32; N]) -> (f32, [i8; N]) {
    let magnitudes = x.iter().map(|x| x.to_bits() & 0x7fff_ffff);
    let (d, inverse) = scale_of(magnitudes.max().unwrap_or(0));
    let qs = match inverse {
        Some(inverse) => x.map(|x| round(x * inverse)),
        None => [0; N],
    };
    (d, qs)
}

/// The nearest integer of -127..=127, ties to even.
#[inline(always)]
fn round(x: f32) -> i8 {
    let low = (x + ROUNDER).to_bits().wrapping_sub(ROUNDER.to_bits());
    let q = low.cast_signed().clamp(-127, 127);
    let [byte, ..] = q.to_le_bytes();
    i8::from_ne_bytes([byte])
}

/// Quantizes each 32 of `x` into one of `out`.
pub(super) fn quantize_q8(x: &[f32], out: &mut [Q8Act]) {
    for (x, out) in x.as_chunks::<32>().0.iter().zip(out) {
        let (d, qs) = quantize(x);
        *out = Q8Act::new(d, qs);
    }
}

/// Quantizes each 256 of `x` into one of `out`.
pub(super) fn quantize_q8k(x: &[f32], out: &mut [Q8KAct]) {
    for (x, out) in x.as_chunks::<256>().0.iter().zip(out) {
        let (d, qs) = quantize(x);
        *out = Q8KAct::new(d, qs);
    }
}
