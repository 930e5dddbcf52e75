//! Row operations and attention of a back end.

use super::attention::{self, AttentionScratch, Q8Rows, Queries};
use super::{Backend, rows};
#[cfg(all(target_arch = "arm", feature = "dsp", not(feature = "mve")))]
use super::{backend::Kind, cortex_m_attention, dsp};
#[cfg(all(target_arch = "arm", feature = "mve"))]
use super::{backend::Kind, cortex_m_attention, mve};
#[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
use super::{backend::Kind, neon};
#[cfg(target_arch = "x86_64")]
use super::{backend::Kind, x86};

/// Calls a function of the AVX2 back end, else the common source.
macro_rules! dispatch {
    ($backend:expr, $operation:ident($($argument:expr),*), $common:path) => {
        match $backend.kind() {
            // SAFETY: this value exists only where the processor has AVX2 and F16C.
            #[cfg(target_arch = "x86_64")]
            #[allow(unsafe_code)]
            Kind::Avx2 | Kind::AvxVnni => unsafe { x86::$operation($($argument),*) },
            #[allow(unreachable_patterns)] // Where there is one back end.
            _ => $common($($argument),*),
        }
    };
}

impl Backend {
    /// Root mean square normalization: `out[i] = (x[i] * s) * weight[i]` with
    /// `s = 1 / sqrt(mean(x^2) + eps)`. `weight` holds as many little-endian f32 as `x` has
    /// elements, at any address.
    pub fn rms_norm(self, x: &[f32], weight: &[u8], eps: f32, out: &mut [f32]) {
        dispatch!(self, rms_norm(x, weight, eps, out), rows::rms_norm);
    }

    /// `gate[i] = silu(gate[i]) * up[i]`.
    pub fn swiglu(self, gate: &mut [f32], up: &[f32]) {
        dispatch!(self, swiglu(gate, up), rows::swiglu);
    }

    /// `x[i] += y[i]`.
    pub fn add(self, x: &mut [f32], y: &[f32]) {
        dispatch!(self, add(x, y), rows::add);
    }

    /// Turns pairs of neighbours in each head of `head_dim` elements by the angles whose
    /// (cosine, sine) pairs are in `rotation`; elements behind the last pair stay.
    pub fn rope(self, x: &mut [f32], head_dim: usize, rotation: &[f32]) {
        dispatch!(self, rope(x, head_dim, rotation), rows::rope);
    }

    /// The largest magnitude, as the bits of an f32: compared as integers, so that NaN is above
    /// infinity.
    #[must_use]
    pub fn largest_magnitude(self, x: &[f32]) -> u32 {
        dispatch!(self, largest_magnitude(x), rows::largest_magnitude)
    }

    /// Quantizes to bytes of the scale `d`: `x * (1 / d)`, rounded to nearest even and clamped to
    /// ±127; all 0 if `d` is, all 1 if it is not finite.
    pub fn quantize_bytes(self, x: &[f32], d: f32, out: &mut [i8]) {
        dispatch!(self, quantize_bytes(x, d, out), rows::quantize_bytes);
    }

    /// The bits of f16 numbers, rounded to nearest even.
    pub fn to_f16(self, x: &[f32], out: &mut [u16]) {
        dispatch!(self, to_f16(x, out), rows::to_f16);
    }

    /// Attention over rows of f32: `out` becomes a result for each query head, `keys` and `values`
    /// hold the rows of their KV head; `scores` has [`scores_len`](super::scores_len) elements.
    pub fn attend_f32(
        self,
        queries: Queries<'_>,
        keys: &[f32],
        values: &[f32],
        scores: &mut [f32],
        out: &mut [f32],
    ) {
        dispatch!(
            self,
            attend(queries, keys, values, scores, out),
            attention::attend
        );
    }

    /// Attention over rows of f16, given as their bits; else as [`attend_f32`](Self::attend_f32).
    pub fn attend_f16(
        self,
        queries: Queries<'_>,
        keys: &[u16],
        values: &[u16],
        scores: &mut [f32],
        out: &mut [f32],
    ) {
        dispatch!(
            self,
            attend(queries, keys, values, scores, out),
            attention::attend
        );
    }

    /// Attention over rows of signed bytes; else as [`attend_f32`](Self::attend_f32). A head has at
    /// most [`MAX_HEAD_DIM_Q8`](super::MAX_HEAD_DIM_Q8) elements.
    pub fn attend_q8(
        self,
        queries: Queries<'_>,
        keys: Q8Rows<'_>,
        values: Q8Rows<'_>,
        scratch: AttentionScratch<'_>,
        out: &mut [f32],
    ) {
        match self.kind() {
            #[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
            Kind::Neon | Kind::Dotprod => neon::attend_q8(queries, keys, values, scratch, out),
            #[cfg(all(target_arch = "arm", feature = "dsp", not(feature = "mve")))]
            #[allow(unsafe_code)]
            // SAFETY: whoever turned the feature on says that the instructions are there.
            Kind::Dsp => unsafe {
                cortex_m_attention::attend_q8::<dsp::Dsp>(queries, keys, values, scratch, out);
            },
            #[cfg(all(target_arch = "arm", feature = "mve"))]
            #[allow(unsafe_code)]
            // SAFETY: whoever turned the feature on says that the instructions are there.
            Kind::Mve => unsafe {
                cortex_m_attention::attend_q8::<mve::Mve>(queries, keys, values, scratch, out);
            },
            _ => dispatch!(
                self,
                attend_q8(queries, keys, values, scratch, out),
                attention::attend_q8
            ),
        }
    }
}
