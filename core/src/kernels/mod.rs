//! Dot products and row operations, one module an instruction set.
//!
//! This is the only place that names an instruction set and the only place with `unsafe`. Every
//! back end gives the same bits; [`Backend::SCALAR`] is the definition, and every other one is
//! compared with it, bit for bit, over the same generated cases.
//!
//! # Which bits
//!
//! No multiplication is fused with an addition, subnormals are kept, and sums have one order:
//!
//! - **F32, F16 and BF16 weights** take f32 activations. There are eight lanes that start at
//!   `+0.0`; element `i` goes to lane `i % 8`, those of an incomplete last eight too:
//!   `lane += w * x`. The sum is
//!   `((l0 + l4) + (l2 + l6)) + ((l1 + l5) + (l3 + l7))`.
//! - **Quantized weights** take quantized activations. A block's products are summed exactly in
//!   integers, and the blocks of a row are added one after the other to one accumulator that
//!   starts at `+0.0`. With `isum` the sum of `qs * x.qs`:
//!   - types of 32 without a minimum (`Q8_0`, `Q4_0`, `Q5_0`, `IQ4_NL`): `acc += (d * x.d) * isum`
//!   - types of 32 with one (`Q4_1`, `Q5_1`): `acc += (d * x.d) * isum + (m * x.d) * x.sum`
//!   - K types, where `isum` is the sum of `scale * qs * x.qs` and `msum` that of
//!     `min * sum of 16 x.qs`: `acc += (d * x.d) * isum`, and with minima (`Q2_K`, `Q4_K`, `Q5_K`)
//!     `acc += (d * x.d) * isum - (dmin * x.d) * msum`
//!
//!   Scales are f16 numbers converted exactly; integers become f32 rounded to nearest even (those
//!   of K types can have more than 24 bits).
//!
//! So columns of zeros at the end of a row change no bit, and rows and tokens may be grouped in
//! any way. Where a result is NaN, its sign and payload are not defined.
//!
//! # Quantized activations
//!
//! [`Backend::quantize_q8`] and [`Backend::quantize_q8k`] take the largest magnitude `amax` of a
//! block (compared as integers, so that NaN is above infinity) and give `d = amax / 127` and
//! `q = x * (1 / d)`, rounded to nearest even and clamped to ±127. Below 2^-90 a block is zero
//! (`d = 0`), so that neither `d` nor `1 / d` is ever subnormal. If `amax` is not finite, `d` is
//! `amax` and the quants are 0: every product with it is NaN.

#[cfg(all(target_arch = "arm", feature = "armv6m"))]
mod armv6m;
mod attention;
mod backend;
#[cfg(all(target_arch = "arm", any(feature = "dsp", feature = "mve")))]
mod cortex_m_attention;
#[cfg(all(target_arch = "arm", feature = "dsp", not(feature = "mve")))]
mod dsp;
#[cfg(any(
    target_arch = "x86_64",
    all(target_arch = "aarch64", target_feature = "neon")
))]
mod eight_rows;
pub mod math;
#[cfg(all(target_arch = "arm", feature = "mve"))]
mod mve;
#[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
mod neon;
mod operations;
mod rows;
mod scalar;
mod self_test;
#[cfg(any(test, all(target_arch = "arm", feature = "armv6m")))]
mod soft_float;
#[cfg(test)]
mod tests;
#[cfg(target_arch = "x86_64")]
mod x86;

pub use attention::{
    AttentionScratch, MAX_HEAD_DIM_Q8, Q8Rows, Queries, ints_len, scores_len, scores_len_q8,
};
pub use backend::Backend;
pub use self_test::{SelfTestError, self_test};
