//! How each type of 32 elements is unpacked and multiplied.

use core::arch::x86_64::*;

use super::block32::Dot32;
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

/// Products of unsigned quants, sums of four in 16 bits: at most 4 * 31 * 127.
///
/// # Safety
///
/// AVX2 is there.
#[inline(always)]
unsafe fn dot_unsigned(quants: [__m256i; 2], x: [__m256i; 2]) -> __m256i {
    // SAFETY: the caller's promise is that of the instructions.
    unsafe {
        _mm256_add_epi16(
            _mm256_maddubs_epi16(quants[0], x[0]),
            _mm256_maddubs_epi16(quants[1], x[1]),
        )
    }
}

/// Signed quants: magnitudes to multiply with activations that have taken over the signs.
#[derive(Clone, Copy)]
pub(super) struct Signed {
    quants: [__m256i; 2],
    magnitudes: [__m256i; 2],
}

impl Signed {
    /// # Safety
    ///
    /// AVX2 is there.
    #[inline(always)]
    unsafe fn new(quants: [__m256i; 2]) -> Self {
        // SAFETY: the caller's promise is that of the instructions.
        let magnitudes = unsafe { quants.map(|quants| _mm256_abs_epi8(quants)) };
        Self { quants, magnitudes }
    }

    /// Sums of four products in 32 bits. The magnitude of -128 is an unsigned 128, and activations
    /// are not -128, so that two products are at most 2 * 128 * 127, which 16 bits hold.
    ///
    /// # Safety
    ///
    /// AVX2 is there.
    #[inline(always)]
    unsafe fn dot(self, x: [__m256i; 2]) -> __m256i {
        // SAFETY: the caller's promise is that of the instructions.
        unsafe {
            let half = |i: usize| {
                let x = _mm256_sign_epi8(x[i], self.quants[i]);
                let sums = _mm256_maddubs_epi16(self.magnitudes[i], x);
                _mm256_madd_epi16(sums, _mm256_set1_epi16(1))
            };
            _mm256_add_epi32(half(0), half(1))
        }
    }
}

/// The ways to join sums: of 32 bits ...
macro_rules! join_32 {
    () => {
        #[inline(always)]
        unsafe fn join(ab: __m256i, cd: __m256i) -> __m256i {
            // SAFETY: the caller's promise is that of the instructions.
            unsafe { _mm256_hadd_epi32(ab, cd) }
        }

        #[inline(always)]
        unsafe fn finish(abcd: __m256i, efgh: __m256i) -> __m256i {
            // SAFETY: the caller's promise is that of the instructions.
            unsafe { _mm256_hadd_epi32(abcd, efgh) }
        }
    };
}

/// ... of 16 bits that hold 16 products of four bits and seven, 16 * 15 * 127 < 2^15 ...
macro_rules! join_16 {
    () => {
        #[inline(always)]
        unsafe fn join(ab: __m256i, cd: __m256i) -> __m256i {
            // SAFETY: the caller's promise is that of the instructions.
            unsafe { _mm256_hadd_epi16(ab, cd) }
        }

        #[inline(always)]
        unsafe fn finish(abcd: __m256i, efgh: __m256i) -> __m256i {
            // SAFETY: the caller's promise is that of the instructions.
            unsafe { _mm256_madd_epi16(_mm256_hadd_epi16(abcd, efgh), _mm256_set1_epi16(1)) }
        }
    };
}

/// ... and of 16 bits that hold 8 products of five bits and seven, 8 * 31 * 127 < 2^15.
macro_rules! join_16_to_32 {
    () => {
        #[inline(always)]
        unsafe fn join(ab: __m256i, cd: __m256i) -> __m256i {
            // SAFETY: the caller's promise is that of the instructions.
            unsafe { _mm256_madd_epi16(_mm256_hadd_epi16(ab, cd), _mm256_set1_epi16(1)) }
        }

        #[inline(always)]
        unsafe fn finish(abcd: __m256i, efgh: __m256i) -> __m256i {
            // SAFETY: the caller's promise is that of the instructions.
            unsafe { _mm256_hadd_epi32(abcd, efgh) }
        }
    };
}

/// `d: f16, qs: [i8; 32]`
pub(super) struct Q8_0;

impl Dot32 for Q8_0 {
    const BYTES: usize = 34;
    const HAS_MIN: bool = false;
    const OFFSET: i32 = 0;

    type Quants = Signed;

