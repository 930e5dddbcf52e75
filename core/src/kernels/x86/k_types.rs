//! How each K type is unpacked.

use core::arch::x86_64::*;

use super::block256::{Dot256, Unpacked};

/// 32 bytes at `at`.
///
/// # Safety
///
/// AVX2 is there, and 32 bytes can be read at `at`.
#[inline(always)]
unsafe fn load(at: *const u8) -> __m256i {
    // SAFETY: the caller's promises are those of the instruction.
    unsafe { _mm256_loadu_si256(at.cast()) }
}

/// Bits `SHIFT..` of each byte, those in `mask`.
#[inline]
#[target_feature(enable = "avx2")]
fn bits<const SHIFT: i32>(bytes: __m256i, mask: i8) -> __m256i {
    _mm256_and_si256(_mm256_srli_epi16::<SHIFT>(bytes), _mm256_set1_epi8(mask))
}

/// The four pairs of bits of each byte.
#[inline]
#[target_feature(enable = "avx2")]
fn pairs(bytes: __m256i) -> [__m256i; 4] {
    [
        bits::<0>(bytes, 3),
        bits::<2>(bytes, 3),
        bits::<4>(bytes, 3),
        bits::<6>(bytes, 3),
    ]
}

/// `VALUE` in each byte of `bytes` that has bit `bit` set.
#[inline]
#[target_feature(enable = "avx2")]
fn where_set<const VALUE: i8>(bytes: __m256i, bit: usize) -> __m256i {
    let bit = _mm256_set1_epi8((1u8 << (bit % 8)).cast_signed());
    let set = _mm256_cmpeq_epi8(_mm256_and_si256(bytes, bit), bit);
    _mm256_and_si256(set, _mm256_set1_epi8(VALUE))
}

/// The scales and the minima of `Q4_K` and `Q5_K`, each twice; see
/// [`crate::quant`] for how the 12 bytes hold them.
///
/// # Safety
///
/// AVX2 is there, and 12 bytes can be read at `at`.
#[inline(always)]
unsafe fn scales_and_mins(at: *const u8) -> [__m128i; 2] {
    // SAFETY: three times four bytes of the 12; the caller has AVX2.
    unsafe {
        let word = |i: usize| u64::from(at.add(4 * i).cast::<u32>().read_unaligned());
        let (a, b, c) = (word(0), word(1), word(2));
        let (six, four, two) = (0x3f3f_3f3f, 0x0f0f_0f0f, 0x3030_3030);
        let scales = (a & six) | (((c & four) | ((a >> 2) & two)) << 32);
        let mins = (b & six) | ((((c >> 4) & four) | ((b >> 2) & two)) << 32);
        [scales, mins].map(|eight| {
            let eight = _mm_cvtsi64_si128(eight.cast_signed());
            _mm_unpacklo_epi8(eight, eight)
        })
    }
}

/// `scales: [u8; 16], qs: [u8; 64], d: f16, dmin: f16`
pub(super) struct Q2K;

impl Dot256 for Q2K {
    const BYTES: usize = 84;
    const D: usize = 80;
    const DMIN: Option<usize> = Some(82);
    const OFFSET: i32 = 0;

    #[inline(always)]
    unsafe fn unpack(at: *const u8) -> Unpacked {
        // SAFETY: 16 and 16 + 64 bytes of the block's 84; the caller has AVX2.
        unsafe {
            let both = _mm_loadu_si128(at.cast());
            let mask = _mm_set1_epi8(15);
            let [a, b, c, d] = pairs(load(at.add(16)));
            let [e, f, g, h] = pairs(load(at.add(48)));
            Unpacked {
                quants: [a, b, c, d, e, f, g, h],
                scales: _mm_and_si128(both, mask),
                mins: _mm_and_si128(_mm_srli_epi16::<4>(both), mask),
            }
        }
    }
}

/// `hmask: [u8; 32], qs: [u8; 64], scales: [u8; 12], d: f16`
pub(super) struct Q3K;

impl Dot256 for Q3K {
    const BYTES: usize = 110;
    const D: usize = 108;
    const DMIN: Option<usize> = None;
    const OFFSET: i32 = 4;

