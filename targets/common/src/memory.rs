//! The memory of a session, as static buffers whose lengths the build script takes from the plan.

use core::mem::{MaybeUninit, replace, take};

use smidgen_core::kv_cache::KvBuffers;
use smidgen_core::model::Layer;
use smidgen_core::quant::{Q8Act, Q8KAct};
use smidgen_core::session::Buffers;

/// All of RAM that a run of a model takes, beside the stack.
#[derive(Debug)]
pub struct Memory {
    /// For the session.
    pub buffers: Buffers<'static>,
    /// A place for each layer.
    pub layers: &'static mut [Layer<'static>],
    /// For the vocabulary; empty if the file has an index.
    pub index: &'static mut [u32],
    /// For the prompt while it is encoded.
    pub scratch: &'static mut [u32],
    /// For the tokens of the prompt.
    pub ids: &'static mut [u32],
    /// For the command line.
    pub command_line: &'static mut [MaybeUninit<u8>],
}

impl Memory {
    /// The buffers for the session, which can be had once.
    pub fn take_buffers(&mut self) -> Buffers<'static> {
        let Buffers {
            floats,
            q8,
            q8k,
            ints,
            steps,
            kv,
        } = &mut self.buffers;
        Buffers {
            floats: take(floats),
            q8: take(q8),
            q8k: take(q8k),
            ints: take(ints),
            steps: take(steps),
            kv: replace(kv, KvBuffers::F16(&mut [])),
        }
    }
}

/// Everything but keys and values.
#[derive(Debug)]
pub struct Work<
    const FLOATS: usize,
    const Q8: usize,
    const Q8K: usize,
    const INTS: usize,
    const STEPS: usize,
    const INDEX: usize,
    const SCRATCH: usize,
    const IDS: usize,
    const LINE: usize,
> {
    floats: [f32; FLOATS],
    q8: [Q8Act; Q8],
    q8k: [Q8KAct; Q8K],
    ints: [i16; INTS],
    steps: [u64; STEPS],
    index: [u32; INDEX],
    scratch: [u32; SCRATCH],
    ids: [u32; IDS],
    command_line: [MaybeUninit<u8>; LINE],
}

impl<
    const FLOATS: usize,
    const Q8: usize,
    const Q8K: usize,
    const INTS: usize,
    const STEPS: usize,
    const INDEX: usize,
    const SCRATCH: usize,
    const IDS: usize,
    const LINE: usize,
> Work<FLOATS, Q8, Q8K, INTS, STEPS, INDEX, SCRATCH, IDS, LINE>
{
    /// All zero.
    pub const ZERO: Self = Self {
        floats: [0.0; FLOATS],
        q8: [Q8Act::ZERO; Q8],
        q8k: [Q8KAct::ZERO; Q8K],
        ints: [0; INTS],
        steps: [0; STEPS],
        index: [0; INDEX],
        scratch: [0; SCRATCH],
        ids: [0; IDS],
        command_line: [const { MaybeUninit::new(0) }; LINE],
    };

    /// Handed over.
    pub fn with(
        &'static mut self,
        kv: KvBuffers<'static>,
        layers: &'static mut [Layer<'static>],
    ) -> Memory {
        Memory {
            buffers: Buffers {
                floats: &mut self.floats,
                q8: &mut self.q8,
                q8k: &mut self.q8k,
                ints: &mut self.ints,
                steps: &mut self.steps,
                kv,
            },
            layers,
            index: &mut self.index,
            scratch: &mut self.scratch,
            ids: &mut self.ids,
            command_line: &mut self.command_line,
        }
    }
}

/// Keys and values as f32.
#[derive(Debug)]
pub struct KvF32<const ELEMENTS: usize>([f32; ELEMENTS]);

/// Keys and values as f16.
#[derive(Debug)]
pub struct KvF16<const ELEMENTS: usize>([u16; ELEMENTS]);

/// Keys and values as bytes with scales.
#[derive(Debug)]
#[repr(C, align(4))]
pub struct KvQ8<const ELEMENTS: usize, const SCALES: usize> {
    qs: [i8; ELEMENTS],
    scales: [u16; SCALES],
}

impl<const ELEMENTS: usize> KvF32<ELEMENTS> {
    /// All zero.
    pub const ZERO: Self = Self([0.0; ELEMENTS]);

    /// Handed over.
    pub fn buffers(&'static mut self) -> KvBuffers<'static> {
        KvBuffers::F32(&mut self.0)
    }
}

impl<const ELEMENTS: usize> KvF16<ELEMENTS> {
    /// All zero.
    pub const ZERO: Self = Self([0; ELEMENTS]);

    /// Handed over.
    pub fn buffers(&'static mut self) -> KvBuffers<'static> {
        KvBuffers::F16(&mut self.0)
    }
}

impl<const ELEMENTS: usize, const SCALES: usize> KvQ8<ELEMENTS, SCALES> {
    /// All zero.
    pub const ZERO: Self = Self {
        qs: [0; ELEMENTS],
        scales: [0; SCALES],
    };

    /// Handed over.
    pub fn buffers(&'static mut self) -> KvBuffers<'static> {
        KvBuffers::Q8 {
            qs: &mut self.qs,
            scales: &mut self.scales,
        }
    }
}
