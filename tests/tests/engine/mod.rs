//! What the tests of the engine share.

use std::path::{Path, PathBuf};

use smidgen_core::gguf::Gguf;
use smidgen_core::kv_cache::KvType;
use smidgen_core::model::{Layer, Model};
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

/// A file of little-endian f32.
pub(crate) fn read_f32(path: &Path) -> Vec<f32> {
    let bytes = std::fs::read(path).unwrap();
    let (words, rest) = bytes.as_chunks::<4>();
    assert!(rest.is_empty());
    words.iter().map(|&word| f32::from_le_bytes(word)).collect()
}

/// A model to be run with certain options.
pub(crate) struct Run<'a> {
    gguf: Gguf<'a>,
    options: SessionOptions,
}

impl<'a> Run<'a> {
    pub(crate) fn new(file: &'a FileBytes, kv: KvType, window: usize, batch: usize) -> Self {
        let options = SessionOptions {
            kv,
            window,
            ring: false,
            batch,
        };
        Self {
            gguf: file.gguf().unwrap(),
            options,
        }
    }

    pub(crate) fn with_session<T>(&mut self, job: impl FnOnce(Session<'_>) -> T) -> T {
        let mut layers = vec![Layer::EMPTY; Model::layers_len(&self.gguf)];
        let model = Model::load(&[self.gguf], &mut layers).unwrap();
        let plan = Plan::new(&model, &self.options);
        let mut memory = SessionMemory::new(&plan, &self.options);
        job(Session::new(&model, self.options, memory.buffers()).unwrap())
    }
}
