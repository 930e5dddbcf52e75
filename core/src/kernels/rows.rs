//! Row operations: normalization, activation function, rotation. One source for all back ends:
//! the loops keep eight independent lanes, which each back end compiles for its own registers.

use super::math::{ROUNDER, exp, sqrt};

/// The sum of eight lanes, in the one order.
#[inline(always)]
pub(super) fn join(l: [f32; 8]) -> f32 {
    ((l[0] + l[4]) + (l[2] + l[6])) + ((l[1] + l[5]) + (l[3] + l[7]))
}

/// The sum over `map` of each element; element `i` goes to lane `i % 8`.
#[inline(always)]
pub(super) fn sum_lanes(x: &[f32], map: impl Fn(f32) -> f32) -> f32 {
    let mut lanes = [0.0_f32; 8];
    let (eights, rest) = x.as_chunks::<8>();
    for eight in eights {
        for (lane, &x) in lanes.iter_mut().zip(eight) {
            *lane += map(x);
        }
    }
    for (lane, &x) in lanes.iter_mut().zip(rest) {
        *lane += map(x);
    }
    join(lanes)
}

/// `out[i] = (x[i] * scale) * weight[i]` with `scale = 1 / sqrt(mean(x^2) + eps)`; `weight` holds
/// little-endian f32.
#[inline(always)]
pub(super) fn rms_norm(x: &[f32], weight: &[u8], eps: f32, out: &mut [f32]) {
    let sum = sum_lanes(x, |x| x * x);
    #[allow(clippy::cast_precision_loss)] // A model's width is far below 2^24.
    let mean = sum / x.len() as f32;
    let scale = 1.0 / sqrt(mean + eps);
    let (weight, _) = weight.as_chunks::<4>();
    for ((out, &x), &w) in out.iter_mut().zip(x).zip(weight) {
        *out = (x * scale) * f32::from_le_bytes(w);
    }
}

/// `gate[i] = silu(gate[i]) * up[i]`, where `silu(x) = x * sigmoid(x)`.
///
/// The sigmoid is taken from e^-|x|, which neither overflows nor is ever subnormal:
/// `1 / (1 + e)` for x ≥ 0, else `e / (1 + e)`.
#[inline(always)]
pub(super) fn swiglu(gate: &mut [f32], up: &[f32]) {
    for (gate, &up) in gate.iter_mut().zip(up) {
        let x = *gate;
        let e = exp(-x.abs());
        let numerator = if x < 0.0 { e } else { 1.0 };
        *gate = (x * (numerator / (1.0 + e))) * up;
    }
}

/// `x[i] += y[i]`.
#[inline(always)]
pub(super) fn add(x: &mut [f32], y: &[f32]) {
    for (x, &y) in x.iter_mut().zip(y) {
        *x += y;
    }
}

/// Turns pairs of neighbours in each head of `head_dim` elements by the angles whose (cosine,
/// sine) pairs are in `rotation`; elements behind the last pair stay.
#[inline(always)]
pub(super) fn rope(x: &mut [f32], head_dim: usize, rotation: &[f32]) {
    let (angles, _) = rotation.as_chunks::<2>();
    for head in x.chunks_exact_mut(head_dim) {
        let (pairs, _) = head.as_chunks_mut::<2>();
        for (pair, &[cos, sin]) in pairs.iter_mut().zip(angles) {
            let [a, b] = *pair;
            *pair = [a * cos - b * sin, a * sin + b * cos];
        }
    }
}

/// The largest magnitude, as the bits of an f32: compared as integers, so that NaN is above
/// infinity.
#[inline(always)]
pub(super) fn largest_magnitude(x: &[f32]) -> u32 {
    let mut lanes = [0_u32; 8];
    let (eights, rest) = x.as_chunks::<8>();
    for eight in eights {
        for (lane, x) in lanes.iter_mut().zip(eight) {
            *lane = (*lane).max(x.to_bits() & 0x7fff_ffff);
        }
    }
    for (lane, x) in lanes.iter_mut().zip(rest) {
        *lane = (*lane).max(x.to_bits() & 0x7fff_ffff);
    }
    lanes.into_iter().fold(0, u32::max)
}

/// Quantizes to bytes of the scale `d`: `x * (1 / d)`, rounded to nearest even and clamped to ±127.
///
/// If `d` is 0 so are all quants; if it is not finite they are 1, so that every product is NaN or
/// infinite as it should be.
#[inline(always)]
pub(super) fn quantize_bytes(x: &[f32], d: f32, out: &mut [i8]) {
    if d == 0.0 || !d.is_finite() {
        out.fill(i8::from(d != 0.0));
        return;
    }
    let reciprocal = 1.0 / d;
    for (out, &x) in out.iter_mut().zip(x) {
        let rounded = (x * reciprocal + ROUNDER).to_bits();
        let int = rounded.wrapping_sub(ROUNDER.to_bits()).cast_signed();
        #[allow(clippy::cast_possible_truncation)] // Clamped.
        {
            *out = int.clamp(-127, 127) as i8;
        }
    }
}

/// The bits of f16, rounded to nearest even.
#[inline(always)]
pub(super) fn to_f16(x: &[f32], out: &mut [u16]) {
    for (out, &x) in out.iter_mut().zip(x) {
        *out = half::f16::from_f32_const(x).to_bits();
    }
}
