//! `Q5_0`: an f16 scale, 32 fifth bits and 32 nibbles that stand for -16..=15, 22 bytes a block.

use super::block::{
    Block32, Unpacked32, cut, field, from_nibbles, half, largest, nibbles, put, put_half,
    reciprocal, rounded_to_half, signed, unsigned,
};

/// The type `Q5_0`: `d: f16, qh: u32, qs: [u8; 16]`; bit `i` of `qh` is the fifth bit of element `i`.
#[derive(Debug)]
#[allow(non_camel_case_types)] // ggml's name.
pub(crate) struct Q5_0;

impl Block32<22> for Q5_0 {
    const HAS_MIN: bool = false;

    #[inline(always)]
    fn unpack(block: &[u8; 22]) -> Unpacked32 {
        let qs = fifth_bits(nibbles(field::<6, 16, 22>(block)), field::<2, 4, 22>(block));
        Unpacked32 {
            d: half::<0, 22>(block),
            m: 0.0,
            qs: qs.map(|q| signed(q) - 16),
        }
    }

    #[inline(always)]
    fn pack(numbers: &Unpacked32) -> [u8; 22] {
        let mut block = [0; 22];
        put_half::<0, 22>(&mut block, numbers.d);
        let qs = numbers.qs.map(|q| unsigned(q + 16));
        put::<2, 4, 22>(&mut block, from_fifth_bits(qs));
        put::<6, 16, 22>(&mut block, from_nibbles(qs.map(|q| q & 15)));
        block
    }

    #[inline(always)]
    fn quantize(x: &[f32; 32]) -> Unpacked32 {
        // As in Q4_0.
        let d = largest(x) / -16.0;
        let id = reciprocal(d);
        Unpacked32 {
            d: rounded_to_half(d),
            m: 0.0,
            qs: x.map(|x| cut(x * id + 16.5).min(31) - 16),
        }
    }
}

/// Puts bit `i` of the little-endian word `qh` on top of nibble `i`.
#[inline(always)]
pub(super) fn fifth_bits(qs: [u8; 32], qh: [u8; 4]) -> [u8; 32] {
    core::array::from_fn(|i| qs[i] | (((qh[i / 8] >> (i % 8)) & 1) << 4))
}

/// Bit `i` of the little-endian word is the fifth bit of element `i`.
#[inline(always)]
pub(super) fn from_fifth_bits(qs: [u8; 32]) -> [u8; 4] {
    let bits = qs.iter().rev();
    let word = bits.fold(0_u32, |word, &q| (word << 1) | u32::from((q >> 4) & 1));
    word.to_le_bytes()
}
