//! What the file says of a tensor: name, shape, type, place.

use super::{Error, ErrorKind, GgmlType, reader::Reader, reader::to_u64};

/// The most dimensions a tensor has.
pub const MAX_DIMS: usize = 4;

/// The most bytes a tensor's name has (ggml's 64 with the NUL that it appends).
pub const MAX_NAME_LEN: usize = 63;

/// A tensor's entry in the file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TensorInfo<'a> {
    name: &'a [u8],
    dims: [u64; MAX_DIMS],
    n_dims: u32,
    ty: GgmlType,
    offset: u64,
    at: u64,
}

/// `None` when it overflows.
#[inline(never)] // Long on 32-bit chips.
fn product(a: u64, b: u64) -> Option<u64> {
    a.checked_mul(b)
}

impl<'a> TensorInfo<'a> {
    /// Describes a tensor that is to be written: `dims` with the row length first, at most four,
    /// `offset` in bytes from the start of the data.
    #[must_use]
    pub fn new(name: &'a str, dims: &[u64], ty: GgmlType, offset: u64) -> Option<Self> {
        let mut padded = [1; MAX_DIMS];
        padded.get_mut(..dims.len())?.copy_from_slice(dims);
        Some(Self {
            name: name.as_bytes(),
            dims: padded,
            n_dims: u32::try_from(dims.len()).ok()?,
            ty,
            offset,
            at: 0,
        })
    }

    /// The name; text that is not UTF-8, which only [`check`](super::Gguf::check) lets pass, reads
    /// as empty.
    #[must_use]
    pub fn name(&self) -> &'a str {
        core::str::from_utf8(self.name).unwrap_or_default()
    }

    /// The name's bytes.
    #[must_use]
    pub fn name_bytes(&self) -> &'a [u8] {
        self.name
    }

    /// The dimensions as the file has them, row length first.
    #[must_use]
    pub fn dims(&self) -> &[u64] {
        let n_dims = usize::try_from(self.n_dims).unwrap_or(MAX_DIMS);
        self.dims.get(..n_dims).unwrap_or(&self.dims)
    }

    /// What is wrong if there are more dimensions than [`MAX_DIMS`].
    pub(super) fn too_many_dims(&self, reader: &Reader<'_>) -> Option<Error> {
        let before = reader.count_width().saturating_add(self.name.len());
        let dims_at = self.at.saturating_add(to_u64(before));
        (self.n_dims > 4).then(|| Self::too_many(self.n_dims, dims_at))
    }

    fn too_many(found: u32, offset: u64) -> Error {
        let kind = ErrorKind::DimensionCount { found };
        Error { kind, offset }
    }

    /// Elements of a row: the first dimension, 1 for a tensor without dimensions.
    #[must_use]
    pub fn row_len(&self) -> u64 {
        let [row, ..] = self.dims;
        row
    }

    /// Rows: the product of all dimensions but the first; `None` when it overflows.
    #[must_use]
    pub fn rows(&self) -> Option<u64> {
        let [_, a, b, c] = self.dims;
        product(product(a, b)?, c)
    }

    /// Elements; `None` when the number overflows.
    #[must_use]
    pub fn elements(&self) -> Option<u64> {
        product(self.row_len(), self.rows()?)
    }

    /// The element type.
    #[must_use]
    pub fn ty(&self) -> GgmlType {
        self.ty
    }

    /// Where the tensor begins, in bytes from the start of the data.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Where this entry begins, in bytes from the start of the file.
    #[must_use]
    pub fn info_offset(&self) -> u64 {
        self.at
    }

    /// Bytes of the tensor; `None` when its type is unknown, its rows are no whole blocks, or the
    /// number overflows.
    #[must_use]
    pub fn byte_len(&self) -> Option<u64> {
        let geometry = self.ty.geometry()?;
        let blocks = geometry.blocks(self.row_len())?;
        product(product(blocks, geometry.block_bytes.into())?, self.rows()?)
    }

    /// Reads an entry; a number of dimensions that is too large, but whose bytes are there, is kept
    /// ([`too_many_dims`](Self::too_many_dims)), so that a check can go on.
    pub(super) fn read(reader: &mut Reader<'a>) -> Result<Self, Error> {
        let at = reader.offset();
        let name = reader.string("tensor name")?;
        let dims_at = reader.offset();
        let n_dims = reader.u32("number of dimensions")?;
        let mut dims = [1; MAX_DIMS];
        for index in 0..n_dims {
            match (reader.count("dimension"), usize::try_from(index)) {
                (Ok(dim), Ok(index)) => {
                    if let Some(slot) = dims.get_mut(index) {
                        *slot = dim;
                    }
                }
                (Err(error), _) if n_dims <= 4 => return Err(error),
                _ => return Err(Self::too_many(n_dims, dims_at)),
            }
        }
        let ty = GgmlType::from_id(reader.u32("tensor type")?);
        let offset = reader.u64("tensor offset")?;
        let info = Self {
            name,
            dims,
            n_dims,
            ty,
            offset,
            at,
        };
        Ok(info)
    }
}
