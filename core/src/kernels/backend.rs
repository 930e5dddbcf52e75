//! The choice of an instruction set.
#![allow(unsafe_code)] // To call what needs an instruction set.

#[cfg(all(target_arch = "arm", feature = "armv6m"))]
use super::armv6m;
#[cfg(all(target_arch = "arm", feature = "dsp", not(feature = "mve")))]
use super::dsp;
#[cfg(all(target_arch = "arm", feature = "mve"))]
use super::mve;
#[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
use super::neon;
use super::scalar;
#[cfg(target_arch = "x86_64")]
use super::x86;
use crate::built_in;
use crate::gguf::GgmlType;
use crate::quant::{ActivationKind, Activations, Q8Act, Q8KAct};

/// An instruction set that this processor has; all give the same bits.
///
/// A value exists only where its instructions can be run: on boards that is settled when the
/// program is compiled, under the feature `std` it is also found out at run time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Backend(pub(super) Kind);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub(super) enum Kind {
    Scalar,
    /// Made only where AVX2 and F16C were found.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// Made only where AVX-VNNI was found, and what AVX2 asks for.
    #[cfg(target_arch = "x86_64")]
    AvxVnni,
    #[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
    Neon,
    /// Made only where the dot product extension was found.
    #[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
    Dotprod,
    #[cfg(all(target_arch = "arm", feature = "dsp", not(feature = "mve")))]
    Dsp,
    #[cfg(all(target_arch = "arm", feature = "mve"))]
    Mve,
    #[cfg(all(target_arch = "arm", feature = "armv6m"))]
    Armv6m,
}

impl Kind {
    /// Those that are settled when the program is compiled.
    const COMPILED: &[Self] = &[
        Self::Scalar,
        #[cfg(all(
            target_arch = "x86_64",
            target_feature = "avx2",
            target_feature = "f16c"
        ))]
        Self::Avx2,
        #[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
        Self::Neon,
        #[cfg(all(target_arch = "aarch64", target_feature = "dotprod"))]
        Self::Dotprod,
        #[cfg(all(target_arch = "arm", feature = "dsp", not(feature = "mve")))]
        Self::Dsp,
        #[cfg(all(target_arch = "arm", feature = "mve"))]
        Self::Mve,
        #[cfg(all(target_arch = "arm", feature = "armv6m"))]
        Self::Armv6m,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Scalar => "scalar",
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => "avx2",
            #[cfg(target_arch = "x86_64")]
            Self::AvxVnni => "avxvnni",
            #[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
            Self::Neon => "neon",
            #[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
            Self::Dotprod => "dotprod",
            #[cfg(all(target_arch = "arm", feature = "dsp", not(feature = "mve")))]
            Self::Dsp => "dsp",
            #[cfg(all(target_arch = "arm", feature = "mve"))]
            Self::Mve => "mve",
            #[cfg(all(target_arch = "arm", feature = "armv6m"))]
            Self::Armv6m => "armv6m",
        }
    }
}

/// The only one, if `SMIDGEN_BACKEND` was set.
const ONLY: Option<Kind> = match built_in::BACKEND {
    // Where there is a system, this may be a build script of a firmware.
    Some(name) if cfg!(target_os = "none") => {
        let mut index = 0;
        while !built_in::is(name, Kind::COMPILED[index].name()) {
            index += 1;
            assert!(
                index < Kind::COMPILED.len(),
                "SMIDGEN_BACKEND names no back end that every processor of this target has"
            );
        }
        Some(Kind::COMPILED[index])
    }
    _ => None,
};

/// How many numbers a product has, checked against the lengths of all slices.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// Rows of weights.
    pub(super) rows: usize,
    /// Bytes of a row of weights.
    pub(super) row_bytes: usize,
    /// Blocks of a row of activations, or numbers if they are f32; not 0 when a back end sees it.
    pub(super) blocks: usize,
}

impl Shape {
    /// `None` if the lengths do not belong together, there are no rows or the type has no kernels.
    fn new(
        ty: GgmlType,
        weights: &[u8],
        cols: usize,
        x: Activations<'_>,
        tokens: usize,
        out: &[f32],
    ) -> Option<Self> {
        let (kind, block_len, block_bytes) = form(ty)?;
        let blocks = cols / block_len;
        if tokens == 0 || blocks * block_len != cols || x.kind() != kind {
            return None;
        }
        let rows = if tokens == 1 {
            out.len()
        } else {
            out.len() / tokens
        };
        let row_bytes = blocks.checked_mul(block_bytes)?;
        let fits = rows != 0
            && rows * tokens == out.len()
            && rows.checked_mul(row_bytes)? == weights.len()
            && blocks.checked_mul(tokens)? == x.len();
        fits.then_some(Self {
            rows,
            row_bytes,
            blocks,
        })
    }
}

