//! `Q4_1`: an f16 scale, an f16 minimum and 32 nibbles, 20 bytes a block.

use super::block::{
    Block32, Unpacked32, cut, field, from_nibbles, half, nibbles, put, put_half, range, reciprocal,
    rounded_to_half, signed, unsigned,
};

/// The type `Q4_1`: `d: f16, m: f16, qs: [u8; 16]`.
#[derive(Debug)]
#[allow(non_camel_case_types)] // ggml's name.
pub(crate) struct Q4_1;

impl Block32<20> for Q4_1 {
    const HAS_MIN: bool = true;

    #[inline(always)]
    fn unpack(block: &[u8; 20]) -> Unpacked32 {
        Unpacked32 {
            d: half::<0, 20>(block),
            m: half::<2, 20>(block),
            qs: nibbles(field::<4, 16, 20>(block)).map(signed),
        }
    }

    #[inline(always)]
    fn pack(numbers: &Unpacked32) -> [u8; 20] {
        let mut block = [0; 20];
        put_half::<0, 20>(&mut block, numbers.d);
        put_half::<2, 20>(&mut block, numbers.m);
        let qs = numbers.qs.map(|q| unsigned(q) & 15);
        put::<4, 16, 20>(&mut block, from_nibbles(qs));
        block
    }

    #[inline(always)]
    fn quantize(x: &[f32; 32]) -> Unpacked32 {
        let (min, max) = range(x);
        let d = (max - min) / 15.0;
        let id = reciprocal(d);
        Unpacked32 {
            d: rounded_to_half(d),
            m: rounded_to_half(min),
            qs: x.map(|x| cut((x - min) * id + 0.5).min(15)),
        }
    }
}
