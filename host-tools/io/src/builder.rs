//! An owned GGUF that can be changed and written.

use std::{
    collections::HashSet,
    fmt,
    io::{self, Write},
    path::Path,
};

use smidgen_core::gguf::{
    DEFAULT_ALIGNMENT, GgmlType, Gguf, MAX_ALIGNMENT, TensorInfo, Value, WriteError, Writer,
    align_up, keys,
};

use crate::{AtomicFile, BuildError, Error, Overwrite, OwnedValue};

/// Where a tensor's bytes come from when the file is written.
pub enum TensorSource<'a> {
    /// Bytes that are there.
    Bytes(&'a [u8]),
    /// Bytes of one's own.
    Owned(Vec<u8>),
    /// A function that writes them, as many as type and shape ask for.
    Stream(Box<StreamFn<'a>>),
}

/// Writes a tensor's bytes.
type StreamFn<'a> = dyn FnMut(&mut dyn Write) -> io::Result<()> + 'a;

impl fmt::Debug for TensorSource<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => write!(f, "Bytes({})", bytes.len()),
            Self::Owned(bytes) => write!(f, "Owned({})", bytes.len()),
            Self::Stream(_) => write!(f, "Stream"),
        }
    }
}

impl<'a> From<&'a [u8]> for TensorSource<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self::Bytes(bytes)
    }
}

impl From<Vec<u8>> for TensorSource<'_> {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Owned(bytes)
    }
}

#[derive(Debug)]
struct Tensor<'a> {
    name: String,
    dims: Vec<u64>,
    ty: GgmlType,
    bytes: u64,
    source: TensorSource<'a>,
}

/// Metadata and tensors in their order, to be written as one file.
#[derive(Debug)]
pub struct GgufBuilder<'a> {
    version: u32,
    metadata: Vec<(String, OwnedValue)>,
    tensors: Vec<Tensor<'a>>,
    names: HashSet<String>,
}

/// Where everything will lie in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Header, metadata, tensor infos and the padding behind them, as bytes.
    pub head: Vec<u8>,
    /// Each tensor in order.
    pub tensors: Vec<Placed>,
    /// Bytes of the whole file, the padding behind the last tensor included.
    pub file_len: u64,
}

/// Where a tensor will lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Bytes from the start of the file.
    pub offset: u64,
    /// Bytes of the tensor.
    pub len: u64,
    /// Bytes of the tensor and the padding behind it.
    pub padded_len: u64,
}

impl Default for GgufBuilder<'_> {
    fn default() -> Self {
        Self::new()
    }
}

impl<'a> GgufBuilder<'a> {
    /// An empty file of version 3.
    #[must_use]
    pub fn new() -> Self {
        Self {
            version: 3,
            metadata: Vec::new(),
            tensors: Vec::new(),
            names: HashSet::new(),
        }
    }

    /// Everything that `gguf` holds, its tensors' bytes borrowed. Version 1 becomes 3.
    ///
    /// # Errors
    /// `gguf` was not [parsed](Gguf::parse) but only looked at, and has faults.
    pub fn from_gguf(gguf: &Gguf<'a>) -> Result<Self, BuildError> {
        let mut builder = Self::new();
        builder.version = gguf.version().max(2);
        if gguf.version() == 1 {
            builder.version = 3;
        }
        for entry in gguf.metadata() {
            let value = OwnedValue::from(entry.value);
            builder.metadata.push((entry.key().to_owned(), value));
        }
        for info in gguf.tensors() {
            let bytes = gguf.data(&info).ok_or_else(|| BuildError::Shape {
                name: info.name().to_owned(),
            })?;
            builder.tensor(info.name(), info.dims(), info.ty(), bytes)?;
        }
        Ok(builder)
    }

    /// All metadata in order.
    pub fn metadata(&self) -> impl Iterator<Item = (&str, &OwnedValue)> {
        self.metadata.iter().map(|(key, value)| (&key[..], value))
    }

