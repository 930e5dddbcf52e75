//! Emits header, metadata and tensor infos to any byte sink, in the form of version 3.

use super::{Array, MAGIC, MAX_ALIGNMENT, TensorInfo, Value, ValueType, align_up, reader::to_u64};

/// Why a file's head could not be written; `E` is the sink's own error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WriteError<E> {
    /// The sink failed.
    Sink(E),
    /// More or fewer entries or tensors than were announced, or an entry after a tensor.
    Count,
    /// The alignment is not a power of two from 1 to 2^30.
    Alignment,
}

impl<E: core::fmt::Display> core::fmt::Display for WriteError<E> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Sink(error) => error.fmt(f),
            Self::Count => write!(
                f,
                "entries and tensors are not those that the header announces"
            ),
            Self::Alignment => write!(f, "alignment is not a power of two from 1 to 1073741824"),
        }
    }
}

impl<E: core::fmt::Debug + core::fmt::Display> core::error::Error for WriteError<E> {}

/// Writes a file's head: first all metadata, then all tensor infos, then the padding before the
/// data. The sink is a function that takes bytes.
#[derive(Debug)]
pub struct Writer<F> {
    sink: F,
    written: u64,
    entries_left: u64,
    tensors_left: u64,
}

impl<F, E> Writer<F>
where
    F: FnMut(&[u8]) -> Result<(), E>,
{
    /// Writes the header of a version 3 file that announces these counts.
    ///
    /// # Errors
    /// The sink failed.
    pub fn new(sink: F, entries: u64, tensors: u64) -> Result<Self, WriteError<E>> {
        Self::with_version(sink, 3, entries, tensors)
    }

    /// Writes a header with a version of its own: 2 and 3 differ in this number alone.
    ///
    /// # Errors
    /// The sink failed.
    pub fn with_version(
        sink: F,
        version: u32,
        entries: u64,
        tensors: u64,
    ) -> Result<Self, WriteError<E>> {
        let mut writer = Self {
            sink,
            written: 0,
            entries_left: entries,
            tensors_left: tensors,
        };
        writer.put(&MAGIC)?;
        writer.put(&version.to_le_bytes())?;
        writer.put(&tensors.to_le_bytes())?;
        writer.put(&entries.to_le_bytes())?;
        Ok(writer)
    }

    /// Bytes written so far.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Writes a metadata entry.
    ///
    /// # Errors
    /// The sink failed, or more entries come than were announced.
    pub fn metadata(&mut self, key: &str, value: &Value<'_>) -> Result<(), WriteError<E>> {
        self.entries_left = self.entries_left.checked_sub(1).ok_or(WriteError::Count)?;
        self.string(key.as_bytes())?;
        self.put(&value.value_type().id().to_le_bytes())?;
        match *value {
            Value::U8(v) => self.put(&v.to_le_bytes()),
            Value::I8(v) => self.put(&v.to_le_bytes()),
            Value::U16(v) => self.put(&v.to_le_bytes()),
            Value::I16(v) => self.put(&v.to_le_bytes()),
            Value::U32(v) => self.put(&v.to_le_bytes()),
            Value::I32(v) => self.put(&v.to_le_bytes()),
            Value::F32(v) => self.put(&v.to_le_bytes()),
            Value::Bool(v) => self.put(&[u8::from(v)]),
            Value::U64(v) => self.put(&v.to_le_bytes()),
            Value::I64(v) => self.put(&v.to_le_bytes()),
            Value::F64(v) => self.put(&v.to_le_bytes()),
            Value::String(bytes) => self.string(bytes),
            Value::Array(array) => self.array(&array),
        }
    }

    /// Writes a tensor info. Its offset is the caller's to choose.
    ///
    /// # Errors
    /// The sink failed, metadata is still missing, or more tensors come than were announced.
    pub fn tensor(&mut self, info: &TensorInfo<'_>) -> Result<(), WriteError<E>> {
        if self.entries_left > 0 {
            return Err(WriteError::Count);
        }
        self.tensors_left = self.tensors_left.checked_sub(1).ok_or(WriteError::Count)?;
        self.string(info.name_bytes())?;
        let n_dims = u32::try_from(info.dims().len()).map_err(|_| WriteError::Count)?;
        self.put(&n_dims.to_le_bytes())?;
        for dim in info.dims() {
            self.put(&dim.to_le_bytes())?;
        }
        self.put(&info.ty().id().to_le_bytes())?;
        self.put(&info.offset().to_le_bytes())
    }

    /// Writes the zeros up to where the data begins and tells where that is.
    ///
    /// # Errors
    /// The sink failed, entries or tensors are missing, or the alignment is no power of two.
    pub fn finish(mut self, alignment: u32) -> Result<u64, WriteError<E>> {
        if self.entries_left > 0 || self.tensors_left > 0 {
            return Err(WriteError::Count);
        }
        if !alignment.is_power_of_two() || alignment > MAX_ALIGNMENT {
            return Err(WriteError::Alignment);
        }
        let end = align_up(self.written, alignment).ok_or(WriteError::Alignment)?;
        const ZEROS: [u8; 64] = [0; 64];
        while self.written < end {
            let left = usize::try_from(end.saturating_sub(self.written)).unwrap_or(usize::MAX);
            let part = ZEROS.get(..left.min(ZEROS.len())).unwrap_or(&ZEROS);
            self.put(part)?;
        }
        Ok(end)
    }

    fn array(&mut self, array: &Array<'_>) -> Result<(), WriteError<E>> {
        self.put(&array.element_type().id().to_le_bytes())?;
        self.put(&to_u64(array.len()).to_le_bytes())?;
        if array.element_type() == ValueType::String && array.length_width() != 8 {
            // Version 1 has shorter lengths.
            for text in array.strings() {
                self.string(text)?;
            }
            return Ok(());
        }
        self.put(array.bytes())
    }

    fn string(&mut self, bytes: &[u8]) -> Result<(), WriteError<E>> {
        self.put(&to_u64(bytes.len()).to_le_bytes())?;
        self.put(bytes)
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), WriteError<E>> {
        self.written = self.written.saturating_add(to_u64(bytes.len()));
        (self.sink)(bytes).map_err(WriteError::Sink)
    }
}
