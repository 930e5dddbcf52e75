//! What the tests of the engine share.
#![allow(dead_code)] // Each test uses a part of it.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use smidgen_core::gguf::Gguf;
use smidgen_core::kernels::Backend;
use smidgen_core::kv_cache::KvType;
use smidgen_core::model::{Layer, Model};
use smidgen_core::ops::Parallel;
use smidgen_core::session::{Plan, Session, SessionOptions};
use smidgen_io::{FileBytes, SessionMemory};

/// The folder of golden data, if there.
pub(crate) fn golden() -> Option<PathBuf> {
    Some(smidgen_tests::shared()?.join("golden"))
}

/// stories260K as llama.cpp's tools convert and quantize it.
pub(crate) fn stories(ty: &str) -> Option<FileBytes> {
    let name = format!("stories260K/gguf/stories260K-{ty}.gguf");
    Some(FileBytes::open(golden()?.join(name)).unwrap())
}

/// A JSON file of golden data.
pub(crate) fn golden_json(name: &str) -> Option<serde_json::Value> {
    let text = std::fs::read(golden()?.join(name)).unwrap();
    Some(serde_json::from_slice(&text).unwrap())
}

/// A file of little-endian f32.
pub(crate) fn read_f32(path: &Path) -> Vec<f32> {
    f32s(&std::fs::read(path).unwrap())
}

/// Little-endian f32.
pub(crate) fn f32s(bytes: &[u8]) -> Vec<f32> {
    let (words, rest) = bytes.as_chunks::<4>();
    assert!(rest.is_empty());
    words.iter().map(|&word| f32::from_le_bytes(word)).collect()
}

/// An array of ids in JSON.
pub(crate) fn ids(list: &serde_json::Value) -> Vec<u32> {
    let list = list.as_array().unwrap().iter();
    list.map(|id| id.as_u64().unwrap().try_into().unwrap())
        .collect()
}

pub(crate) fn argmax(logits: &[f32]) -> u32 {
    let mut best = 0;
    for (id, &logit) in logits.iter().enumerate() {
        if logit > logits[best] {
            best = id;
        }
    }
    best.try_into().unwrap()
}

/// The largest distance between logits and their truth.
pub(crate) fn worst(found: &[f32], expected: &[f32]) -> f32 {
    assert_eq!(found.len(), expected.len());
    let off = found.iter().zip(expected).map(|(a, b)| (a - b).abs());
    off.fold(0.0, f32::max)
}

/// A model to be run in a certain way.
#[derive(Clone, Copy)]
pub(crate) struct Run<'a> {
    pub(crate) gguf: Gguf<'a>,
    pub(crate) options: SessionOptions,
    pub(crate) backend: Backend,
    pub(crate) parallel: Option<&'a dyn Parallel>,
    /// Counts the pauses in steps.
    pub(crate) pauses: Option<&'a AtomicUsize>,
}

impl<'a> Run<'a> {
    pub(crate) fn new(file: &'a FileBytes, kv: KvType, window: usize, batch: usize) -> Self {
        Self::of(file.gguf().unwrap(), kv, window, batch)
    }

    pub(crate) fn of(gguf: Gguf<'a>, kv: KvType, window: usize, batch: usize) -> Self {
        let options = SessionOptions {
            kv,
            window,
            ring: false,
            batch,
        };
        Self {
            gguf,
            options,
            backend: Backend::best(),
            parallel: None,
            pauses: None,
        }
    }

    pub(crate) fn with_session<T>(&self, job: impl FnOnce(Session<'_>) -> T) -> T {
        let mut layers = vec![Layer::EMPTY; Model::layers_len(&self.gguf)];
        let model = Model::load(&[self.gguf], &mut layers).unwrap();
        let plan = Plan::new(&model, &self.options);
        let mut memory = SessionMemory::new(&plan, &self.options);
        let mut pause = || {
            let pauses = self.pauses.unwrap();
            pauses.fetch_add(1, Ordering::Relaxed);
        };
        let session = Session::new(&model, self.options, memory.buffers()).unwrap();
        let session = session.with_backend(self.backend);
        job(match (self.parallel, self.pauses) {
            (Some(parallel), _) => session.with_parallel(parallel),
            (None, Some(_)) => session.with_pause(&mut pause),
            (None, None) => session,
        })
    }
}

/// All types of KV caches.
pub(crate) const KV_TYPES: [KvType; 4] = [KvType::F32, KvType::F16, KvType::Q8, KvType::Q8Row];
