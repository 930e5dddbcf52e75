//! The memory of a session, from the heap.

use std::collections::TryReserveError;

use smidgen_core::kv_cache::{KvBuffers, KvType};
use smidgen_core::quant::{Q8Act, Q8KAct};
use smidgen_core::session::{Buffers, Plan, SessionOptions};

/// All buffers of a session.
#[derive(Debug)]
pub struct SessionMemory {
    floats: Vec<f32>,
    q8: Vec<Q8Act>,
    q8k: Vec<Q8KAct>,
    ints: Vec<i16>,
    steps: Vec<u64>,
    kv: Kv,
}

#[derive(Debug)]
enum Kv {
    F32(Vec<f32>),
    F16(Vec<u16>),
    Q8 { qs: Vec<i8>, scales: Vec<u16> },
}

impl SessionMemory {
    /// Memory as long as `plan`, which was made for `options`, asks for.
    #[must_use]
    pub fn new(plan: &Plan, options: &SessionOptions) -> Self {
        let elements = plan.kv_elements;
        Self {
            floats: vec![0.0; plan.floats],
            q8: vec![Q8Act::ZERO; plan.q8],
            q8k: vec![Q8KAct::ZERO; plan.q8k],
            ints: vec![0; plan.ints],
            steps: vec![0; plan.steps],
            kv: match options.kv {
                KvType::F32 => Kv::F32(vec![0.0; elements]),
                KvType::F16 => Kv::F16(vec![0; elements]),
                KvType::Q8 | KvType::Q8Row => Kv::Q8 {
                    qs: vec![0; elements],
                    scales: vec![0; plan.kv_scales],
                },
            },
        }
    }

    /// As [`new`](Self::new), for plans that may ask for more than there is.
    ///
    /// # Errors
    /// That much memory cannot be had.
    pub fn try_new(plan: &Plan, options: &SessionOptions) -> Result<Self, TryReserveError> {
        // Asked for at once and given back: zeroed memory that is not touched costs nothing only
        // if it is allocated as such, and there is no fallible way to do that.
        Vec::<u8>::new().try_reserve_exact(plan.bytes())?;
        Ok(Self::new(plan, options))
    }

    /// The buffers, for [`Session::new`](smidgen_core::session::Session::new).
    pub fn buffers(&mut self) -> Buffers<'_> {
        Buffers {
            floats: &mut self.floats,
            q8: &mut self.q8,
            q8k: &mut self.q8k,
            ints: &mut self.ints,
            steps: &mut self.steps,
            kv: match &mut self.kv {
                Kv::F32(elements) => KvBuffers::F32(elements),
                Kv::F16(elements) => KvBuffers::F16(elements),
                Kv::Q8 { qs, scales } => KvBuffers::Q8 { qs, scales },
            },
        }
    }
}