    /// The value of `key`.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&OwnedValue> {
        let mut metadata = self.metadata();
        metadata.find(|&(k, _)| k == key).map(|(_, value)| value)
    }

    /// Sets `key`, where it stands or, when it is new, behind all others.
    pub fn set(&mut self, key: &str, value: impl Into<OwnedValue>) -> &mut Self {
        let value = value.into();
        match self.metadata.iter_mut().find(|(k, _)| k == key) {
            Some((_, old)) => *old = value,
            None => self.metadata.push((key.to_owned(), value)),
        }
        self
    }

    /// Removes `key` and tells whether it was there.
    pub fn remove(&mut self, key: &str) -> bool {
        let before = self.metadata.len();
        self.metadata.retain(|(k, _)| k != key);
        self.metadata.len() < before
    }

    /// Renames `old` where it stands; `false` when it is not there or `new` is.
    pub fn rename(&mut self, old: &str, new: &str) -> bool {
        if self.get(new).is_some() {
            return false;
        }
        match self.metadata.iter_mut().find(|(k, _)| k == old) {
            Some((key, _)) => {
                new.clone_into(key);
                true
            }
            None => false,
        }
    }

    /// Adds a tensor behind all others. `dims` has the row length first.
    ///
    /// # Errors
    /// The name is there already, type and shape do not fit together, or the bytes are too many or
    /// too few. A stream's bytes are counted when the file is written.
    pub fn tensor(
        &mut self,
        name: &str,
        dims: &[u64],
        ty: GgmlType,
        source: impl Into<TensorSource<'a>>,
    ) -> Result<&mut Self, BuildError> {
        let source = source.into();
        let info = TensorInfo::new(name, dims, ty, 0);
        let Some(bytes) = info.and_then(|info| info.byte_len()) else {
            let name = name.to_owned();
            return Err(BuildError::Shape { name });
        };
        let found = match &source {
            TensorSource::Bytes(given) => given.len() as u64,
            TensorSource::Owned(given) => given.len() as u64,
            TensorSource::Stream(_) => bytes,
        };
        if found != bytes {
            return Err(BuildError::DataLength {
                name: name.to_owned(),
                expected: bytes,
                found,
            });
        }
        if !self.names.insert(name.to_owned()) {
            let name = name.to_owned();
            return Err(BuildError::DuplicateTensor { name });
        }
        self.tensors.push(Tensor {
            name: name.to_owned(),
            dims: dims.to_vec(),
            ty,
            bytes,
            source,
        });
        Ok(self)
    }

    /// The alignment of tensor data: `general.alignment`, or 32.
    ///
    /// # Errors
    /// It is no `u32` that is a power of two up to 2^30.
    pub fn alignment(&self) -> Result<u32, BuildError> {
        match self.get(keys::GENERAL_ALIGNMENT).map(OwnedValue::as_value) {
            None => Ok(DEFAULT_ALIGNMENT),
            Some(Value::U32(n)) if n.is_power_of_two() && n <= MAX_ALIGNMENT => Ok(n),
            Some(_) => Err(BuildError::Alignment),
        }
    }

    /// Where everything will lie: tensors in order, each padded to the alignment, the last too.
    ///
    /// # Errors
    /// The alignment is wrong, or the file would be larger than can be counted.
    pub fn layout(&self) -> Result<Layout, BuildError> {
        let alignment = self.alignment()?;
        let mut tensors = Vec::with_capacity(self.tensors.len());
        let mut offset = 0;
        for tensor in &self.tensors {
            let end = align_up(tensor.bytes, alignment)
                .and_then(|padded_len| Some((padded_len, padded_len.checked_add(offset)?)));
            let Some((padded_len, end)) = end else {
                let name = tensor.name.clone();
                return Err(BuildError::Shape { name });
            };
            let len = tensor.bytes;
            tensors.push(Placed {
                offset,
                len,
                padded_len,
            });
            offset = end;
        }

        let mut head = Vec::new();
        let sink = |part: &[u8]| -> Result<(), std::convert::Infallible> {
            head.extend_from_slice(part);
            Ok(())
        };
        let never = |_: WriteError<_>| BuildError::Alignment;
        let (entries, count) = (self.metadata.len() as u64, self.tensors.len() as u64);
        let mut writer = Writer::with_version(sink, self.version, entries, count).map_err(never)?;
        for (key, value) in self.metadata() {
            writer.metadata(key, &value.as_value()).map_err(never)?;
        }
        for (tensor, placed) in self.tensors.iter().zip(&tensors) {
            let info = TensorInfo::new(&tensor.name, &tensor.dims, tensor.ty, placed.offset);
            let info = info.ok_or_else(|| BuildError::Shape {
                name: tensor.name.clone(),
            })?;
            writer.tensor(&info).map_err(never)?;
        }
        let data_at = writer.finish(alignment).map_err(never)?;
        for placed in &mut tensors {
            placed.offset += data_at;
        }
        Ok(Layout {
            head,
            tensors,
            file_len: data_at + offset,
        })
    }

    /// Writes the file to any sink and tells its length in bytes.
    ///
    /// # Errors
    /// The sink fails, the layout is impossible, or a stream gives too many or too few bytes.
    pub fn write_to(&mut self, out: &mut dyn Write) -> io::Result<u64> {
        let invalid = |error| io::Error::new(io::ErrorKind::InvalidData, error);
        let layout = self.layout().map_err(invalid)?;
        out.write_all(&layout.head)?;
        for (tensor, placed) in self.tensors.iter_mut().zip(&layout.tensors) {
            match &mut tensor.source {
                TensorSource::Bytes(bytes) => out.write_all(bytes)?,
                TensorSource::Owned(bytes) => out.write_all(bytes)?,
                TensorSource::Stream(stream) => {
                    let mut counted = Counted { out, written: 0 };
                    stream(&mut counted)?;
                    if counted.written != placed.len {
                        return Err(invalid(BuildError::DataLength {
                            name: tensor.name.clone(),
                            expected: placed.len,
                            found: counted.written,
                        }));
                    }
                }
            }
            io::copy(
                &mut io::Read::take(io::repeat(0), placed.padded_len - placed.len),
                out,
            )?;
        }
        Ok(layout.file_len)
    }

    /// Writes the file whole or not at all, and tells its length in bytes.
    ///
    /// # Errors
    /// As [`AtomicFile::create`], [`write_to`](Self::write_to) and [`AtomicFile::commit`].
    pub fn write_file(
        &mut self,
        path: impl AsRef<Path>,
        overwrite: Overwrite,
    ) -> Result<u64, Error> {
        let path = path.as_ref();
        self.layout()?;
        let mut file = AtomicFile::create(path, overwrite)?;
        let written = self.write_to(&mut file).map_err(|source| Error::Write {
            path: path.to_owned(),
            source,
        })?;
        file.commit()?;
        Ok(written)
    }
}

