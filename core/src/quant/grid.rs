//! The numbers that a block can hold, to choose from one by one.

use super::{
    Block32, Block256, Iq4Nl, Q2K, Q3K, Q4_0, Q4_1, Q4K, Q5_0, Q5_1, Q5K, Q6K, Q8_0, Unpacked32,
    Unpacked256, block::rounded_to_half,
};
use crate::gguf::GgmlType;

/// The scales of a block, and with them the numbers that its elements can have.
///
/// ```
/// use smidgen_core::{gguf::GgmlType, quant::{Grid, dequantize_row, quantize_row}};
/// let x: [f32; 32] = core::array::from_fn(|i| i as f32);
/// let mut block = [0; 18];
/// quantize_row(GgmlType::Q4_0, &x, &mut block)?;
/// let grid = Grid::of(GgmlType::Q4_0, &block).unwrap();
/// // Of two choices for an element, the better one by some measure of one's own.
/// let mut qs = x.map(|x| grid.nearest(0, x));
/// qs[7] += 1;
/// assert!(grid.pack(&qs, &mut block));
/// let mut decoded = [0.0; 32];
/// dequantize_row(GgmlType::Q4_0, &block, &mut decoded)?;
/// assert_eq!(decoded[7], grid.value(7, qs[7]));
/// # Ok::<(), smidgen_core::quant::QuantError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Grid {
    ty: GgmlType,
    numbers: Numbers,
    low: i8,
    high: i8,
}

#[derive(Clone, Copy, Debug)]
#[allow(clippy::large_enum_variant)] // It lives on the stack of who chooses.
enum Numbers {
    Of32(Unpacked32),
    Of256(Unpacked256),
}

impl Grid {
    /// The scales that an encoded block has; `None` for a type without blocks, or if `block` is not
    /// one block long.
    #[must_use]
    pub fn of(ty: GgmlType, block: &[u8]) -> Option<Self> {
        fn of32<T: Block32<N>, const N: usize>(block: &[u8]) -> Option<Numbers> {
            Some(Numbers::Of32(T::unpack(block.try_into().ok()?)))
        }
        fn of256<T: Block256<N>, const N: usize>(block: &[u8]) -> Option<Numbers> {
            Some(Numbers::Of256(T::unpack(block.try_into().ok()?)))
        }
        let (numbers, low, high) = match ty {
            GgmlType::Q8_0 => (of32::<Q8_0, _>(block), -127, 127),
            GgmlType::Q4_0 => (of32::<Q4_0, _>(block), -8, 7),
            GgmlType::Q4_1 => (of32::<Q4_1, _>(block), 0, 15),
            GgmlType::Q5_0 => (of32::<Q5_0, _>(block), -16, 15),
            GgmlType::Q5_1 => (of32::<Q5_1, _>(block), 0, 31),
            GgmlType::IQ4_NL => (of32::<Iq4Nl, _>(block), -127, 113),
            GgmlType::Q2_K => (of256::<Q2K, _>(block), 0, 3),
            GgmlType::Q3_K => (of256::<Q3K, _>(block), -4, 3),
            GgmlType::Q4_K => (of256::<Q4K, _>(block), 0, 15),
            GgmlType::Q5_K => (of256::<Q5K, _>(block), 0, 31),
            GgmlType::Q6_K => (of256::<Q6K, _>(block), -32, 31),
            _ => return None,
        };
        Some(Self {
            ty,
            numbers: numbers?,
            low,
            high,
        })
    }

    /// Elements of the block.
    #[must_use]
    pub fn block_len(&self) -> usize {
        match self.numbers {
            Numbers::Of32(_) => 32,
            Numbers::Of256(_) => 256,
        }
    }

    /// The least and the greatest quant.
    #[must_use]
    pub fn range(&self) -> (i8, i8) {
        (self.low, self.high)
    }

    /// Whether elements have an additive part of their own.
    #[must_use]
    pub fn has_min(&self) -> bool {
        matches!(
            self.ty,
            GgmlType::Q4_1 | GgmlType::Q5_1 | GgmlType::Q2_K | GgmlType::Q4_K | GgmlType::Q5_K
        )
    }

    /// Another scale and additive part, rounded to f16; `None` if one is not finite then, or the
    /// block is one of a K type, whose scales are many.
    #[must_use]
    pub fn with_scale(mut self, d: f32, m: f32) -> Option<Self> {
        let Numbers::Of32(numbers) = &mut self.numbers else {
            return None;
        };
        numbers.d = rounded_to_half(d);
        numbers.m = if self.ty == GgmlType::Q4_1 || self.ty == GgmlType::Q5_1 {
            rounded_to_half(m)
        } else {
            0.0
        };
        (numbers.d.is_finite() && numbers.m.is_finite()).then_some(self)
    }

    /// What element `i` is multiplied with, and what is added then; of the last element if there
    /// is no such one.
    #[must_use]
    pub fn scale(&self, i: usize) -> (f32, f32) {
        match &self.numbers {
            Numbers::Of32(numbers) => (numbers.d, numbers.m),
            Numbers::Of256(numbers) => {
                let group = (i / 16).min(15);
                (
                    numbers.d * f32::from(numbers.scales[group]),
                    -(numbers.dmin * f32::from(numbers.mins[group])),
                )
            }
        }
    }

