//! Quantized activations: what the rows of quantized weights are multiplied with.

use zerocopy::{FromBytes, IntoBytes, KnownLayout};

use crate::gguf::GgmlType;

/// 32 activations as signed bytes with one scale: element `i` is `d * qs[i]`.
///
/// Unlike in ggml's `Q8_0` and `Q8_1` the scale is an f32 that is not rounded to f16, and a quant is
/// never -128.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
// So that blocks can be cut out of any memory.
#[derive(FromBytes, IntoBytes, KnownLayout)]
#[repr(C)]
pub struct Q8Act {
    /// Scale: the largest magnitude divided by 127.
    pub d: f32,
    /// Sum of the quants.
    pub sum: i32,
    qs: Stored,
}

/// The quants as the kernels of this target read them: in order.
#[cfg(not(any(
    all(target_arch = "arm", feature = "dsp", not(feature = "mve")),
    all(target_arch = "arm", feature = "armv6m")
)))]
mod stored {
    pub(super) type Stored = [i8; 32];
    pub(super) const ZERO: Stored = [0; 32];

    #[inline(always)]
    pub(super) fn store(qs: [i8; 32]) -> Stored {
        qs
    }

    /// Quant `i`, which is below 32.
    #[inline(always)]
    pub(super) fn load(stored: &Stored, i: usize) -> i32 {
        i32::from(stored[i])
    }
}

/// The quants as the kernels of this target read them: as pairs of halfwords in the order in which
/// SXTB16 takes four bytes apart, 0 and 2, 1 and 3.
#[cfg(all(target_arch = "arm", feature = "dsp", not(feature = "mve")))]
mod stored {
    pub(super) type Stored = [i16; 32];
    pub(super) const ZERO: Stored = [0; 32];

    #[inline(always)]
    pub(super) fn store(qs: [i8; 32]) -> Stored {
        core::array::from_fn(|at| i16::from(qs[place(at)]))
    }

    /// Quant `i`, which is below 32.
    #[inline(always)]
    pub(super) fn load(stored: &Stored, i: usize) -> i32 {
        i32::from(stored[place(i)])
    }

    /// Where quant `i` is; the exchange of the middle two of four is its own inverse.
    #[inline(always)]
    fn place(i: usize) -> usize {
        match i & 3 {
            1 => i + 1,
            2 => i - 1,
            _ => i,
        }
    }
}

/// The quants as the kernels of this target read them: word `j` is `qs[j] * 2^16 + qs[j + 16]`.
#[cfg(all(target_arch = "arm", feature = "armv6m"))]
mod stored {
    pub(super) type Stored = [u32; 16];
    pub(super) const ZERO: Stored = [0; 16];

    #[inline(always)]
    pub(super) fn store(qs: [i8; 32]) -> Stored {
        let word = |q: i8| i32::from(q).cast_unsigned();
        core::array::from_fn(|j| (word(qs[j]) << 16).wrapping_add(word(qs[j + 16])))
    }

    /// Quant `i`, which is below 32.
    #[inline(always)]
    pub(super) fn load(stored: &Stored, i: usize) -> i32 {
        let word = stored[i % 16];
        #[allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap)] // Meant.
        let low = i32::from(word as i16);
        if i < 16 {
            word.wrapping_sub(low.cast_unsigned()).cast_signed() >> 16
        } else {
            low
        }
    }
}

use stored::{Stored, load, store};

impl Q8Act {
    /// Activations in a block.
    pub const LEN: usize = 32;

    /// 32 zeros.
    pub const ZERO: Self = Self {
        d: 0.0,
        sum: 0,
        qs: stored::ZERO,
    };

    /// A block of these quants; -128 becomes -127.
    #[must_use]
    pub fn new(d: f32, qs: [i8; 32]) -> Self {
        let qs = qs.map(|q| q.max(-127));
        let sum = qs.iter().map(|&q| i32::from(q)).sum();
        let qs = store(qs);
        Self { d, sum, qs }
    }

