//! What goes where in the memory of a board.

use smidgen_core::gguf::Gguf;
use smidgen_core::model::Model;
use smidgen_core::session::SessionOptions;

use crate::{Footprint, Memory, Region};

/// Something that takes memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// What it is.
    pub kind: PartKind,
    /// How much it takes.
    pub bytes: u64,
}

/// What takes memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PartKind {
    /// Code, constants and first values of variables: at most.
    Code,
    /// The GGUF.
    Model,
    /// Keys and values.
    Kv,
    /// The session's other buffers.
    Activations,
    /// The vocabulary's index, and what a prompt needs.
    Text,
    /// All other variables: at most.
    Variables,
    /// What is left for the stack.
    Stack,
}

impl PartKind {
    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Code => "code",
            Self::Model => "model",
            Self::Kv => "kv",
            Self::Activations => "activations",
            Self::Text => "text",
            Self::Variables => "variables",
            Self::Stack => "stack",
        }
    }
}

/// A region and what goes into it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The region.
    pub region: Region,
    /// What goes there, in order.
    pub parts: Vec<Part>,
}

impl Place {
    /// Bytes of all parts.
    #[must_use]
    pub fn used(&self) -> u64 {
        let bytes = self.parts.iter().map(|part| part.bytes);
        bytes.fold(0, u64::saturating_add)
    }

    /// Bytes that are left; `None` if there are too few.
    #[must_use]
    pub fn free(&self) -> Option<u64> {
        self.region.len.checked_sub(self.used())
    }
}

/// What goes where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Each region once: of code, of the model, of variables.
    pub places: Vec<Place>,
}

impl Placement {
    /// The places of a file of `model_bytes` and of the buffers for it.
    #[must_use]
    pub fn new(memory: &Memory, footprint: &Footprint, model_bytes: u64) -> Self {
        let bytes = |bytes: usize| u64::try_from(bytes).unwrap_or(u64::MAX);
        let activations = bytes(footprint.activation_bytes(memory));
        let text = bytes(footprint.work_bytes(memory)).saturating_sub(activations);
        let mut places: Vec<Place> = Vec::new();
        for (region, kind, bytes) in [
            (memory.code, PartKind::Code, memory.code_bytes),
            (memory.model, PartKind::Model, model_bytes),
            (memory.ram, PartKind::Kv, bytes(footprint.kv_bytes())),
            (memory.ram, PartKind::Activations, activations),
            (memory.ram, PartKind::Text, text),
            (
                memory.ram,
                PartKind::Variables,
                footprint.variable_bytes(memory),
            ),
            (memory.ram, PartKind::Stack, memory.stack_bytes),
        ] {
            let part = Part { kind, bytes };
            match places.iter_mut().find(|place| place.region == region) {
                Some(place) => place.parts.push(part),
                None => places.push(Place {
                    region,
                    parts: vec![part],
                }),
            }
        }
        Self { places }
    }

    /// Whether every region has room for what goes there.
    #[must_use]
    pub fn fits(&self) -> bool {
        self.places.iter().all(|place| place.free().is_some())
    }

    /// The place that has parts of this kind.
    #[must_use]
    pub fn place_of(&self, kind: PartKind) -> Option<&Place> {
        let has = |place: &&Place| place.parts.iter().any(|part| part.kind == kind);
        self.places.iter().find(has)
    }
}

/// The most positions, up to `most`, with which everything in the region of variables fits; `None`
/// if it does not with one.
#[must_use]
pub fn largest_window(
    memory: &Memory,
    model: &Model<'_>,
    gguf: &Gguf<'_>,
    model_bytes: u64,
    options: SessionOptions,
    most: usize,
) -> Option<usize> {
    let fits = |window: usize| {
        let options = SessionOptions { window, ..options };
        let footprint = Footprint::new(model, gguf, memory, options);
        let placement = Placement::new(memory, &footprint, model_bytes);
        let place = placement.place_of(PartKind::Kv);
        place.is_some_and(|place| place.free().is_some())
    };
    // More positions never take less memory. `fits` is known to hold for `low`, and not for `high`.
    let (mut low, mut high) = (0, most.saturating_add(1));
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if fits(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    (low > 0).then_some(low)
}

/// The most bytes that a GGUF can have in its region; `None` if there is no room for any.
#[must_use]
pub fn room_for_model(memory: &Memory, footprint: &Footprint) -> Option<u64> {
    let placement = Placement::new(memory, footprint, 0);
    placement
        .place_of(PartKind::Model)?
        .free()
        .filter(|&free| free > 0)
}