    #[inline(always)]
    unsafe fn load(a: *const u8, b: *const u8) -> Signed {
        // SAFETY: 2 + 32 bytes of the block's 34; the caller has AVX2.
        unsafe { Signed::new([load_two(a.add(2), b.add(2)), load_two(a.add(18), b.add(18))]) }
    }

    #[inline(always)]
    unsafe fn dot(quants: Signed, x: [__m256i; 2]) -> __m256i {
        // SAFETY: the caller has AVX2.
        unsafe { quants.dot(x) }
    }

    join_32!();
}

/// `d: f16, qs: [u8; 16]`
pub(super) struct Q4_0;

impl Dot32 for Q4_0 {
    const BYTES: usize = 18;
    const HAS_MIN: bool = false;
    const OFFSET: i32 = 8;

    type Quants = [__m256i; 2];

    #[inline(always)]
    unsafe fn load(a: *const u8, b: *const u8) -> [__m256i; 2] {
        // SAFETY: 2 + 16 bytes of the block's 18; the caller has AVX2.
        unsafe { nibbles(load_two(a.add(2), b.add(2))) }
    }

    #[inline(always)]
    unsafe fn dot(quants: [__m256i; 2], x: [__m256i; 2]) -> __m256i {
        // SAFETY: the caller has AVX2.
        unsafe { dot_unsigned(quants, x) }
    }

    join_16!();
}

/// `d: f16, m: f16, qs: [u8; 16]`
pub(super) struct Q4_1;

impl Dot32 for Q4_1 {
    const BYTES: usize = 20;
    const HAS_MIN: bool = true;
    const OFFSET: i32 = 0;

    type Quants = [__m256i; 2];

    #[inline(always)]
    unsafe fn load(a: *const u8, b: *const u8) -> [__m256i; 2] {
        // SAFETY: 4 + 16 bytes of the block's 20; the caller has AVX2.
        unsafe { nibbles(load_two(a.add(4), b.add(4))) }
    }

    #[inline(always)]
    unsafe fn dot(quants: [__m256i; 2], x: [__m256i; 2]) -> __m256i {
        // SAFETY: the caller has AVX2.
        unsafe { dot_unsigned(quants, x) }
    }

    join_16!();
}

/// `d: f16, qh: [u8; 4], qs: [u8; 16]`
pub(super) struct Q5_0;

impl Dot32 for Q5_0 {
    const BYTES: usize = 22;
    const HAS_MIN: bool = false;
    const OFFSET: i32 = 16;

    type Quants = [__m256i; 2];

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

    #[inline(always)]
    unsafe fn dot(quants: [__m256i; 2], x: [__m256i; 2]) -> __m256i {
        // SAFETY: the caller has AVX2.
        unsafe { dot_unsigned(quants, x) }
    }

    join_16_to_32!();
}

/// `d: f16, m: f16, qh: [u8; 4], qs: [u8; 16]`
pub(super) struct Q5_1;

impl Dot32 for Q5_1 {
    const BYTES: usize = 24;
    const HAS_MIN: bool = true;
    const OFFSET: i32 = 0;

    type Quants = [__m256i; 2];

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

    #[inline(always)]
    unsafe fn dot(quants: [__m256i; 2], x: [__m256i; 2]) -> __m256i {
        // SAFETY: the caller has AVX2.
        unsafe { dot_unsigned(quants, x) }
    }

    join_16_to_32!();
}

/// `d: f16, qs: [u8; 16]`
pub(super) struct Iq4Nl;

impl Dot32 for Iq4Nl {
    const BYTES: usize = 18;
    const HAS_MIN: bool = false;
    const OFFSET: i32 = 0;

    type Quants = Signed;

    #[inline(always)]
    unsafe fn load(a: *const u8, b: *const u8) -> Signed {
        // SAFETY: 2 + 16 bytes of the block's 18, and the 16 values; the caller has AVX2.
        unsafe {
            let values = _mm_loadu_si128(Codebook::VALUES.as_ptr().cast());
            let values = _mm256_broadcastsi128_si256(values);
            let chosen = nibbles(load_two(a.add(2), b.add(2)));
            Signed::new(chosen.map(|chosen| _mm256_shuffle_epi8(values, chosen)))
        }
    }

    #[inline(always)]
    unsafe fn dot(quants: Signed, x: [__m256i; 2]) -> __m256i {
        // SAFETY: the caller has AVX2.
        unsafe { quants.dot(x) }
    }

    join_32!();
}
