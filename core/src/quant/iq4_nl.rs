//! `IQ4_NL`: an f16 scale and 32 nibbles that choose from 16 values, 18 bytes a block.

use super::block::{
    Block32, Unpacked32, field, from_nibbles, half, largest, nibbles, put, put_half, reciprocal,
    rounded_to_half,
};
use super::search::ALL_ZERO;

/// The type `IQ4_NL`: `d: f16, qs: [u8; 16]`.
#[derive(Debug)]
pub(crate) struct Iq4Nl;

impl Iq4Nl {
    /// What the 16 nibbles stand for.
    pub(crate) const VALUES: [i8; 16] = [
        -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113,
    ];

    /// The index of the value nearest to `x`, of two equally near ones the upper.
    #[inline(always)]
    fn index_of(x: f32) -> u8 {
        // How many middles between neighbours are not above x.
        let pairs = Self::VALUES.windows(2);
        let above = |pair: &[i8]| x - f32::from(pair[0]) >= f32::from(pair[1]) - x;
        pairs.map(|pair| u8::from(above(pair))).sum()
    }

    /// The value nearest to `x`, of two equally near ones the upper.
    #[inline(always)]
    pub(super) fn nearest(x: f32) -> i8 {
        Self::VALUES[usize::from(Self::index_of(x) & 15)]
    }
}

impl Block32<18> for Iq4Nl {
    const HAS_MIN: bool = false;

    #[inline(always)]
    fn unpack(block: &[u8; 18]) -> Unpacked32 {
        Unpacked32 {
            d: half::<0, 18>(block),
            m: 0.0,
            qs: nibbles(field::<2, 16, 18>(block)).map(|q| Self::VALUES[usize::from(q & 15)]),
        }
    }

    #[inline(always)]
    fn pack(numbers: &Unpacked32) -> [u8; 18] {
        let mut block = [0; 18];
        put_half::<0, 18>(&mut block, numbers.d);
        let qs = numbers.qs.map(|q| Self::index_of(f32::from(q)));
        put::<2, 16, 18>(&mut block, from_nibbles(qs));
        block
    }

    fn quantize(x: &[f32; 32]) -> Unpacked32 {
        let d = best_scale(x);
        let id = reciprocal(d);
        Unpacked32 {
            d: rounded_to_half(d),
            m: 0.0,
            qs: x.map(|x| Self::nearest(id * x)),
        }
    }
}

/// The scale with the least squared error, weighted by the squares of the numbers, of those that
/// put the largest number on or near the end of the table.
fn best_scale(x: &[f32; 32]) -> f32 {
    const TRIES: i8 = 7;
    let max = largest(x);
    if max.abs() < ALL_ZERO {
        return 0.0;
    }
    // Sums of the products of quants with numbers and with themselves.
    let sums = |id: f32| {
        x.iter().fold((0.0, 0.0), |(qx, q2), &x| {
            let q = f32::from(Iq4Nl::nearest(id * x));
            let w = x * x;
            (qx + w * q * x, q2 + w * q * q)
        })
    };
    let end = f32::from(Iq4Nl::VALUES[0]);
    let (qx, q2) = sums(1.0 / (-max / end));
    let mut d = qx / q2;
    let mut best = d * qx;
    for step in -TRIES..=TRIES {
        let (qx, q2) = sums((f32::from(step) + end) / max);
        if q2 > 0.0 && qx * qx > best * q2 {
            d = qx / q2;
            best = d * qx;
        }
    }
    d
}
