//! `Q5_K`: 8 scales and minima of six bits, 256 quants of five bits, 176 bytes a block.

use super::block::{
    Block256, Unpacked256, field, from_scales_and_mins, half, put, put_half, scales_and_mins,
    signed, unsigned,
};
use super::q4_k::{from_nibbles_of_64, nibbles_of_64, quantize_eight_groups};
use super::search::Search;

/// The type `Q5_K`: `d: f16, dmin: f16, scales: [u8; 12], qh: [u8; 32], qs: [u8; 128]`.
#[derive(Debug)]
pub(crate) struct Q5K;

impl Block256<176> for Q5K {
    const HAS_MIN: bool = true;

    #[inline(always)]
    fn unpack(block: &[u8; 176]) -> Unpacked256 {
        let (scales, mins) = scales_and_mins(field::<4, 12, 176>(block));
        let qh: [u8; 32] = field::<16, 32, 176>(block);
        let low = nibbles_of_64(field::<48, 128, 176>(block));
        Unpacked256 {
            d: half::<0, 176>(block),
            dmin: half::<2, 176>(block),
            scales,
            mins,
            // Bit `j` of the bytes of `qh` belongs to the elements `32 * j..32 * j + 32`.
            qs: core::array::from_fn(|i| {
                let high = (qh[i % 32] >> (i / 32)) & 1;
                signed(low[i] | (high << 4))
            }),
        }
    }

    fn pack(numbers: &Unpacked256) -> [u8; 176] {
        let qs = numbers.qs.map(unsigned);
        let qh = core::array::from_fn(|i| {
            (0..8).fold(0, |bits, j| bits | (((qs[j * 32 + i] >> 4) & 1) << j))
        });
        let mut block = [0; 176];
        put_half::<0, 176>(&mut block, numbers.d);
        put_half::<2, 176>(&mut block, numbers.dmin);
        put::<4, 12, 176>(
            &mut block,
            from_scales_and_mins(numbers.scales, numbers.mins),
        );
        put::<16, 32, 176>(&mut block, qh);
        put::<48, 128, 176>(&mut block, from_nibbles_of_64(qs));
        block
    }

    fn quantize(x: &[f32; 256]) -> Unpacked256 {
        const SEARCH: Search = Search {
            first: -0.5,
            delta: 0.1,
            steps: 15,
            absolute: false,
        };
        quantize_eight_groups(x, 31, &SEARCH)
    }
}