/// Form of activations, elements and bytes of a block: as [`GgmlType::geometry`] has it, without
/// the search, for types that are built in.
#[inline(always)]
fn form(ty: GgmlType) -> Option<(ActivationKind, usize, usize)> {
    Some(match ty {
        GgmlType::F32 if built_in::F32 => (ActivationKind::F32, 1, 4),
        GgmlType::F16 if built_in::F16 => (ActivationKind::F32, 1, 2),
        GgmlType::BF16 if built_in::BF16 => (ActivationKind::F32, 1, 2),
        GgmlType::Q8_0 if built_in::Q8_0 => (ActivationKind::Q8, 32, 34),
        GgmlType::Q4_0 if built_in::Q4_0 => (ActivationKind::Q8, 32, 18),
        GgmlType::IQ4_NL if built_in::IQ4_NL => (ActivationKind::Q8, 32, 18),
        GgmlType::Q4_1 if built_in::Q4_1 => (ActivationKind::Q8, 32, 20),
        GgmlType::Q5_0 if built_in::Q5_0 => (ActivationKind::Q8, 32, 22),
        GgmlType::Q5_1 if built_in::Q5_1 => (ActivationKind::Q8, 32, 24),
        GgmlType::Q2_K if built_in::Q2_K => (ActivationKind::Q8K, 256, 84),
        GgmlType::Q3_K if built_in::Q3_K => (ActivationKind::Q8K, 256, 110),
        GgmlType::Q4_K if built_in::Q4_K => (ActivationKind::Q8K, 256, 144),
        GgmlType::Q5_K if built_in::Q5_K => (ActivationKind::Q8K, 256, 176),
        GgmlType::Q6_K if built_in::Q6_K => (ActivationKind::Q8K, 256, 210),
        _ => return None,
    })
}

/// Whether this processor has AVX-VNNI; the system keeps its registers if it keeps those of AVX2.
#[cfg(target_arch = "x86_64")]
fn has_avx_vnni() -> bool {
    #[cfg(any(test, feature = "std"))]
    let found = {
        // Leaf 7.1 exists if leaf 7.0 says so in EAX; AVX-VNNI is bit 4 of its EAX.
        #[allow(unused_unsafe)] // Safe in newer Rust.
        // SAFETY: every processor with AVX2 has CPUID and leaf 7.
        unsafe {
            use core::arch::x86_64::__cpuid_count;
            __cpuid_count(7, 0).eax >= 1 && __cpuid_count(7, 1).eax & (1 << 4) != 0
        }
    };
    #[cfg(not(any(test, feature = "std")))]
    let found = cfg!(target_feature = "avxvnni");
    found
}

/// Whether this processor has what the back ends for x86-64 are written in.
#[cfg(target_arch = "x86_64")]
fn has_avx2() -> bool {
    #[cfg(any(test, feature = "std"))]
    let found = std::is_x86_feature_detected!("avx2") && std::is_x86_feature_detected!("f16c");
    #[cfg(not(any(test, feature = "std")))]
    let found = cfg!(all(target_feature = "avx2", target_feature = "f16c"));
    found
}

/// Whether this processor has the dot product extension.
#[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
fn has_dotprod() -> bool {
    #[cfg(all(any(test, feature = "std"), target_os = "linux"))]
    let found = std::arch::is_aarch64_feature_detected!("dotprod");
    #[cfg(not(all(any(test, feature = "std"), target_os = "linux")))]
    let found = cfg!(target_feature = "dotprod");
    found
}

impl Backend {
    /// Plain Rust, the definition of every result; everywhere but where `SMIDGEN_BACKEND` names the
    /// only one that is [built in](crate::built_in), which then is used instead.
    pub const SCALAR: Self = Self(Kind::Scalar);

    /// The fastest one.
    #[must_use]
    pub fn best() -> Self {
        Self::available().last().unwrap_or(Self::SCALAR)
    }

    /// All that can be run here, the slowest first.
    pub fn available() -> impl Iterator<Item = Self> {
        let found = [
            Some(Kind::Scalar),
            #[cfg(target_arch = "x86_64")]
            has_avx2().then_some(Kind::Avx2),
            #[cfg(target_arch = "x86_64")]
            (has_avx2() && has_avx_vnni()).then_some(Kind::AvxVnni),
            #[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
            Some(Kind::Neon),
            #[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
            has_dotprod().then_some(Kind::Dotprod),
            #[cfg(all(target_arch = "arm", feature = "dsp", not(feature = "mve")))]
            Some(Kind::Dsp),
            #[cfg(all(target_arch = "arm", feature = "mve"))]
            Some(Kind::Mve),
            #[cfg(all(target_arch = "arm", feature = "armv6m"))]
            Some(Kind::Armv6m),
        ];
        let is_built_in = |kind: &Kind| ONLY.is_none_or(|only| only == *kind);
        found.into_iter().flatten().filter(is_built_in).map(Self)
    }