    /// A block whose parts are known to belong together.
    #[cfg(any(
        target_arch = "x86_64",
        all(target_arch = "aarch64", target_feature = "neon")
    ))]
    #[inline(always)]
    pub(crate) fn from_parts(d: f32, sum: i32, qs: [i8; 32]) -> Self {
        Self { d, sum, qs }
    }

    /// The quants as they are stored, for who keeps `sum` right.
    #[cfg(all(target_arch = "arm", any(feature = "dsp", feature = "mve")))]
    #[inline(always)]
    pub(crate) fn stored_mut(&mut self) -> &mut Stored {
        &mut self.qs
    }

    /// The quants as they are stored.
    #[cfg(all(target_arch = "arm", feature = "armv6m"))]
    #[inline(always)]
    pub(crate) fn stored(&self) -> &Stored {
        &self.qs
    }

    /// Quant `i`, -127..=127; 0 past the end.
    #[inline]
    #[must_use]
    pub fn get(&self, i: usize) -> i32 {
        if i < Self::LEN { load(&self.qs, i) } else { 0 }
    }

    /// The quants in order.
    #[inline(always)]
    pub(crate) fn quants(&self) -> impl Iterator<Item = i32> + '_ {
        (0..Self::LEN).map(|i| load(&self.qs, i))
    }

    /// The quants in order, where they are stored so.
    #[cfg(any(
        target_arch = "x86_64",
        all(target_arch = "aarch64", target_feature = "neon")
    ))]
    #[inline(always)]
    pub(crate) fn qs(&self) -> &[i8; 32] {
        &self.qs
    }
}

/// 256 activations as signed bytes with one scale, for weights of a K type.
#[derive(Clone, Copy, Debug, PartialEq, FromBytes, IntoBytes, KnownLayout)]
#[repr(C)]
pub struct Q8KAct {
    /// Scale: the largest magnitude divided by 127.
    pub d: f32,
    sums: [i16; 16],
    qs: [i8; 256],
}

impl Q8KAct {
    /// Activations in a block.
    pub const LEN: usize = 256;

    /// 256 zeros.
    pub const ZERO: Self = Self {
        d: 0.0,
        sums: [0; 16],
        qs: [0; 256],
    };

    /// A block of these quants; -128 becomes -127.
    #[must_use]
    pub fn new(d: f32, qs: [i8; 256]) -> Self {
        let qs = qs.map(|q| q.max(-127));
        let mut sums = [0; 16];
        let (groups, _) = qs.as_chunks::<16>();
        for (sum, group) in sums.iter_mut().zip(groups) {
            *sum = group.iter().map(|&q| i16::from(q)).sum();
        }
        Self { d, sums, qs }
    }

    /// Quant `i`, -127..=127; 0 past the end.
    #[inline]
    #[must_use]
    pub fn get(&self, i: usize) -> i32 {
        self.qs.get(i).map_or(0, |&q| i32::from(q))
    }

    /// The sum of quants `16 * i..16 * i + 16`; 0 past the end.
    #[inline]
    #[must_use]
    pub fn sum(&self, i: usize) -> i32 {
        self.sums.get(i).map_or(0, |&sum| i32::from(sum))
    }

    /// The quants in order.
    #[inline(always)]
    pub(crate) fn qs(&self) -> &[i8; 256] {
        &self.qs
    }

    /// The sums of 16 quants each.
    #[inline(always)]
    pub(crate) fn sums(&self) -> &[i16; 16] {
        &self.sums
    }
}

impl Default for Q8KAct {
    fn default() -> Self {
        Self::ZERO
    }
}

/// The form in which a type of weights takes its activations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum ActivationKind {
    /// As they are.
    F32,
    /// Blocks of 32, [`Q8Act`].
    Q8,
    /// Blocks of 256, [`Q8KAct`].
    Q8K,
}

/// Activations of one or more rows, one row after the other.
#[derive(Clone, Copy, Debug)]
pub enum Activations<'a> {
    /// As they are.
    F32(&'a [f32]),
    /// Blocks of 32.
    Q8(&'a [Q8Act]),
    /// Blocks of 256.
    Q8K(&'a [Q8KAct]),
}

impl Activations<'_> {
    /// How many blocks, or numbers if they are f32.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::F32(x) => x.len(),
            Self::Q8(x) => x.len(),
            Self::Q8K(x) => x.len(),
        }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The form.
    #[must_use]
    pub fn kind(&self) -> ActivationKind {
        match self {
            Self::F32(_) => ActivationKind::F32,
            Self::Q8(_) => ActivationKind::Q8,
            Self::Q8K(_) => ActivationKind::Q8K,
        }
    }
}

/// The form of activations that rows of type `ty` are multiplied with; `None` for a type that
/// has no kernels.
#[must_use]
pub fn activation_kind(ty: GgmlType) -> Option<ActivationKind> {
    Some(match ty {
        GgmlType::F32 | GgmlType::F16 | GgmlType::BF16 => ActivationKind::F32,
        GgmlType::Q8_0
        | GgmlType::Q4_0
        | GgmlType::Q4_1
        | GgmlType::Q5_0
        | GgmlType::Q5_1
        | GgmlType::IQ4_NL => ActivationKind::Q8,
        GgmlType::Q2_K | GgmlType::Q3_K | GgmlType::Q4_K | GgmlType::Q5_K | GgmlType::Q6_K => {
            ActivationKind::Q8K
        }
        _ => return None,
    })
}
