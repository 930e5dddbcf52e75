//! Streams a tensor's rows from one type into another, a few at a time.

use std::io::{self, Write};

use rayon::prelude::*;
use smidgen_core::{
    gguf::GgmlType,
    quant::{QuantError, dequantize_row, quantize_row, row_bytes},
};

use crate::{NumberError, PlannedTensor};

/// Elements that a thread takes at a time, as whole rows, at least one.
const CHUNK: usize = 1 << 16;

/// The rows of a tensor and what they become.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rows<'a> {
    name: &'a str,
    bytes: &'a [u8],
    from: GgmlType,
    to: GgmlType,
    row_len: usize,
    row_bytes: usize,
    out_row_len: usize,
    out_row_bytes: usize,
    out_rows: usize,
}

impl<'a> Rows<'a> {
    /// `None` if the sizes do not fit this machine's memory, or a type is unknown.
    pub(crate) fn new(planned: &'a PlannedTensor, bytes: &'a [u8]) -> Option<Self> {
        let row_len = |dims: &[u64]| usize::try_from(dims.first().copied().unwrap_or(1)).ok();
        let out_rows: u64 = planned.dims.iter().skip(1).product();
        let in_len = row_len(&planned.dims_before)?;
        let out_len = row_len(&planned.dims)?;
        Some(Self {
            name: &planned.name,
            bytes,
            from: planned.from,
            to: planned.to,
            row_len: in_len,
            row_bytes: row_bytes(planned.from, in_len)?,
            out_row_len: out_len,
            out_row_bytes: row_bytes(planned.to, out_len)?,
            out_rows: usize::try_from(out_rows).ok()?,
        })
    }

    /// Writes all rows, encoded by the threads of the pool.
    pub(crate) fn write(&self, pool: &rayon::ThreadPool, out: &mut dyn Write) -> io::Result<()> {
        let rows = (CHUNK / self.out_row_len.max(1)).max(1);
        let starts: Vec<usize> = (0..self.out_rows).step_by(rows).collect();
        let mut buffers: Vec<Buffer> = Vec::new();
        for starts in starts.chunks(pool.current_num_threads().max(1)) {
            buffers.resize_with(starts.len().max(buffers.len()), Buffer::default);
            let encode = |(&start, buffer): (&usize, &mut Buffer)| {
                self.encode(start..(start + rows).min(self.out_rows), buffer)
            };
            let encoded: Result<(), _> =
                pool.install(|| starts.par_iter().zip(&mut buffers).try_for_each(encode));
            encoded
                .map_err(|error: NumberError| io::Error::new(io::ErrorKind::InvalidData, error))?;
            for (_, buffer) in starts.iter().zip(&buffers) {
                out.write_all(&buffer.bytes)?;
            }
        }
        Ok(())
    }

    /// Encodes some rows of the output.
    fn encode(&self, rows: std::ops::Range<usize>, buffer: &mut Buffer) -> Result<(), NumberError> {
        buffer.numbers.clear();
        buffer.numbers.resize(self.out_row_len, 0.0);
        buffer.bytes.resize(rows.len() * self.out_row_bytes, 0);
        let outs = buffer.bytes.chunks_exact_mut(self.out_row_bytes.max(1));
        for (row, out) in rows.zip(outs) {
            let start = row * self.row_bytes;
            let given = self.bytes.get(start..start + self.row_bytes);
            self.row(row, given, &mut buffer.numbers, out)?;
        }
        Ok(())
    }

    /// Encodes a row; one that is added has no bytes and is zeros.
    fn row(
        &self,
        row: usize,
        given: Option<&[u8]>,
        numbers: &mut [f32],
        out: &mut [u8],
    ) -> Result<(), NumberError> {
        let copied = self.from == self.to && self.row_len == self.out_row_len;
        let Some(given) = given else {
            numbers.fill(0.0);
            return self.result(row, numbers, quantize_row(self.to, numbers, out));
        };
        let (real, _) = numbers.split_at_mut(self.row_len);
        let decoded = dequantize_row(self.from, given, real);
        if copied {
            out.copy_from_slice(given);
            // A type that cannot be read is none of our business.
            let bad = decoded
                .ok()
                .and_then(|()| real.iter().position(|x| !x.is_finite()));
            return match bad {
                Some(index) => Err(self.number(row, index, real)),
                None => Ok(()),
            };
        }
        let encoded = decoded.and_then(|()| quantize_row(self.to, numbers, out));
        self.result(row, numbers, encoded)
    }

    fn result(
        &self,
        row: usize,
        numbers: &[f32],
        encoded: Result<(), QuantError>,
    ) -> Result<(), NumberError> {
        encoded.map_err(|error| match error {
            QuantError::NotFinite { index } | QuantError::TooLarge { index } => {
                self.number(row, index, numbers)
            }
            QuantError::ScaleTooLarge { index } => {
                // The largest of the block is at fault.
                let block = numbers.get(index..).unwrap_or_default();
                let len = self
                    .to
                    .geometry()
                    .map_or(1, |geometry| geometry.block_len as usize);
                let block = block.get(..len).unwrap_or(block).iter().enumerate();
                let largest = block.max_by(|a, b| a.1.abs().total_cmp(&b.1.abs()));
                self.number(row, index + largest.map_or(0, |(at, _)| at), numbers)
            }
            // The plan has no other types and lengths than those that fit.
            _ => self.number(row, 0, numbers),
        })
    }

    fn number(&self, row: usize, index: usize, numbers: &[f32]) -> NumberError {
        NumberError {
            tensor: self.name.to_owned(),
            index: (row * self.row_len + index) as u64,
            value: numbers.get(index).copied().unwrap_or(f32::NAN),
            ty: self.to,
        }
    }
}

/// What a thread works in.
#[derive(Debug, Default)]
struct Buffer {
    numbers: Vec<f32>,
    bytes: Vec<u8>,
}