    /// The quant with which element `i` comes nearest to `x`.
    #[must_use]
    pub fn nearest(&self, i: usize, x: f32) -> i8 {
        let (d, m) = self.scale(i);
        let id = super::block::reciprocal(d);
        let q = (x - m) * id;
        if self.ty == GgmlType::IQ4_NL {
            return Iq4Nl::nearest(q);
        }
        super::search::nearest_in(
            q.clamp(self.low.into(), self.high.into()),
            self.low.into(),
            self.high.into(),
        )
    }

    /// What element `i` is with this quant: exactly what it decodes to.
    #[must_use]
    pub fn value(&self, i: usize, q: i8) -> f32 {
        let (d, m) = self.scale(i);
        d * f32::from(q) + m
    }

    /// Writes the block with these quants, which must be such as [`nearest`](Self::nearest) gives,
    /// one for each element; `false`, and nothing is written, if `qs` or `block` are not as long as
    /// a block.
    #[must_use]
    pub fn pack(&self, qs: &[i8], block: &mut [u8]) -> bool {
        fn put<const N: usize>(packed: [u8; N], block: &mut [u8]) -> bool {
            let Ok(block) = <&mut [u8; N]>::try_from(block) else {
                return false;
            };
            *block = packed;
            true
        }
        match self.numbers {
            Numbers::Of32(mut numbers) => {
                let Ok(qs) = qs.try_into() else {
                    return false;
                };
                numbers.qs = qs;
                match self.ty {
                    GgmlType::Q8_0 => put(Q8_0::pack(&numbers), block),
                    GgmlType::Q4_0 => put(Q4_0::pack(&numbers), block),
                    GgmlType::Q4_1 => put(Q4_1::pack(&numbers), block),
                    GgmlType::Q5_0 => put(Q5_0::pack(&numbers), block),
                    GgmlType::Q5_1 => put(Q5_1::pack(&numbers), block),
                    _ => put(Iq4Nl::pack(&numbers), block),
                }
            }
            Numbers::Of256(mut numbers) => {
                let Ok(qs) = qs.try_into() else {
                    return false;
                };
                numbers.qs = qs;
                match self.ty {
                    GgmlType::Q2_K => put(Q2K::pack(&numbers), block),
                    GgmlType::Q3_K => put(Q3K::pack(&numbers), block),
                    GgmlType::Q4_K => put(Q4K::pack(&numbers), block),
                    GgmlType::Q5_K => put(Q5K::pack(&numbers), block),
                    _ => put(Q6K::pack(&numbers), block),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quant::{dequantize_row, quantize_row, row_bytes};
    use std::{vec, vec::Vec};

    const TYPES: [GgmlType; 11] = [
        GgmlType::Q8_0,
        GgmlType::Q4_0,
        GgmlType::Q4_1,
        GgmlType::Q5_0,
        GgmlType::Q5_1,
        GgmlType::IQ4_NL,
        GgmlType::Q2_K,
        GgmlType::Q3_K,
        GgmlType::Q4_K,
        GgmlType::Q5_K,
        GgmlType::Q6_K,
    ];

    #[test]
    fn values_are_what_packed_blocks_decode_to() {
        let mut state = 1_u32;
        let mut random = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / (1 << 24) as f32 - 0.5
        };
        for ty in TYPES {
            let len = usize::try_from(ty.geometry().unwrap().block_len).unwrap();
            let x: Vec<f32> = (0..len).map(|_| random()).collect();
            let mut block = vec![0; row_bytes(ty, len).unwrap()];
            quantize_row(ty, &x, &mut block).unwrap();
            let grid = Grid::of(ty, &block).unwrap();
            assert_eq!(grid.block_len(), len);
            // Other numbers on the same grid, some of them out of its range.
            let y: Vec<f32> = (0..len).map(|_| random() * 1.5).collect();
            let qs: Vec<i8> = y
                .iter()
                .enumerate()
                .map(|(i, &y)| grid.nearest(i, y))
                .collect();
            assert!(grid.pack(&qs, &mut block));
            assert!(!grid.pack(&qs[1..], &mut block) && !grid.pack(&qs, &mut block[1..]));
            let mut decoded = vec![0.0; len];
            dequantize_row(ty, &block, &mut decoded).unwrap();
            for (i, (&q, &y)) in qs.iter().zip(&y).enumerate() {
                assert_eq!(decoded[i], grid.value(i, q), "{ty} {i}");
                let (low, high) = grid.range();
                let off = (decoded[i] - y).abs();
                for other in low..=high {
                    if ty == GgmlType::IQ4_NL && !Iq4Nl::VALUES.contains(&other) {
                        continue;
                    }
                    let other = (grid.value(i, other) - y).abs();
                    assert!(
                        off <= other * 1.0001 + 1e-6,
                        "{ty} {i}: {y} as {}",
                        decoded[i]
                    );
                }
            }
        }
    }

    #[test]
    fn scales_can_be_chosen_for_small_blocks_only() {
        let block = [0; 144];
        assert!(
            Grid::of(GgmlType::Q4_K, &block)
                .unwrap()
                .with_scale(1.0, 0.0)
                .is_none()
        );
        assert!(Grid::of(GgmlType::Q4_0, &block).is_none());
        let grid = Grid::of(GgmlType::Q4_1, &block[..20]).unwrap();
        assert!(grid.with_scale(1e6, 0.0).is_none());
        let grid = grid.with_scale(0.25, -1.0).unwrap();
        assert_eq!((grid.scale(3), grid.value(3, 5)), ((0.25, -1.0), 0.25));
    }
}
