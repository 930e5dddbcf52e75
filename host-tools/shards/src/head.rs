//! What stands before the data of a file: header, metadata, tensor infos.

use std::{convert::Infallible, io};

use smidgen_core::gguf::{GgmlType, Gguf, TensorInfo, Value, WriteError, Writer, align_up, keys};

/// A tensor and where its bytes lie in the file it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tensor {
    pub(crate) name: Box<str>,
    pub(crate) dims: Box<[u64]>,
    pub(crate) ty: GgmlType,
    /// Bytes from the start of the file.
    pub(crate) at: u64,
    /// Bytes of the tensor.
    pub(crate) len: u64,
}

impl Tensor {
    /// All tensors of a file that has been parsed.
    pub(crate) fn all(gguf: &Gguf<'_>) -> Vec<Self> {
        gguf.tensors()
            .map(|info| Self {
                name: info.name().into(),
                dims: info.dims().into(),
                ty: info.ty(),
                at: gguf.data_offset() + info.offset(),
                len: info.byte_len().unwrap_or(0),
            })
            .collect()
    }

    /// Whether both are the same by name, type and shape.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        (&self.name, &self.dims, self.ty) == (&other.name, &other.dims, other.ty)
    }

    /// Bytes with the padding behind it.
    pub(crate) fn padded_len(&self, alignment: u32) -> Option<u64> {
        align_up(self.len, alignment)
    }
}

/// The head of a file that is to be written: its metadata borrowed from the file it comes from.
#[derive(Clone, Debug)]
pub(crate) struct Head<'a> {
    pub(crate) version: u32,
    pub(crate) alignment: u32,
    pub(crate) metadata: Vec<(&'a str, Value<'a>)>,
    pub(crate) tensors: &'a [Tensor],
}

/// Where everything of a file lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Bytes before the data, padding included.
    pub(crate) data_at: u64,
    /// Where each tensor begins, from the start of the file.
    pub(crate) tensors_at: Vec<u64>,
    /// Bytes of the file, the padding behind the last tensor included.
    pub(crate) file_len: u64,
}

impl Layout {
    /// Where the data ends once the first `tensors` tensors are there, padding included.
    pub(crate) fn end_of(&self, tensors: usize) -> u64 {
        let next = self.tensors_at.get(tensors);
        next.copied().unwrap_or(self.file_len)
    }
}

/// The version that a file made from one of `version` has: what can be written is 2 and 3.
pub(crate) fn version_written(version: u32) -> u32 {
    if version == 2 { 2 } else { 3 }
}

/// The metadata of a file without its `split.*` keys.
pub(crate) fn metadata_of<'a>(gguf: &Gguf<'a>) -> Vec<(&'a str, Value<'a>)> {
    gguf.metadata()
        .map(|entry| (entry.key(), entry.value))
        .filter(|(key, _)| !is_split_key(key))
        .collect()
}

pub(crate) fn is_split_key(key: &str) -> bool {
    [keys::SPLIT_NO, keys::SPLIT_COUNT, keys::SPLIT_TENSORS_COUNT].contains(&key)
}

impl Head<'_> {
    /// Where everything lies: tensors in order, each padded to the alignment. `None` when the file
    /// would have more than 2^64 bytes.
    pub(crate) fn layout(&self) -> Option<Layout> {
        let mut at = 0_u64;
        let mut tensors_at = Vec::with_capacity(self.tensors.len());
        for tensor in self.tensors {
            tensors_at.push(at);
            at = at.checked_add(tensor.padded_len(self.alignment)?)?;
        }
        let nowhere = |_: &[u8]| Ok::<(), Infallible>(());
        // Lengths do not depend on what the offsets are.
        let data_at = self.emit(&tensors_at, nowhere).ok()?;
        for tensor_at in &mut tensors_at {
            *tensor_at = tensor_at.checked_add(data_at)?;
        }
        Some(Layout {
            data_at,
            tensors_at,
            file_len: at.checked_add(data_at)?,
        })
    }

    /// Writes the head in pieces to `sink`, which gets `layout.data_at` bytes.
    pub(crate) fn write(
        &self,
        layout: &Layout,
        sink: impl FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        let relative = |at: &u64| at - layout.data_at;
        let offsets: Vec<_> = layout.tensors_at.iter().map(relative).collect();
        match self.emit(&offsets, sink) {
            Ok(_) => Ok(()),
            Err(WriteError::Sink(error)) => Err(error),
            Err(error) => Err(io::Error::other(error.to_string())),
        }
    }

    fn emit<E>(
        &self,
        offsets: &[u64],
        sink: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<u64, WriteError<E>> {
        let (entries, tensors) = (self.metadata.len() as u64, self.tensors.len() as u64);
        let mut writer = Writer::with_version(sink, self.version, entries, tensors)?;
        for (key, value) in &self.metadata {
            writer.metadata(key, value)?;
        }
        for (tensor, &offset) in self.tensors.iter().zip(offsets) {
            let info = TensorInfo::new(&tensor.name, &tensor.dims, tensor.ty, offset);
            writer.tensor(&info.ok_or(WriteError::Count)?)?;
        }
        writer.finish(self.alignment)
    }
}
