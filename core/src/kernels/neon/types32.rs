//! How each type of 32 elements is unpacked.
//!
//! The loads move the pointer on by themselves, which a compiler does not find. They load bytes and
//! halfwords: blocks lie at even addresses, and where unaligned accesses fault so do larger elements.

use core::arch::aarch64::*;
use core::arch::asm;

use super::block32::Unpack32;
use crate::quant::Iq4Nl as Codebook;

/// Reads the scale of a block into lane `LANE`.
///
/// # Safety
///
/// 2 bytes can be read at `at`.
#[inline(always)]
unsafe fn take_scale<const LANE: u32>(at: &mut *const u8, scales: &mut uint32x4_t) {
    // SAFETY: two bytes are read and registers change, nothing else.
    unsafe {
        asm!(
            "ld1 {{{scales:v}.h}}[{word}], [{at}], #2",
            scales = inout(vreg) *scales,
            at = inout(reg) *at,
            word = const 2 * LANE,
            options(pure, readonly, nostack, preserves_flags),
        );
    }
}

/// Reads the scale and the minimum of a block into lane `LANE`.
///
/// # Safety
///
/// 4 bytes can be read at `at`.
#[inline(always)]
unsafe fn take_scale_and_min<const LANE: u32>(at: &mut *const u8, scales: &mut uint32x4_t) {
    // SAFETY: four bytes are read and registers change, nothing else.
    unsafe {
        asm!(
            "ld1 {{{scales:v}.h}}[{scale}], [{at}], #2",
            "ld1 {{{scales:v}.h}}[{min}], [{at}], #2",
            scales = inout(vreg) *scales,
            at = inout(reg) *at,
            scale = const 2 * LANE,
            min = const 2 * LANE + 1,
            options(pure, readonly, nostack, preserves_flags),
        );
    }
}

/// Reads 16 bytes.
///
/// # Safety
///
/// 16 bytes can be read at `at`.
#[inline(always)]
unsafe fn take_16(at: &mut *const u8) -> uint8x16_t {
    let bytes: uint8x16_t;
    // SAFETY: 16 bytes are read and registers change, nothing else.
    unsafe {
        asm!(
            "ld1 {{{bytes:v}.16b}}, [{at}], #16",
            bytes = lateout(vreg) bytes,
            at = inout(reg) *at,
            options(pure, readonly, nostack, preserves_flags),
        );
    }
    bytes
}

/// Reads 32 bytes.
///
/// # Safety
///
/// 32 bytes can be read at `at`.
#[inline(always)]
unsafe fn take_32(at: &mut *const u8) -> [int8x16_t; 2] {
    let (low, high): (int8x16_t, int8x16_t);
    // SAFETY: 32 bytes are read and registers change, nothing else.
    unsafe {
        asm!(
            "ld1 {{{low:v}.16b}}, [{at}], #16",
            "ld1 {{{high:v}.16b}}, [{at}], #16",
            low = out(vreg) low,
            high = lateout(vreg) high,
            at = inout(reg) *at,
            options(pure, readonly, nostack, preserves_flags),
        );
    }
    [low, high]
}

/// Reads 4 bytes into each lane.
///
/// # Safety
///
/// 4 bytes can be read at `at`.
#[inline(always)]
unsafe fn take_fifth_bits(at: &mut *const u8) -> uint8x16_t {
    let bytes: uint8x16_t;
    // SAFETY: four bytes are read and registers change, nothing else.
    unsafe {
        asm!(
            "ld1 {{{bytes:v}.h}}[0], [{at}], #2",
            "ld1 {{{bytes:v}.h}}[1], [{at}], #2",
            "dup {bytes:v}.4s, {bytes:v}.s[0]",
            bytes = out(vreg) bytes,
            at = inout(reg) *at,
            options(pure, readonly, nostack, preserves_flags),
        );
    }
    bytes
}

/// The low and the high nibbles of 16 bytes.
#[inline(always)]
fn nibbles(bytes: uint8x16_t) -> [uint8x16_t; 2] {
    // SAFETY: NEON is there.
    unsafe { [vandq_u8(bytes, vdupq_n_u8(15)), vshrq_n_u8::<4>(bytes)] }
}

/// The same bits as signed bytes.
#[inline(always)]
fn signed(bytes: [uint8x16_t; 2]) -> [int8x16_t; 2] {
    // SAFETY: NEON is there.
    unsafe { [vreinterpretq_s8_u8(bytes[0]), vreinterpretq_s8_u8(bytes[1])] }
}

