//! Keys and values of past positions in buffers of a fixed size.
//!
//! Rows lie head by head: for each layer first keys, then values, for each KV head the rows of all
//! slots one after the other. The position `p` has the slot `p % window`.

use crate::built_in;
use crate::kernels::{AttentionScratch, Backend, MAX_HEAD_DIM_Q8, Q8Rows, Queries, math};
use crate::message::{Message, display_message};
use crate::model::Hyperparameters;
use crate::quant::f16_to_f32;

/// The bits of infinity, and of a number that is none.
const INFINITE_F16: u16 = 0x7c00;
const NAN_F16: u16 = 0x7e00;

/// How keys and values are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum KvType {
    /// Four bytes an element.
    F32,
    /// Two bytes an element.
    F16,
    /// A byte an element and an f16 scale for each head and position.
    Q8,
    /// A byte an element and one f16 scale for all heads of a position.
    Q8Row,
}

impl KvType {
    /// All types, from many bytes to few.
    pub const ALL: [Self; 4] = [Self::F32, Self::F16, Self::Q8, Self::Q8Row];

    /// Its name on command lines.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::Q8 => "q8",
            Self::Q8Row => "q8row",
        }
    }

    /// The type of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|ty| ty.name() == name)
    }
}

impl core::fmt::Display for KvType {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.name())
    }
}

/// The numbers that a cache's layout follows from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct KvLayout {
    /// How elements are stored.
    pub ty: KvType,
    /// Layers.
    pub n_layers: usize,
    /// KV heads.
    pub n_kv_heads: usize,
    /// Elements of a head.
    pub head_dim: usize,
    /// Positions that are kept.
    pub window: usize,
}

impl KvLayout {
    /// The layout for a model.
    #[must_use]
    pub const fn new(hp: &Hyperparameters, ty: KvType, window: usize) -> Self {
        Self {
            ty,
            n_layers: hp.n_layers,
            n_kv_heads: hp.n_kv_heads,
            head_dim: hp.head_dim,
            window,
        }
    }

    /// Elements of all keys and values; `None` if the number overflows.
    #[must_use]
    pub const fn elements(&self) -> Option<usize> {
        // No `?` in const functions.
        let Some(row) = self.n_kv_heads.checked_mul(self.head_dim) else {
            return None;
        };
        let Some(layer) = row.checked_mul(self.window) else {
            return None;
        };
        let Some(all) = layer.checked_mul(self.n_layers) else {
            return None;
        };
        all.checked_mul(2)
    }

    /// Scales of all keys and values; 0 for types without.
    #[must_use]
    pub const fn scales(&self) -> usize {
        let columns = match self.ty {
            KvType::F32 | KvType::F16 => return 0,
            KvType::Q8 => self.n_kv_heads,
            KvType::Q8Row => 1,
        };
        2 * self.n_layers * columns * self.window
    }

    /// Bytes of the whole cache; `None` if the number overflows.
    #[must_use]
    pub const fn bytes(&self) -> Option<usize> {
        let width = match self.ty {
            KvType::F32 => 4,
            KvType::F16 => 2,
            KvType::Q8 | KvType::Q8Row => 1,
        };
        let Some(elements) = self.elements() else {
            return None;
        };
        let Some(elements) = elements.checked_mul(width) else {
            return None;
        };
        elements.checked_add(2 * self.scales())
    }

    /// Index of the first row of a head's keys (`part` 0) or values (`part` 1), in rows.
    const fn first_row(&self, layer: usize, part: usize, head: usize) -> usize {
        ((layer * 2 + part) * self.n_kv_heads + head) * self.window
    }

    /// Index of the first scale that belongs to a head's keys or values.
    const fn first_scale(&self, layer: usize, part: usize, head: usize) -> usize {
        let (columns, column) = match self.ty {
            KvType::Q8Row => (1, 0),
            _ => (self.n_kv_heads, head),
        };
        ((layer * 2 + part) * columns + column) * self.window
    }
}

