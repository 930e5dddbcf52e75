//! `smidgen tensors extract`: a tensor's bytes, or its numbers.

use std::{
    io::{self, BufWriter, IsTerminal, Write},
    path::{Path, PathBuf},
};

use anyhow::{anyhow, bail};
use smidgen_core::{
    gguf::{Gguf, TensorInfo},
    quant::{dequantize_row, row_bytes},
};
use smidgen_edit::{EditError, printable};
use smidgen_io::{AtomicFile, Overwrite, same_file};

use super::edit::explained;
use crate::{engine::ModelFiles, output::hinted};

/// Write a tensor's bytes as they are in the file, or its numbers.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The GGUF, or the first shard of a split one.
    file: PathBuf,

    /// The tensor.
    name: String,

    /// The file to write [default: standard output].
    #[arg(short, long, value_name = "OUT")]
    output: Option<PathBuf>,

    /// Write numbers: little-endian f32, decoded.
    #[arg(long, conflicts_with = "npy")]
    f32: bool,

    /// Write a NumPy file of f32, decoded; the row length is the last dimension.
    #[arg(long)]
    npy: bool,

    /// Overwrite the output if it exists.
    #[arg(long)]
    force: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let files = ModelFiles::open(&args.file)?;
    let ggufs = files.parse()?;
    let found = ggufs
        .iter()
        .find_map(|gguf| Some((gguf, gguf.tensor(&args.name)?)));
    let Some((gguf, info)) = found else {
        let pattern = args.name.clone();
        return Err(explained(&args.file, EditError::NoTensor { pattern }));
    };
    let target = args
        .output
        .as_deref()
        .filter(|path| *path != Path::new("-"));
    let Some(path) = target else {
        let stdout = io::stdout().lock();
        if stdout.is_terminal() {
            return Err(hinted(
                anyhow!("binary data are not written to a terminal"),
                "name a file with --output",
            ));
        }
        let mut out = BufWriter::with_capacity(1 << 18, stdout);
        write(args, gguf, &info, &mut out)?;
        return Ok(out.flush()?);
    };
    if same_file(&args.file, path) {
        bail!("{}: input and output are the same file", path.display());
    }
    let overwrite = match args.force {
        true => Overwrite::Replace,
        false => Overwrite::Refuse,
    };
    let mut out = AtomicFile::create(path, overwrite)?;
    write(args, gguf, &info, &mut out)?;
    Ok(out.commit()?)
}

fn write(
    args: &Args,
    gguf: &Gguf<'_>,
    info: &TensorInfo<'_>,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let name = printable(info.name_bytes());
    let bytes = gguf.data(info);
    let bytes = bytes.ok_or_else(|| anyhow!("{name}: no bytes"))?;
    if !args.f32 && !args.npy {
        return Ok(out.write_all(bytes)?);
    }
    let row_len = usize::try_from(info.row_len())?;
    let no_codec = || anyhow!("{name}: no codec for type {}", info.ty());
    let row_bytes = row_bytes(info.ty(), row_len).ok_or_else(no_codec)?;
    let mut row = vec![0.0; row_len];
    let mut encoded = vec![0; row_len * 4];
    // Before anything is written: whether it can be read at all.
    dequantize_row(info.ty(), &vec![0; row_bytes], &mut row).map_err(|_| no_codec())?;
    if args.npy {
        out.write_all(&npy_header(info.dims()))?;
    }
    for bytes in bytes.chunks_exact(row_bytes.max(1)) {
        dequantize_row(info.ty(), bytes, &mut row)?;
        let (words, _) = encoded.as_chunks_mut::<4>();
        for (word, x) in words.iter_mut().zip(&row) {
            *word = x.to_le_bytes();
        }
        out.write_all(&encoded)?;
    }
    Ok(())
}

/// The header of a NumPy file of version 1.0: little-endian f32 in C order, padded with spaces to a
/// multiple of 64 bytes.
fn npy_header(dims: &[u64]) -> Vec<u8> {
    let shape: String = dims.iter().rev().map(|dim| format!("{dim}, ")).collect();
    let shape = match dims.len() {
        1 => shape.trim_end().to_owned(),
        _ => shape.trim_end_matches(", ").to_owned(),
    };
    let mut text = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({shape}), }}");
    let mut header = b"\x93NUMPY\x01\x00".to_vec();
    let len = (header.len() + 2 + text.len() + 1).next_multiple_of(64);
    let text_len = len - header.len() - 2;
    while text.len() + 1 < text_len {
        text.push(' ');
    }
    text.push('\n');
    // Four dimensions of 20 digits are far below 64 KiB.
    header.extend(u16::try_from(text_len).unwrap_or(u16::MAX).to_le_bytes());
    header.extend(text.as_bytes());
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn npy_headers_are_those_of_numpy() {
        // As numpy.save writes them for shapes (3,) and (2, 3).
        let header = npy_header(&[3]);
        assert_eq!(header.len(), 128);
        assert_eq!(header[..10], *b"\x93NUMPY\x01\x00v\x00");
        assert!(
            header[10..]
                .starts_with(b"{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }  ")
        );
        assert!(header.ends_with(b" \n"));
        let header = npy_header(&[3, 2]);
        assert!(
            header[10..]
                .starts_with(b"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), } ")
        );
        assert_eq!(header.len(), 128);
    }
}
