//! `Q4_0`: an f16 scale and 32 nibbles that stand for -8..=7, 18 bytes a block.

use super::block::{
    Block32, Unpacked32, cut, field, from_nibbles, half, largest, nibbles, put, put_half,
    reciprocal, rounded_to_half, signed, unsigned,
};

/// The type `Q4_0`: `d: f16, qs: [u8; 16]`.
#[derive(Debug)]
#[allow(non_camel_case_types)] // ggml's name.
pub(crate) struct Q4_0;

impl Block32<18> for Q4_0 {
    const HAS_MIN: bool = false;

    #[inline(always)]
    fn unpack(block: &[u8; 18]) -> Unpacked32 {
        Unpacked32 {
            d: half::<0, 18>(block),
            m: 0.0,
            qs: nibbles(field::<2, 16, 18>(block)).map(|q| signed(q) - 8),
        }
    }

    #[inline(always)]
    fn pack(numbers: &Unpacked32) -> [u8; 18] {
        let mut block = [0; 18];
        put_half::<0, 18>(&mut block, numbers.d);
        let qs = numbers.qs.map(|q| unsigned(q + 8) & 15);
        put::<2, 16, 18>(&mut block, from_nibbles(qs));
        block
    }

    #[inline(always)]
    fn quantize(x: &[f32; 32]) -> Unpacked32 {
        // The number of largest magnitude becomes -8, of which there is no positive counterpart.
        let d = largest(x) / -8.0;
        let id = reciprocal(d);
        Unpacked32 {
            d: rounded_to_half(d),
            m: 0.0,
            qs: x.map(|x| cut(x * id + 8.5).min(15) - 8),
        }
    }
}