/// Counts what goes through.
struct Counted<'w> {
    out: &'w mut dyn Write,
    written: u64,
}

impl Write for Counted<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.written += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn built(builder: &mut GgufBuilder<'_>) -> Vec<u8> {
        let mut bytes = Vec::new();
        let len = builder.write_to(&mut bytes).unwrap();
        assert_eq!(len, bytes.len() as u64);
        bytes
    }

    #[test]
    fn what_was_built_parses_and_rebuilds_to_the_same_bytes() {
        for alignment in [None, Some(1), Some(8), Some(64), Some(4096)] {
            let mut builder = GgufBuilder::new();
            builder.set("general.architecture", "llama");
            if let Some(alignment) = alignment {
                builder.set(keys::GENERAL_ALIGNMENT, alignment);
            }
            builder.set("numbers", &[1_u16, 2, 3][..]);
            builder.set("words", OwnedValue::strings(["a", "", "ccc"]));
            builder.set("nan", f32::from_bits(0x7fc0_0001));
            let stream = TensorSource::Stream(Box::new(|out| out.write_all(&[5; 34])));
            builder
                .tensor("b", &[32, 1], GgmlType::Q8_0, stream)
                .unwrap();
            builder
                .tensor("a", &[3], GgmlType::F16, vec![1, 2, 3, 4, 5, 6])
                .unwrap();
            let bytes = built(&mut builder);
            let gguf = Gguf::parse_small(&bytes).unwrap();
            assert_eq!(gguf.alignment(), alignment.unwrap_or(32));
            assert_eq!(gguf.tensor("a").unwrap().dims(), [3]);
            let tensor = gguf.tensor("b").unwrap();
            assert_eq!(tensor.dims(), [32, 1]);
            assert_eq!(gguf.data(&tensor).unwrap(), [5; 34]);
            let mut again = GgufBuilder::from_gguf(&gguf).unwrap();
            assert_eq!(built(&mut again), bytes);
        }
    }

    #[test]
    fn metadata_keeps_its_order_through_changes() {
        let mut builder = GgufBuilder::new();
        builder.set("a", 1_u32).set("b", 2_u32).set("c", 3_u32);
        builder.set("a", "text");
        assert!(builder.rename("b", "d"));
        assert!(!builder.rename("c", "a"));
        assert!(!builder.rename("missing", "x"));
        assert!(builder.remove("c"));
        assert!(!builder.remove("c"));
        let keys: Vec<_> = builder.metadata().map(|(key, _)| key).collect();
        assert_eq!(keys, ["a", "d"]);
    }

    #[test]
    fn wrong_tensors_are_refused() {
        let mut builder = GgufBuilder::new();
        let mut add =
            |name: &str, dims: &[u64], ty, len| builder.tensor(name, dims, ty, vec![0; len]).err();
        assert_eq!(add("a", &[2], GgmlType::F32, 8), None);
        let name = || String::from("a");
        let twice = BuildError::DuplicateTensor { name: name() };
        assert_eq!(add("a", &[2], GgmlType::F32, 8), Some(twice));
        let shape = |name: &str| BuildError::Shape { name: name.into() };
        assert_eq!(add("b", &[31], GgmlType::Q8_0, 34), Some(shape("b")));
        assert_eq!(add("c", &[1; 5], GgmlType::F32, 4), Some(shape("c")));
        assert_eq!(add("d", &[u64::MAX], GgmlType::F32, 4), Some(shape("d")));
        let length = BuildError::DataLength {
            name: "e".into(),
            expected: 8,
            found: 7,
        };
        assert_eq!(add("e", &[2], GgmlType::F32, 7), Some(length));
    }

    #[test]
    fn a_stream_of_another_length_is_an_error_and_leaves_no_file() {
        let folder = tempfile::tempdir().unwrap();
        for len in [0_usize, 7, 9] {
            let mut builder = GgufBuilder::new();
            let stream = move |out: &mut dyn Write| out.write_all(&vec![1; len]);
            let source = TensorSource::Stream(Box::new(stream));
            builder.tensor("a", &[2], GgmlType::F32, source).unwrap();
            let path = folder.path().join("out.gguf");
            let error = builder.write_file(&path, Overwrite::Refuse).unwrap_err();
            assert!(matches!(error, Error::Write { .. }));
            assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        }
    }
}
