//! `IQ4_NL`: an f16 scale and 32 nibbles that choose from 16 values, 18 bytes a block.

use super::block::{Block32, Unpacked32, field, half, nibbles};

/// The type `IQ4_NL`: `d: f16, qs: [u8; 16]`.
#[derive(Debug)]
pub(crate) struct Iq4Nl;

impl Iq4Nl {
    /// What the 16 nibbles stand for.
    pub(crate) const VALUES: [i8; 16] = [
        -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113,
    ];
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
}