    #[inline(always)]
    unsafe fn unpack(at: *const u8) -> Unpacked {
        // SAFETY: 32, 32 + 64 and 96 + 12 bytes of the block's 110; the caller has AVX2.
        unsafe {
            let hmask = load(at);
            let [a, b, c, d] = pairs(load(at.add(32)));
            let [e, f, g, h] = pairs(load(at.add(64)));
            let mut quants = [a, b, c, d, e, f, g, h];
            for (i, quants) in quants.iter_mut().enumerate() {
                *quants = _mm256_or_si256(*quants, where_set::<4>(hmask, i));
            }
            // See `quant::q3_k::scales`.
            let low = at.add(96).cast::<u64>().read_unaligned();
            let high = u64::from(at.add(104).cast::<u32>().read_unaligned());
            let (four, two) = (0x0f0f_0f0f_0f0f_0f0f, 0x3030_3030_3030_3030);
            let high_low = (high << 4) | (high << 34);
            let high_high = high | (high << 30);
            let low_eight = (low & four) | (high_low & two);
            let high_eight = ((low >> 4) & four) | (high_high & two);
            let unsigned = _mm_set_epi64x(high_eight.cast_signed(), low_eight.cast_signed());
            Unpacked {
                quants,
                scales: _mm_sub_epi8(unsigned, _mm_set1_epi8(32)),
                mins: _mm_setzero_si128(),
            }
        }
    }
}

/// `d: f16, dmin: f16, scales: [u8; 12], qs: [u8; 128]`
pub(super) struct Q4K;

impl Dot256 for Q4K {
    const BYTES: usize = 144;
    const D: usize = 0;
    const DMIN: Option<usize> = Some(2);
    const OFFSET: i32 = 0;

    #[inline(always)]
    unsafe fn unpack(at: *const u8) -> Unpacked {
        // SAFETY: 4 + 12 and 16 + 128 bytes of the block's 144; the caller has AVX2.
        unsafe {
            let [scales, mins] = scales_and_mins(at.add(4));
            let mut quants = [_mm256_setzero_si256(); 8];
            for i in 0..4 {
                let bytes = load(at.add(16 + 32 * i));
                quants[2 * i] = bits::<0>(bytes, 15);
                quants[2 * i + 1] = bits::<4>(bytes, 15);
            }
            Unpacked {
                quants,
                scales,
                mins,
            }
        }
    }
}

/// `d: f16, dmin: f16, scales: [u8; 12], qh: [u8; 32], qs: [u8; 128]`
pub(super) struct Q5K;

impl Dot256 for Q5K {
    const BYTES: usize = 176;
    const D: usize = 0;
    const DMIN: Option<usize> = Some(2);
    const OFFSET: i32 = 0;

    #[inline(always)]
    unsafe fn unpack(at: *const u8) -> Unpacked {
        // SAFETY: 4 + 12, 16 + 32 and 48 + 128 bytes of the block's 176; the caller has AVX2.
        unsafe {
            let [scales, mins] = scales_and_mins(at.add(4));
            let qh = load(at.add(16));
            let mut quants = [_mm256_setzero_si256(); 8];
            for i in 0..4 {
                let bytes = load(at.add(48 + 32 * i));
                let (low, high) = (bits::<0>(bytes, 15), bits::<4>(bytes, 15));
                quants[2 * i] = _mm256_or_si256(low, where_set::<16>(qh, 2 * i));
                quants[2 * i + 1] = _mm256_or_si256(high, where_set::<16>(qh, 2 * i + 1));
            }
            Unpacked {
                quants,
                scales,
                mins,
            }
        }
    }
}

/// `ql: [u8; 128], qh: [u8; 64], scales: [i8; 16], d: f16`
pub(super) struct Q6K;

impl Dot256 for Q6K {
    const BYTES: usize = 210;
    const D: usize = 208;
    const DMIN: Option<usize> = None;
    const OFFSET: i32 = 32;

    #[inline(always)]
    unsafe fn unpack(at: *const u8) -> Unpacked {
        // SAFETY: 128, 128 + 64 and 192 + 16 bytes of the block's 210; the caller has AVX2.
        unsafe {
            let mut quants = [_mm256_setzero_si256(); 8];
            for half in 0..2 {
                let a = load(at.add(64 * half));
                let b = load(at.add(64 * half + 32));
                let low = [
                    bits::<0>(a, 15),
                    bits::<0>(b, 15),
                    bits::<4>(a, 15),
                    bits::<4>(b, 15),
                ];
                let high = pairs(load(at.add(128 + 32 * half)));
                for i in 0..4 {
                    let high = _mm256_slli_epi16::<4>(high[i]);
                    quants[4 * half + i] = _mm256_or_si256(low[i], high);
                }
            }
            Unpacked {
                quants,
                scales: _mm_loadu_si128(at.add(192).cast()),
                mins: _mm_setzero_si128(),
            }
        }
    }
}
