//! `Q5_1`: an f16 scale, an f16 minimum, 32 fifth bits and 32 nibbles, 24 bytes a block.

use super::block::{
    Block32, Unpacked32, cut, field, from_nibbles, half, nibbles, put, put_half, range, reciprocal,
    rounded_to_half, signed, unsigned,
};
use super::q5_0::{fifth_bits, from_fifth_bits};

/// The type `Q5_1`: `d: f16, m: f16, qh: u32, qs: [u8; 16]`.
#[derive(Debug)]
#[allow(non_camel_case_types)] // ggml's name.
pub(crate) struct Q5_1;

impl Block32<24> for Q5_1 {
    const HAS_MIN: bool = true;

    #[inline(always)]
    fn unpack(block: &[u8; 24]) -> Unpacked32 {
        let qs = fifth_bits(nibbles(field::<8, 16, 24>(block)), field::<4, 4, 24>(block));
        Unpacked32 {
            d: half::<0, 24>(block),
            m: half::<2, 24>(block),
            qs: qs.map(signed),
        }
    }

    #[inline(always)]
    fn pack(numbers: &Unpacked32) -> [u8; 24] {
        let mut block = [0; 24];
        put_half::<0, 24>(&mut block, numbers.d);
        put_half::<2, 24>(&mut block, numbers.m);
        let qs = numbers.qs.map(unsigned);
        put::<4, 4, 24>(&mut block, from_fifth_bits(qs));
        put::<8, 16, 24>(&mut block, from_nibbles(qs.map(|q| q & 15)));
        block
    }

    #[inline(always)]
    fn quantize(x: &[f32; 32]) -> Unpacked32 {
        let (min, max) = range(x);
        let d = (max - min) / 31.0;
        let id = reciprocal(d);
        Unpacked32 {
            d: rounded_to_half(d),
            m: rounded_to_half(min),
            // ggml has no limit here: rounding could give 32 only for a d that is subnormal.
            qs: x.map(|x| cut((x - min) * id + 0.5).min(31)),
        }
    }
}
