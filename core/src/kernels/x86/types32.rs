//! How each type of 32 elements is unpacked and multiplied.

use core::arch::x86_64::*;

use super::block32::Unpack32;
use crate::quant::Iq4Nl as Codebook;

/// 16 bytes at `a` in the lower lane, 16 bytes at `b` in the upper one.
///
/// # Safety
///
/// AVX2 is there, and 16 bytes can be read at `a` and at `b`.
#[inline(always)]
unsafe fn load_two(a: *const u8, b: *const u8) -> __m256i {
    // SAFETY: the caller's promises are those of the loads and instructions.
    unsafe {
        let low = _mm256_castsi128_si256(_mm_loadu_si128(a.cast()));
        _mm256_inserti128_si256::<1>(low, _mm_loadu_si128(b.cast()))
    }
}

/// The low and the high nibbles of each byte.
///
/// # Safety
///
/// AVX2 is there.
#[inline(always)]
unsafe fn nibbles(bytes: __m256i) -> [__m256i; 2] {
    // SAFETY: the caller's promise is that of the instructions.
    unsafe {
        let mask = _mm256_set1_epi8(15);
        [
            _mm256_and_si256(bytes, mask),
            _mm256_and_si256(_mm256_srli_epi16::<4>(bytes), mask),
        ]
    }
}

/// 16 for each bit that is set of two times 32: those of 4 bytes at byte `AT` of each lane. The
/// first register has the bits 0..16 of both lanes, the second the bits 16..32.
///
/// # Safety
///
/// AVX2 is there.
#[inline(always)]
unsafe fn fifth_bits<const AT: i8>(bytes: __m256i) -> [__m256i; 2] {
    // SAFETY: the caller's promise is that of the instructions.
    unsafe {
        let bit = _mm256_set1_epi64x(0x8040_2010_0804_0201_u64.cast_signed());
        let spread = |from: i8| {
            let (even, odd) = (i64::from(from), i64::from(from + 1));
            let each = 0x0101_0101_0101_0101;
            let bytes = _mm256_shuffle_epi8(
                bytes,
                _mm256_setr_epi64x(even * each, odd * each, even * each, odd * each),
            );
            let set = _mm256_cmpeq_epi8(_mm256_and_si256(bytes, bit), bit);
            _mm256_and_si256(set, _mm256_set1_epi8(16))
        };
        [spread(AT), spread(AT + 2)]
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
    unsafe fn load(a: *const u8, b: *const u8) -> [__m256i; 2] {
        // SAFETY: 2 + 32 bytes of the block's 34; the caller has AVX2.
        unsafe { [load_two(a.add(2), b.add(2)), load_two(a.add(18), b.add(18))] }
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
    unsafe fn load(a: *const u8, b: *const u8) -> [__m256i; 2] {
        // SAFETY: 2 + 16 bytes of the block's 18; the caller has AVX2.
        unsafe { nibbles(load_two(a.add(2), b.add(2))) }
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
    unsafe fn load(a: *const u8, b: *const u8) -> [__m256i; 2] {
        // SAFETY: 4 + 16 bytes of the block's 20; the caller has AVX2.
        unsafe { nibbles(load_two(a.add(4), b.add(4))) }
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
    unsafe fn load(a: *const u8, b: *const u8) -> [__m256i; 2] {
        // SAFETY: 16 and 6 + 16 bytes of the block's 22; the caller has AVX2.
        unsafe {
            let low = nibbles(load_two(a.add(6), b.add(6)));
            let high = fifth_bits::<2>(load_two(a, b));
            [
                _mm256_or_si256(low[0], high[0]),
                _mm256_or_si256(low[1], high[1]),
            ]
        }
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
    unsafe fn load(a: *const u8, b: *const u8) -> [__m256i; 2] {
        // SAFETY: 16 and 8 + 16 bytes of the block's 24; the caller has AVX2.
        unsafe {
            let low = nibbles(load_two(a.add(8), b.add(8)));
            let high = fifth_bits::<4>(load_two(a, b));
            [
                _mm256_or_si256(low[0], high[0]),
                _mm256_or_si256(low[1], high[1]),
            ]
        }
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
    unsafe fn load(a: *const u8, b: *const u8) -> [__m256i; 2] {
        // SAFETY: 2 + 16 bytes of the block's 18, and the 16 values; the caller has AVX2.
        unsafe {
            let values = _mm_loadu_si128(Codebook::VALUES.as_ptr().cast());
            let values = _mm256_broadcastsi128_si256(values);
            let chosen = nibbles(load_two(a.add(2), b.add(2)));
            [
                _mm256_shuffle_epi8(values, chosen[0]),
                _mm256_shuffle_epi8(values, chosen[1]),
            ]
        }
    }
}