/// Buffers for a cache, of the lengths that [`KvLayout`] tells.
#[derive(Debug)]
pub enum KvBuffers<'b> {
    /// For [`KvType::F32`].
    F32(&'b mut [f32]),
    /// For [`KvType::F16`], bits.
    F16(&'b mut [u16]),
    /// For [`KvType::Q8`] and [`KvType::Q8Row`].
    Q8 {
        /// The elements.
        qs: &'b mut [i8],
        /// The bits of f16 scales.
        scales: &'b mut [u16],
    },
}

/// Why buffers make no cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum KvError {
    /// The buffers are for another type.
    Type,
    /// A buffer is too small.
    TooSmall {
        /// Elements, or scales, that are needed.
        needed: usize,
        /// Elements, or scales, that were given.
        given: usize,
    },
    /// The window is 0, or the cache is larger than can be addressed.
    Window,
    /// Heads of more than 512 elements cannot be stored as bytes.
    HeadDim,
    /// The type is not [built in](crate::built_in).
    NotBuiltIn {
        /// The type.
        ty: KvType,
    },
}

impl KvError {
    pub(crate) fn describe(&self, message: &mut Message<'_>) {
        match self {
            Self::Type => message.say("the buffers of the KV cache are for another type"),
            Self::TooSmall { needed, given } => message
                .say("the KV cache needs # elements, # were given")
                .sizes([*needed, *given]),
            Self::Window => message.say("the window must hold a position and fit into memory"),
            Self::HeadDim => {
                message.say("heads of more than 512 elements need an f16 or f32 cache")
            }
            Self::NotBuiltIn { ty } => message
                .say(
                    "no KV cache of type $ is built in: SMIDGEN_KV_TYPES was $ when the program \
                     was compiled",
                )
                .words([ty.name(), built_in::KV_TYPES.unwrap_or_default()]),
        };
    }
}

display_message!(KvError);

/// A cache of keys and values.
#[derive(Debug)]
pub struct KvCache<'b> {
    layout: KvLayout,
    buffers: KvBuffers<'b>,
}

impl<'b> KvCache<'b> {
    /// A cache in these buffers; what they hold does not matter.
    ///
    /// # Errors
    /// The buffers do not fit the layout, or its type is not [built in](crate::built_in).
    pub fn new(layout: KvLayout, buffers: KvBuffers<'b>) -> Result<Self, KvError> {
        if !built_in::has_kv_type(layout.ty) {
            return Err(KvError::NotBuiltIn { ty: layout.ty });
        }
        let needed = layout
            .elements()
            .filter(|&n| n > 0)
            .ok_or(KvError::Window)?;
        if layout.bytes().is_none() {
            return Err(KvError::Window);
        }
        let given = match (&buffers, layout.ty) {
            (KvBuffers::F32(elements), KvType::F32) => elements.len(),
            (KvBuffers::F16(elements), KvType::F16) => elements.len(),
            (KvBuffers::Q8 { qs, scales }, KvType::Q8 | KvType::Q8Row) => {
                if layout.head_dim > MAX_HEAD_DIM_Q8 {
                    return Err(KvError::HeadDim);
                }
                let (needed, given) = (layout.scales(), scales.len());
                if given < needed {
                    return Err(KvError::TooSmall { needed, given });
                }
                qs.len()
            }
            _ => return Err(KvError::Type),
        };
        if given < needed {
            return Err(KvError::TooSmall { needed, given });
        }
        Ok(Self { layout, buffers })
    }

    /// The layout.
    #[must_use]
    pub fn layout(&self) -> &KvLayout {
        &self.layout
    }

    /// Stores keys and values of all heads of a layer in a slot.
    #[inline(never)] // A frame of its own: boards have little stack.
    pub(crate) fn store(
        &mut self,
        backend: Backend,
        layer: usize,
        slot: usize,
        keys: &[f32],
        values: &[f32],
    ) {
        let layout = self.layout;
        let head_dim = layout.head_dim;
        for (part, row) in [keys, values].into_iter().enumerate() {
            let whole_row = match layout.ty {
                KvType::Q8Row => Some(q8_scale(backend, row)),
                _ => None,
            };
            for (head, x) in row.chunks_exact(head_dim).enumerate() {
                let start = (layout.first_row(layer, part, head) + slot) * head_dim;
                let range = start..start + head_dim;
                match &mut self.buffers {
                    KvBuffers::F32(elements) if built_in::KV_F32 => {
                        if let Some(to) = elements.get_mut(range) {
                            to.copy_from_slice(x);
                        }
                    }
                    KvBuffers::F16(elements) if built_in::KV_F16 => {
                        backend.to_f16(x, elements.get_mut(range).unwrap_or_default());
                    }
                    KvBuffers::Q8 { qs, scales } if built_in::KV_BYTES => {
                        let mut scale = whole_row.unwrap_or_else(|| q8_scale(backend, x));
                        let key = scales.get(layout.first_scale(layer, 0, head) + slot);
                        if part == 1 && key.is_some_and(|&key| key >= INFINITE_F16) {
                            // Scores are integers: what is not finite must show in the values.
                            scale = NAN_F16;
                        }
                        let at = layout.first_scale(layer, part, head) + slot;
                        if let Some(to) = scales.get_mut(at) {
                            *to = scale;
                        }
                        let out = qs.get_mut(range).unwrap_or_default();
                        backend.quantize_bytes(x, f16_to_f32(scale), out);
                    }
                    // Not built in: there is no such cache.
                    _ => {}
                }
            }
        }
    }