    /// Its name, lower case.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.kind().name()
    }

    /// Where there is one back end, that: then it is constant, and the code of others is dead.
    #[inline(always)]
    pub(super) fn kind(self) -> Kind {
        ONLY.unwrap_or(self.0)
    }

    /// The one with this name, if it can be run here.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::available().find(|backend| backend.name() == name)
    }

    /// Quantizes each 32 numbers of `x` into one block of `out`; one or more rows.
    ///
    /// Numbers that are no whole block, or have no block in `out`, are left out.
    pub fn quantize_q8(self, x: &[f32], out: &mut [Q8Act]) {
        match self.kind() {
            Kind::Scalar => scalar::quantize_q8(x, out),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: this kind exists only where its instructions were found.
            Kind::Avx2 | Kind::AvxVnni => unsafe { x86::quantize_q8(x, out) },
            #[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
            Kind::Neon | Kind::Dotprod => neon::quantize_q8(x, out),
            #[cfg(all(target_arch = "arm", feature = "dsp", not(feature = "mve")))]
            // SAFETY: whoever turned the feature on says that the instructions are there.
            Kind::Dsp => unsafe { dsp::quantize_q8(x, out) },
            #[cfg(all(target_arch = "arm", feature = "mve"))]
            // SAFETY: whoever turned the feature on says that the instructions are there.
            Kind::Mve => unsafe { mve::quantize_q8(x, out) },
            #[cfg(all(target_arch = "arm", feature = "armv6m"))]
            Kind::Armv6m => scalar::quantize_q8(x, out),
        }
    }

    /// Quantizes each 256 numbers of `x` into one block of `out`; one or more rows.
    ///
    /// Numbers that are no whole block, or have no block in `out`, are left out.
    pub fn quantize_q8k(self, x: &[f32], out: &mut [Q8KAct]) {
        match self.kind() {
            Kind::Scalar => scalar::quantize_q8k(x, out),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: this kind exists only where its instructions were found.
            Kind::Avx2 | Kind::AvxVnni => unsafe { x86::quantize_q8k(x, out) },
            #[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
            Kind::Neon | Kind::Dotprod => neon::quantize_q8k(x, out),
            #[cfg(all(target_arch = "arm", feature = "dsp", not(feature = "mve")))]
            Kind::Dsp => scalar::quantize_q8k(x, out),
            #[cfg(all(target_arch = "arm", feature = "mve"))]
            Kind::Mve => scalar::quantize_q8k(x, out),
            #[cfg(all(target_arch = "arm", feature = "armv6m"))]
            Kind::Armv6m => scalar::quantize_q8k(x, out),
        }
    }

    /// Matrix times vectors: `out[t * rows + r]` becomes the dot product of weight row `r` and
    /// activation row `t`.
    ///
    /// `weights` are `rows` rows of `cols` elements of type `ty` at any address, `x` are `tokens`
    /// rows of `cols` activations in the form that [`activation_kind`](crate::quant::activation_kind)
    /// names, and `out` has `rows * tokens` numbers, which says how many rows there are.
    ///
    /// Lengths that do not belong together, and a type that has no kernels or whose kernels are not
    /// [built in](crate::built_in), compute nothing: all of `out` becomes NaN, so that no wrong
    /// number can pass for a result.
    pub fn matmul(
        self,
        ty: GgmlType,
        weights: &[u8],
        cols: usize,
        x: Activations<'_>,
        tokens: usize,
        out: &mut [f32],
    ) {
        let Some(shape) = Shape::new(ty, weights, cols, x, tokens, out) else {
            out.fill(f32::NAN);
            return;
        };
        if shape.blocks == 0 {
            out.fill(0.0); // Back ends need not think of rows without bytes.
            return;
        }
        match self.kind() {
            Kind::Scalar => scalar::matmul(ty, weights, shape, x, out),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: this kind exists only where its instructions were found.
            Kind::Avx2 => unsafe { x86::matmul::<x86::Avx2>(ty, weights, shape, x, out) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: this kind exists only where its instructions were found.
            Kind::AvxVnni => unsafe { x86::matmul::<x86::AvxVnni>(ty, weights, shape, x, out) },
            #[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
            // SAFETY: every processor of this target has NEON.
            Kind::Neon => unsafe { neon::matmul::<neon::Neon>(ty, weights, shape, x, out) },
            #[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
            // SAFETY: this kind exists only where its instructions were found.
            Kind::Dotprod => unsafe {
                neon::matmul::<neon::Dotprod>(ty, weights, shape, x, out);
            },
            #[cfg(all(target_arch = "arm", feature = "dsp", not(feature = "mve")))]
            // SAFETY: whoever turned the feature on says that the instructions are there, and the
            // shape is that of the slices.
            Kind::Dsp => unsafe { dsp::matmul(ty, weights, shape, x, out) },
            #[cfg(all(target_arch = "arm", feature = "mve"))]
            // SAFETY: whoever turned the feature on says that the instructions are there, and the
            // shape is that of the slices.
            Kind::Mve => unsafe { mve::matmul(ty, weights, shape, x, out) },
            #[cfg(all(target_arch = "arm", feature = "armv6m"))]
            Kind::Armv6m => armv6m::matmul(ty, weights, shape, x, out),
        }
    }
}
