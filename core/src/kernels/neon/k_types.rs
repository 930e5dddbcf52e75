//! How each K type is unpacked.

use core::arch::aarch64::*;

use super::block256::{Unpack256, Unpacked};

/// Signed quants: `bytes`, less `offset`.
#[inline(always)]
fn less(bytes: uint8x16_t, offset: i8) -> int8x16_t {
    // SAFETY: NEON is there.
    unsafe { vsubq_s8(vreinterpretq_s8_u8(bytes), vdupq_n_s8(offset)) }
}

/// Bits `shift..` of each byte, those in `mask`.
#[inline(always)]
fn bits(bytes: uint8x16_t, shift: usize, mask: u8) -> uint8x16_t {
    // SAFETY: NEON is there.
    unsafe {
        let shifted = match shift {
            0 => bytes,
            1 => vshrq_n_u8::<1>(bytes),
            2 => vshrq_n_u8::<2>(bytes),
            3 => vshrq_n_u8::<3>(bytes),
            4 => vshrq_n_u8::<4>(bytes),
            5 => vshrq_n_u8::<5>(bytes),
            6 => vshrq_n_u8::<6>(bytes),
            _ => vshrq_n_u8::<7>(bytes),
        };
        vandq_u8(shifted, vdupq_n_u8(mask))
    }
}

/// The scales and the minima of `Q4_K` and `Q5_K`, each twice.
///
/// # Safety
///
/// 12 bytes can be read at `at`.
#[inline(always)]
unsafe fn scales_and_mins(at: *const u8) -> [uint8x16_t; 2] {
    // SAFETY: three times four bytes of the 12.
    let word = |i: usize| u64::from(unsafe { at.add(4 * i).cast::<u32>().read_unaligned() });
    let (a, b, c) = (word(0), word(1), word(2));
    let (six, four, two) = (0x3f3f_3f3f, 0x0f0f_0f0f, 0x3030_3030);
    let scales = (a & six) | (((c & four) | ((a >> 2) & two)) << 32);
    let mins = (b & six) | ((((c >> 4) & four) | ((b >> 2) & two)) << 32);
    [scales, mins].map(|eight| {
        // SAFETY: NEON is there.
        unsafe {
            let eight = vcreate_u8(eight);
            vcombine_u8(vzip1_u8(eight, eight), vzip2_u8(eight, eight))
        }
    })
}

/// `scales: [u8; 16], qs: [u8; 64], d: f16, dmin: f16`
pub(super) struct Q2K;

impl Unpack256 for Q2K {
    const BYTES: usize = 84;
    const D: usize = 80;
    const DMIN: Option<usize> = Some(82);

    #[inline(always)]
    unsafe fn unpack(at: *const u8) -> Unpacked {
        // SAFETY: 16 and 16 + 64 bytes of the block's 84.
        unsafe {
            let both = vld1q_u8(at);
            let bytes: [uint8x16_t; 4] = core::array::from_fn(|i| vld1q_u8(at.add(16 + 16 * i)));
            Unpacked {
                quants: core::array::from_fn(|i| {
                    less(bits(bytes[i / 8 * 2 + i % 2], i % 8 / 2 * 2, 3), 0)
                }),
                scales: less(bits(both, 0, 15), 0),
                mins: bits(both, 4, 15),
            }
        }
    }
}

/// `hmask: [u8; 32], qs: [u8; 64], scales: [u8; 12], d: f16`
pub(super) struct Q3K;

impl Unpack256 for Q3K {
    const BYTES: usize = 110;
    const D: usize = 108;
    const DMIN: Option<usize> = None;