    /// Attention of the query heads that share a KV head, `(layer, head)`, over the first
    /// `positions` slots.
    #[inline(never)] // A frame of its own: boards have little stack.
    pub(crate) fn attend(
        &self,
        backend: Backend,
        (layer, head): (usize, usize),
        q: &[f32],
        positions: usize,
        scratch: AttentionScratch<'_>,
        out: &mut [f32],
    ) {
        let layout = &self.layout;
        let head_dim = layout.head_dim;
        let rows = |part| {
            let first = layout.first_row(layer, part, head) * head_dim;
            first..first + positions * head_dim
        };
        let (keys, values) = (rows(0), rows(1));
        let queries = Queries {
            q,
            head_dim,
            positions,
            scale: 1.0 / root(head_dim),
        };
        match &self.buffers {
            KvBuffers::F32(elements) if built_in::KV_F32 => {
                let keys = elements.get(keys).unwrap_or_default();
                let values = elements.get(values).unwrap_or_default();
                backend.attend_f32(queries, keys, values, scratch.scores, out);
            }
            KvBuffers::F16(elements) if built_in::KV_F16 => {
                let keys = elements.get(keys).unwrap_or_default();
                let values = elements.get(values).unwrap_or_default();
                backend.attend_f16(queries, keys, values, scratch.scores, out);
            }
            KvBuffers::Q8 { qs, scales } if built_in::KV_BYTES => {
                let rows = |part, range: core::ops::Range<usize>| {
                    let first = layout.first_scale(layer, part, head);
                    Q8Rows {
                        qs: qs.get(range).unwrap_or_default(),
                        scales: scales.get(first..first + positions).unwrap_or_default(),
                    }
                };
                let (keys, values) = (rows(0, keys), rows(1, values));
                backend.attend_q8(queries, keys, values, scratch, out);
            }
            // Not built in: there is no such cache.
            _ => {}
        }
    }

    /// Bytes that a position takes in a saved prefix.
    pub(crate) fn saved_position_bytes(&self) -> usize {
        let one = KvLayout {
            window: 1,
            ..self.layout
        };
        one.bytes().unwrap_or(usize::MAX)
    }

    /// Writes the first `positions` slots, little-endian: every run of rows, then every run of
    /// scales.
    pub(crate) fn save(&self, positions: usize, mut out: &mut [u8]) {
        let mut put = |bytes: &[u8]| {
            if let Some((to, rest)) = core::mem::take(&mut out).split_at_mut_checked(bytes.len()) {
                to.copy_from_slice(bytes);
                out = rest;
            }
        };
        let used = positions * self.layout.head_dim;
        let run = self.layout.window * self.layout.head_dim;
        let total = self.layout.elements().unwrap_or(0);
        match &self.buffers {
            KvBuffers::F32(all) if built_in::KV_F32 => {
                for x in used_parts(all, total, run, used).flatten() {
                    put(&x.to_le_bytes());
                }
            }
            KvBuffers::F16(all) if built_in::KV_F16 => {
                for x in used_parts(all, total, run, used).flatten() {
                    put(&x.to_le_bytes());
                }
            }
            KvBuffers::Q8 { qs, scales } if built_in::KV_BYTES => {
                for x in used_parts(qs, total, run, used).flatten() {
                    put(&x.to_le_bytes());
                }
                let (total, window) = (self.layout.scales(), self.layout.window);
                for x in used_parts(scales, total, window, positions).flatten() {
                    put(&x.to_le_bytes());
                }
            }
            // Not built in: there is no such cache.
            _ => {}
        }
    }