/// Nibbles with 32 bits, which stand in each lane of `bits`, on top.
#[inline(always)]
fn five_bits(nibbles: [uint8x16_t; 2], bits: uint8x16_t) -> [int8x16_t; 2] {
    // SAFETY: NEON is there.
    unsafe {
        let bit = vreinterpretq_u8_u64(vdupq_n_u64(0x8040_2010_0804_0201));
        let each = 0x0101_0101_0101_0101;
        let spread = |from: u64| {
            let from = vcombine_u64(vcreate_u64(from * each), vcreate_u64((from + 1) * each));
            // All ones, which is -1, where the bit is set.
            vtstq_u8(vqtbl1q_u8(bits, vreinterpretq_u8_u64(from)), bit)
        };
        let sixteen = vdupq_n_u8(16);
        signed([
            vmlsq_u8(nibbles[0], spread(0), sixteen),
            vmlsq_u8(nibbles[1], spread(2), sixteen),
        ])
    }
}

/// `d: f16, qs: [i8; 32]`
pub(super) struct Q8_0;

impl Unpack32 for Q8_0 {
    const HAS_MIN: bool = false;
    const OFFSET: i32 = 0;
    const BITS: u32 = 8;

    #[inline(always)]
    unsafe fn take<const LANE: u32>(at: &mut *const u8, scales: &mut uint32x4_t) -> [int8x16_t; 2] {
        // SAFETY: 2 + 32 bytes of the block's 34.
        unsafe {
            take_scale::<LANE>(at, scales);
            take_32(at)
        }
    }
}

/// `d: f16, qs: [u8; 16]`
pub(super) struct Q4_0;

impl Unpack32 for Q4_0 {
    const HAS_MIN: bool = false;
    const OFFSET: i32 = 8;
    const BITS: u32 = 4;

    #[inline(always)]
    unsafe fn take<const LANE: u32>(at: &mut *const u8, scales: &mut uint32x4_t) -> [int8x16_t; 2] {
        // SAFETY: 2 + 16 bytes of the block's 18.
        unsafe {
            take_scale::<LANE>(at, scales);
            signed(nibbles(take_16(at)))
        }
    }
}

/// `d: f16, m: f16, qs: [u8; 16]`
pub(super) struct Q4_1;

impl Unpack32 for Q4_1 {
    const HAS_MIN: bool = true;
    const OFFSET: i32 = 0;
    const BITS: u32 = 4;

    #[inline(always)]
    unsafe fn take<const LANE: u32>(at: &mut *const u8, scales: &mut uint32x4_t) -> [int8x16_t; 2] {
        // SAFETY: 4 + 16 bytes of the block's 20.
        unsafe {
            take_scale_and_min::<LANE>(at, scales);
            signed(nibbles(take_16(at)))
        }
    }
}

/// `d: f16, qh: [u8; 4], qs: [u8; 16]`
pub(super) struct Q5_0;

impl Unpack32 for Q5_0 {
    const HAS_MIN: bool = false;
    const OFFSET: i32 = 16;
    const BITS: u32 = 5;

    #[inline(always)]
    unsafe fn take<const LANE: u32>(at: &mut *const u8, scales: &mut uint32x4_t) -> [int8x16_t; 2] {
        // SAFETY: 2 + 4 + 16 bytes of the block's 22.
        unsafe {
            take_scale::<LANE>(at, scales);
            let bits = take_fifth_bits(at);
            five_bits(nibbles(take_16(at)), bits)
        }
    }
}

/// `d: f16, m: f16, qh: [u8; 4], qs: [u8; 16]`
pub(super) struct Q5_1;

impl Unpack32 for Q5_1 {
    const HAS_MIN: bool = true;
    const OFFSET: i32 = 0;
    const BITS: u32 = 5;

    #[inline(always)]
    unsafe fn take<const LANE: u32>(at: &mut *const u8, scales: &mut uint32x4_t) -> [int8x16_t; 2] {
        // SAFETY: 4 + 4 + 16 bytes of the block's 24.
        unsafe {
            take_scale_and_min::<LANE>(at, scales);
            let bits = take_fifth_bits(at);
            five_bits(nibbles(take_16(at)), bits)
        }
    }
}

/// `d: f16, qs: [u8; 16]`
pub(super) struct Iq4Nl;

impl Unpack32 for Iq4Nl {
    const HAS_MIN: bool = false;
    const OFFSET: i32 = 0;
    const BITS: u32 = 8;

    #[inline(always)]
    unsafe fn take<const LANE: u32>(at: &mut *const u8, scales: &mut uint32x4_t) -> [int8x16_t; 2] {
        // SAFETY: 2 + 16 bytes of the block's 18, and the 16 values.
        unsafe {
            take_scale::<LANE>(at, scales);
            let values = vld1q_s8(Codebook::VALUES.as_ptr());
            let [low, high] = nibbles(take_16(at));
            [vqtbl1q_s8(values, low), vqtbl1q_s8(values, high)]
        }
    }
}
