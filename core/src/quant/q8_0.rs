//! `Q8_0`: an f16 scale and 32 signed bytes, 34 bytes a block.

use super::block::{Block32, Unpacked32, field, half, signed};

/// The type `Q8_0`: `d: f16, qs: [i8; 32]`.
#[derive(Debug)]
#[allow(non_camel_case_types)] // ggml's name.
pub(crate) struct Q8_0;

impl Block32<34> for Q8_0 {
    const HAS_MIN: bool = false;

    #[inline(always)]
    fn unpack(block: &[u8; 34]) -> Unpacked32 {
        Unpacked32 {
            d: half::<0, 34>(block),
            m: 0.0,
            qs: field::<2, 32, 34>(block).map(signed),
        }
    }
}
