//! `Q8_0`: an f16 scale and 32 signed bytes, 34 bytes a block.

use super::block::{
    Block32, Unpacked32, field, half, put, put_half, reciprocal, rounded_to_half, signed, unsigned,
};

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

    #[inline(always)]
    fn pack(numbers: &Unpacked32) -> [u8; 34] {
        let mut block = [0; 34];
        put_half::<0, 34>(&mut block, numbers.d);
        put::<2, 32, 34>(&mut block, numbers.qs.map(unsigned));
        block
    }

    #[inline(always)]
    fn quantize(x: &[f32; 32]) -> Unpacked32 {
        let amax = x.iter().fold(0.0_f32, |max, x| max.max(x.abs()));
        let d = amax / 127.0;
        let id = reciprocal(d);
        Unpacked32 {
            d: rounded_to_half(d),
            m: 0.0,
            qs: x.map(|x| round_away(x * id)),
        }
    }
}

/// The nearest integer of a number within ±127.5, halves away from zero: the rule of C's `roundf`,
/// and of ggml's files; activations have another.
#[inline(always)]
fn round_away(x: f32) -> i8 {
    // Casts cut, and what is cut off is exact.
    #[allow(clippy::cast_possible_truncation)]
    let whole = x as i32;
    let rest = x - whole as f32;
    let up = i32::from(rest >= 0.5) - i32::from(rest <= -0.5);
    #[allow(clippy::cast_possible_truncation)]
    let rounded = (whole + up) as i8;
    rounded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_go_away_from_zero() {
        for step in -127 * 64..=127 * 64 {
            let x = step as f32 / 64.0;
            for x in [x.next_down(), x, x.next_up()] {
                assert_eq!(f32::from(round_away(x)), x.round(), "{x}");
            }
        }
    }
}