    /// Reads what [`save`](Self::save) wrote for as many positions.
    pub(crate) fn restore(&mut self, positions: usize, mut bytes: &[u8]) {
        let used = positions * self.layout.head_dim;
        let run = self.layout.window * self.layout.head_dim;
        let total = self.layout.elements().unwrap_or(0);
        let window = self.layout.window;
        let all_scales = self.layout.scales();
        match &mut self.buffers {
            KvBuffers::F32(all) if built_in::KV_F32 => {
                for x in used_parts_mut(all, total, run, used).flatten() {
                    *x = f32::from_le_bytes(take(&mut bytes));
                }
            }
            KvBuffers::F16(all) if built_in::KV_F16 => {
                for x in used_parts_mut(all, total, run, used).flatten() {
                    *x = u16::from_le_bytes(take(&mut bytes));
                }
            }
            KvBuffers::Q8 { qs, scales } if built_in::KV_BYTES => {
                for x in used_parts_mut(qs, total, run, used).flatten() {
                    // -128 is no quant: the sums rely on it.
                    *x = i8::from_le_bytes(take(&mut bytes)).max(-127);
                }
                for x in used_parts_mut(scales, all_scales, window, positions).flatten() {
                    *x = u16::from_le_bytes(take(&mut bytes));
                }
            }
            // Not built in: there is no such cache.
            _ => {}
        }
    }
}

/// The first `used` elements of each run.
fn used_parts<T>(all: &[T], total: usize, run: usize, used: usize) -> impl Iterator<Item = &[T]> {
    let runs = all.get(..total).unwrap_or_default().chunks(run.max(1));
    runs.map(move |run| run.get(..used).unwrap_or_default())
}

fn used_parts_mut<T>(
    all: &mut [T],
    total: usize,
    run: usize,
    used: usize,
) -> impl Iterator<Item = &mut [T]> {
    let runs = all.get_mut(..total).unwrap_or_default();
    let runs = runs.chunks_mut(run.max(1));
    runs.map(move |run| run.get_mut(..used).unwrap_or_default())
}

fn take<const N: usize>(bytes: &mut &[u8]) -> [u8; N] {
    match bytes.split_first_chunk::<N>() {
        Some((first, rest)) => {
            *bytes = rest;
            *first
        }
        None => [0; N],
    }
}

/// The scale of a row of bytes, as f16: the largest magnitude divided by 127.
fn q8_scale(backend: Backend, x: &[f32]) -> u16 {
    let amax = f32::from_bits(backend.largest_magnitude(x));
    half::f16::from_f32_const(amax / 127.0).to_bits()
}

#[allow(clippy::cast_precision_loss)] // A head is far below 2^24 elements.
fn root(head_dim: usize) -> f32 {
    math::sqrt(head_dim as f32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::{ints_len, scores_len_q8};

    #[test]
    fn what_is_not_finite_shows_in_the_result() {
        for ty in [KvType::Q8, KvType::Q8Row] {
            let layout = KvLayout {
                ty,
                n_layers: 1,
                n_kv_heads: 1,
                head_dim: 8,
                window: 3,
            };
            // The second is finite, but its scale is no f16.
            for x in [f32::NAN, 1e30, f32::INFINITY] {
                for part in 0..2 {
                    let (mut qs, mut scales) = ([0; 48], [0; 6]);
                    let buffers = KvBuffers::Q8 {
                        qs: &mut qs,
                        scales: &mut scales,
                    };
                    let mut cache = KvCache::new(layout, buffers).unwrap();
                    for slot in 0..3 {
                        let mut rows = [[0.5; 8]; 2];
                        if slot == 1 {
                            rows[part][3] = x;
                        }
                        cache.store(Backend::best(), 0, slot, &rows[0], &rows[1]);
                    }
                    let attend = |positions| {
                        let mut out = [0.0; 16];
                        let scratch = AttentionScratch {
                            scores: &mut [0.0; scores_len_q8(3)],
                            ints: &mut [0; ints_len(8)],
                        };
                        let q = [0.25; 16];
                        cache.attend(Backend::best(), (0, 0), &q, positions, scratch, &mut out);
                        out
                    };
                    assert!(attend(1).iter().all(|&x| (x - 0.5).abs() < 1e-3));
                    let out = attend(3);
                    assert!(out.iter().all(|x| x.is_nan()), "{ty:?} {x} {part}: {out:?}");
                }
            }
        }
    }
}
