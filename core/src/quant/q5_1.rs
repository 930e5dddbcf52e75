//! `Q5_1`: an f16 scale, an f16 minimum, 32 fifth bits and 32 nibbles, 24 bytes a block.

use super::block::{Block32, Unpacked32, field, half, nibbles, signed};
use super::q5_0::fifth_bits;

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
}