    #[inline(always)]
    unsafe fn unpack(at: *const u8) -> Unpacked {
        // SAFETY: 32, 32 + 64 and 96 + 12 bytes of the block's 110.
        unsafe {
            let hmask = [vld1q_u8(at), vld1q_u8(at.add(16))];
            let bytes: [uint8x16_t; 4] = core::array::from_fn(|i| vld1q_u8(at.add(32 + 16 * i)));
            let quants = core::array::from_fn(|i| {
                let low = bits(bytes[i / 8 * 2 + i % 2], i % 8 / 2 * 2, 3);
                let high = vshlq_n_u8::<2>(bits(hmask[i % 2], i / 2, 1));
                less(vorrq_u8(low, high), 4)
            });
            // See `quant::q3_k::scales`.
            let low = at.add(96).cast::<u64>().read_unaligned();
            let high = u64::from(at.add(104).cast::<u32>().read_unaligned());
            let (four, two) = (0x0f0f_0f0f_0f0f_0f0f, 0x3030_3030_3030_3030);
            let first = (low & four) | (((high << 4) | (high << 34)) & two);
            let last = ((low >> 4) & four) | ((high | (high << 30)) & two);
            Unpacked {
                quants,
                scales: less(vcombine_u8(vcreate_u8(first), vcreate_u8(last)), 32),
                mins: vdupq_n_u8(0),
            }
        }
    }
}

/// `d: f16, dmin: f16, scales: [u8; 12], qs: [u8; 128]`
pub(super) struct Q4K;

impl Unpack256 for Q4K {
    const BYTES: usize = 144;
    const D: usize = 0;
    const DMIN: Option<usize> = Some(2);

    #[inline(always)]
    unsafe fn unpack(at: *const u8) -> Unpacked {
        // SAFETY: 4 + 12 and 16 + 128 bytes of the block's 144.
        unsafe {
            let [scales, mins] = scales_and_mins(at.add(4));
            let bytes: [uint8x16_t; 8] = core::array::from_fn(|i| vld1q_u8(at.add(16 + 16 * i)));
            Unpacked {
                quants: core::array::from_fn(|i| {
                    less(bits(bytes[i / 4 * 2 + i % 2], i % 4 / 2 * 4, 15), 0)
                }),
                scales: less(scales, 0),
                mins,
            }
        }
    }
}

/// `d: f16, dmin: f16, scales: [u8; 12], qh: [u8; 32], qs: [u8; 128]`
pub(super) struct Q5K;

impl Unpack256 for Q5K {
    const BYTES: usize = 176;
    const D: usize = 0;
    const DMIN: Option<usize> = Some(2);

    #[inline(always)]
    unsafe fn unpack(at: *const u8) -> Unpacked {
        // SAFETY: 4 + 12, 16 + 32 and 48 + 128 bytes of the block's 176.
        unsafe {
            let [scales, mins] = scales_and_mins(at.add(4));
            let qh = [vld1q_u8(at.add(16)), vld1q_u8(at.add(32))];
            let bytes: [uint8x16_t; 8] = core::array::from_fn(|i| vld1q_u8(at.add(48 + 16 * i)));
            Unpacked {
                quants: core::array::from_fn(|i| {
                    let low = bits(bytes[i / 4 * 2 + i % 2], i % 4 / 2 * 4, 15);
                    let high = vshlq_n_u8::<4>(bits(qh[i % 2], i / 2, 1));
                    less(vorrq_u8(low, high), 0)
                }),
                scales: less(scales, 0),
                mins,
            }
        }
    }
}

/// `ql: [u8; 128], qh: [u8; 64], scales: [i8; 16], d: f16`
pub(super) struct Q6K;

impl Unpack256 for Q6K {
    const BYTES: usize = 210;
    const D: usize = 208;
    const DMIN: Option<usize> = None;

    #[inline(always)]
    unsafe fn unpack(at: *const u8) -> Unpacked {
        // SAFETY: 128, 128 + 64 and 192 + 16 bytes of the block's 210.
        unsafe {
            let ql: [uint8x16_t; 8] = core::array::from_fn(|i| vld1q_u8(at.add(16 * i)));
            let qh: [uint8x16_t; 4] = core::array::from_fn(|i| vld1q_u8(at.add(128 + 16 * i)));
            Unpacked {
                quants: core::array::from_fn(|i| {
                    let low = bits(ql[i / 8 * 4 + i % 4], i % 8 / 4 * 4, 15);
                    let high = vshlq_n_u8::<4>(bits(qh[i / 8 * 2 + i % 2], i % 8 / 2 * 2, 3));
                    less(vorrq_u8(low, high), 32)
                }),
                scales: vld1q_s8(at.add(192).cast()),
                mins: vdupq_n_u8(0),
            }
        }
    }
}
