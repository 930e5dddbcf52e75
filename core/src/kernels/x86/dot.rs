//! Integer products: with AVX2's multiplications, or with AVX-VNNI's dot product instruction.

use core::arch::asm;
use core::arch::x86_64::*;

/// A way to multiply bytes and sum up the products.
///
/// `bits` says how large quants can be: not negative and of 4 or 5 bits, or any signed bytes for 8.
/// It is a constant wherever these functions are called.
pub(in super::super) trait Dot {
    /// What [`prepare`](Self::prepare) adds to signed bytes.
    const OFFSET: i32;

    /// The quants of half a block of two rows in each register, and what else is made of them.
    type Quants: Copy;

    /// Prepares quants for several multiplications.
    ///
    /// # Safety
    ///
    /// The instructions are there.
    unsafe fn prepare(bits: u32, quants: [__m256i; 2]) -> Self::Quants;

    /// The sums of the products with the halves of a block of activations, each half in both lanes.
    ///
    /// # Safety
    ///
    /// The instructions are there.
    unsafe fn products(bits: u32, quants: Self::Quants, x: [__m256i; 2]) -> __m256i;

    /// Joins the sums of two pairs of rows.
    ///
    /// # Safety
    ///
    /// The instructions are there.
    unsafe fn join(bits: u32, ab: __m256i, cd: __m256i) -> __m256i;

    /// Joins what [`join`](Self::join) has given into 8 sums of 32 bits: those of the rows in the
    /// lower lanes, then those in the upper lanes.
    ///
    /// # Safety
    ///
    /// The instructions are there.
    unsafe fn finish(bits: u32, abcd: __m256i, efgh: __m256i) -> __m256i;
}

/// VPMADDUBSW and VPMADDWD.
pub(in super::super) struct Avx2;

/// Quants, and the magnitudes of signed ones.
#[derive(Clone, Copy)]
pub(in super::super) struct SignAndMagnitude {
    quants: [__m256i; 2],
    magnitudes: [__m256i; 2],
}

impl Dot for Avx2 {
    const OFFSET: i32 = 0;

    type Quants = SignAndMagnitude;

    #[inline(always)]
    unsafe fn prepare(bits: u32, quants: [__m256i; 2]) -> SignAndMagnitude {
        let magnitudes = if bits == 8 {
            // SAFETY: the caller has AVX2.
            unsafe { [_mm256_abs_epi8(quants[0]), _mm256_abs_epi8(quants[1])] }
        } else {
            quants
        };
        SignAndMagnitude { quants, magnitudes }
    }

    /// Sums of two products have 16 bits. The magnitude of -128 is an unsigned 128, and activations
    /// are not -128, so that those of signed bytes are at most 2 * 128 * 127 < 2^15. The others can
    /// be added further: 4 products of five bits, or 8 after [`join`](Dot::join), are at most
    /// 8 * 31 * 127 < 2^15, and 16 products of four bits at most 16 * 15 * 127 < 2^15.
    #[inline(always)]
    unsafe fn products(bits: u32, quants: SignAndMagnitude, x: [__m256i; 2]) -> __m256i {
        // SAFETY: the caller has AVX2.
        unsafe {
            if bits == 8 {
                let half = |i: usize| {
                    let x = _mm256_sign_epi8(x[i], quants.quants[i]);
                    let sums = _mm256_maddubs_epi16(quants.magnitudes[i], x);
                    _mm256_madd_epi16(sums, _mm256_set1_epi16(1))
                };
                _mm256_add_epi32(half(0), half(1))
            } else {
                let half = |i: usize| _mm256_maddubs_epi16(quants.quants[i], x[i]);
                _mm256_add_epi16(half(0), half(1))
            }
        }
    }

    #[inline(always)]
    unsafe fn join(bits: u32, ab: __m256i, cd: __m256i) -> __m256i {
        // SAFETY: the caller has AVX2.
        unsafe {
            match bits {
                4 => _mm256_hadd_epi16(ab, cd),
                5 => _mm256_madd_epi16(_mm256_hadd_epi16(ab, cd), _mm256_set1_epi16(1)),
                _ => _mm256_hadd_epi32(ab, cd),
            }
        }
    }

    #[inline(always)]
    unsafe fn finish(bits: u32, abcd: __m256i, efgh: __m256i) -> __m256i {
        // SAFETY: the caller has AVX2.
        unsafe {
            match bits {
                4 => _mm256_madd_epi16(_mm256_hadd_epi16(abcd, efgh), _mm256_set1_epi16(1)),
                _ => _mm256_hadd_epi32(abcd, efgh),
            }
        }
    }
}

/// VPDPBUSD.
pub(in super::super) struct AvxVnni;

/// `sums` and, in each lane of 32 bits, four products of an unsigned and a signed byte. In stable
/// Rust the intrinsic is newer than what this crate asks for.
///
/// # Safety
///
/// AVX-VNNI is there.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn vpdpbusd(sums: __m256i, unsigned: __m256i, signed: __m256i) -> __m256i {
    let mut out = sums;
    // SAFETY: the caller has the instruction, and only registers change.
    unsafe {
        asm!(
            "{{vex}} vpdpbusd {out}, {unsigned}, {signed}",
            out = inout(ymm_reg) out,
            unsigned = in(ymm_reg) unsigned,
            signed = in(ymm_reg) signed,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    out
}

impl Dot for AvxVnni {
    const OFFSET: i32 = 128;

    type Quants = [__m256i; 2];

    #[inline(always)]
    unsafe fn prepare(bits: u32, quants: [__m256i; 2]) -> [__m256i; 2] {
        if bits == 8 {
            // SAFETY: the caller has AVX2.
            unsafe {
                let offset = _mm256_set1_epi8(-128);
                [
                    _mm256_xor_si256(quants[0], offset),
                    _mm256_xor_si256(quants[1], offset),
                ]
            }
        } else {
            quants
        }
    }

    #[inline(always)]
    unsafe fn products(_bits: u32, quants: [__m256i; 2], x: [__m256i; 2]) -> __m256i {
        // SAFETY: the caller has AVX-VNNI.
        unsafe {
            let sums = vpdpbusd(_mm256_setzero_si256(), quants[0], x[0]);
            vpdpbusd(sums, quants[1], x[1])
        }
    }

    #[inline(always)]
    unsafe fn join(_bits: u32, ab: __m256i, cd: __m256i) -> __m256i {
        // SAFETY: the caller has AVX2.
        unsafe { _mm256_hadd_epi32(ab, cd) }
    }

    #[inline(always)]
    unsafe fn finish(_bits: u32, abcd: __m256i, efgh: __m256i) -> __m256i {
        // SAFETY: the caller has AVX2.
        unsafe { _mm256_hadd_epi32(abcd, efgh) }
    }
}
