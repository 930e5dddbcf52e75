//! How each type of 32 elements is unpacked.

use core::arch::aarch64::*;

use super::block32::Unpack32;
use crate::quant::Iq4Nl as Codebook;

/// The low and the high nibbles of 16 bytes at `at`.
///
/// # Safety
///
/// 16 bytes can be read at `at`.
#[inline(always)]
unsafe fn nibbles(at: *const u8) -> [uint8x16_t; 2] {
    // SAFETY: the caller's promise.
    unsafe {
        let bytes = vld1q_u8(at);
        [vandq_u8(bytes, vdupq_n_u8(15)), vshrq_n_u8::<4>(bytes)]
    }
}

/// Nibbles at `low` with the 32 bits at `high` on top.
///
/// # Safety
///
/// 16 bytes can be read at `low` and 4 at `high`.
#[inline(always)]
unsafe fn five_bits(low: *const u8, high: *const u8) -> [int8x16_t; 2] {
    // SAFETY: the caller's promises.
    unsafe {
        let nibbles = nibbles(low);
        let bits = vreinterpretq_u8_u32(vdupq_n_u32(high.cast::<u32>().read_unaligned()));
        let bit = vreinterpretq_u8_u64(vdupq_n_u64(0x8040_2010_0804_0201));
        let each = 0x0101_0101_0101_0101;
        let spread = |from: u64| {
            let from = vcombine_u64(vcreate_u64(from * each), vcreate_u64((from + 1) * each));
            // All ones, which is -1, where the bit is set.
            vtstq_u8(vqtbl1q_u8(bits, vreinterpretq_u8_u64(from)), bit)
        };
        let sixteen = vdupq_n_u8(16);
        [
            vreinterpretq_s8_u8(vmlsq_u8(nibbles[0], spread(0), sixteen)),
            vreinterpretq_s8_u8(vmlsq_u8(nibbles[1], spread(2), sixteen)),
        ]
    }
}

/// `d: f16, qs: [i8; 32]`
pub(super) struct Q8_0;

impl Unpack32 for Q8_0 {
    const BYTES: usize = 34;
    const HAS_MIN: bool = false;
    const OFFSET: i32 = 0;
    const BITS: u32 = 8;

    #[inline(always)]
    unsafe fn load(at: *const u8) -> [int8x16_t; 2] {
        // SAFETY: 2 + 32 bytes of the block's 34.
        unsafe { [vld1q_s8(at.add(2).cast()), vld1q_s8(at.add(18).cast())] }
    }
}

/// `d: f16, qs: [u8; 16]`
pub(super) struct Q4_0;

impl Unpack32 for Q4_0 {
    const BYTES: usize = 18;
    const HAS_MIN: bool = false;
    const OFFSET: i32 = 8;
    const BITS: u32 = 4;

    #[inline(always)]
    unsafe fn load(at: *const u8) -> [int8x16_t; 2] {
        // SAFETY: 2 + 16 bytes of the block's 18.
        unsafe {
            let [low, high] = nibbles(at.add(2));
            [vreinterpretq_s8_u8(low), vreinterpretq_s8_u8(high)]
        }
    }
}

/// `d: f16, m: f16, qs: [u8; 16]`
pub(super) struct Q4_1;

impl Unpack32 for Q4_1 {
    const BYTES: usize = 20;
    const HAS_MIN: bool = true;
    const OFFSET: i32 = 0;
    const BITS: u32 = 4;

    #[inline(always)]
    unsafe fn load(at: *const u8) -> [int8x16_t; 2] {
        // SAFETY: 4 + 16 bytes of the block's 20.
        unsafe {
            let [low, high] = nibbles(at.add(4));
            [vreinterpretq_s8_u8(low), vreinterpretq_s8_u8(high)]
        }
    }
}

/// `d: f16, qh: [u8; 4], qs: [u8; 16]`
pub(super) struct Q5_0;

impl Unpack32 for Q5_0 {
    const BYTES: usize = 22;
    const HAS_MIN: bool = false;
    const OFFSET: i32 = 16;
    const BITS: u32 = 5;

    #[inline(always)]
    unsafe fn load(at: *const u8) -> [int8x16_t; 2] {
        // SAFETY: 6 + 16 and 2 + 4 bytes of the block's 22.
        unsafe { five_bits(at.add(6), at.add(2)) }
    }
}

/// `d: f16, m: f16, qh: [u8; 4], qs: [u8; 16]`
pub(super) struct Q5_1;

impl Unpack32 for Q5_1 {
    const BYTES: usize = 24;
    const HAS_MIN: bool = true;
    const OFFSET: i32 = 0;
    const BITS: u32 = 5;

    #[inline(always)]
    unsafe fn load(at: *const u8) -> [int8x16_t; 2] {
        // SAFETY: 8 + 16 and 4 + 4 bytes of the block's 24.
        unsafe { five_bits(at.add(8), at.add(4)) }
    }
}

/// `d: f16, qs: [u8; 16]`
pub(super) struct Iq4Nl;

impl Unpack32 for Iq4Nl {
    const BYTES: usize = 18;
    const HAS_MIN: bool = false;
    const OFFSET: i32 = 0;
    const BITS: u32 = 8;

    #[inline(always)]
    unsafe fn load(at: *const u8) -> [int8x16_t; 2] {
        // SAFETY: 2 + 16 bytes of the block's 18, and the 16 values.
        unsafe {
            let values = vld1q_s8(Codebook::VALUES.as_ptr());
            let [low, high] = nibbles(at.add(2));
            [vqtbl1q_s8(values, low), vqtbl1q_s8(values, high)]
        }
    }
}
