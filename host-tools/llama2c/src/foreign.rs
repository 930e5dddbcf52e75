//! Names the files that people give by mistake.

use std::fmt;

use crate::{Checkpoint, CheckpointError, TokenizerBin};

/// A format that is not the one asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// A zip archive.
    Zip,
    /// A gzip file.
    Gzip,
    /// A pickle, PyTorch's older format.
    Pickle,
    /// GGUF.
    Gguf,
    /// GGUF's predecessors.
    Ggml,
    /// Safetensors.
    Safetensors,
    /// A SentencePiece model.
    SentencePiece,
    /// JSON.
    Json,
    /// A web page.
    Html,
    /// The text that git keeps in place of a large file.
    LfsPointer,
    /// llama2.c's `tokenizer.bin`.
    TokenizerBin,
    /// llama2.c's `tokenizer.bin` of before July 2023.
    OldTokenizerBin,
    /// A checkpoint of llama2.c.
    Checkpoint,
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Zip => {
                "a zip archive, perhaps a PyTorch .pt (export.py makes a checkpoint of it)"
            }
            Self::Gzip => "a gzip file; unpack it first",
            Self::Pickle => "a Python pickle, perhaps of PyTorch (export.py reads it)",
            Self::Gguf => "a GGUF file, so it is converted already",
            Self::Ggml => "a file of GGML's older formats",
            Self::Safetensors => "a safetensors file (export.py --hf makes a checkpoint of one)",
            Self::SentencePiece => {
                "a SentencePiece model; llama2.c's tokenizer.py makes a tokenizer.bin of it"
            }
            Self::Json => "JSON",
            Self::Html => "a web page, so the download went wrong",
            Self::LfsPointer => "a Git LFS pointer; `git lfs pull` gets the file itself",
            Self::TokenizerBin => "a tokenizer.bin; are checkpoint and vocabulary swapped?",
            Self::OldTokenizerBin => {
                "a tokenizer.bin of the format without scores; llama2.c's tokenizer.py writes a \
                 new one"
            }
            Self::Checkpoint => "a llama2.c checkpoint; are checkpoint and vocabulary swapped?",
        })
    }
}

/// The format that the first bytes tell beyond doubt: none of these beginnings makes a legacy
/// header, since a `dim` of that size is refused.
pub(crate) fn recognize(bytes: &[u8]) -> Option<Format> {
    const STARTS: [(&[u8], Format); 14] = [
        (b"PK\x03\x04", Format::Zip),
        (b"\x1f\x8b\x08", Format::Gzip),
        (b"\x80\x02\x8a\x0a", Format::Pickle),
        (b"\x80\x04\x95", Format::Pickle),
        (b"GGUF", Format::Gguf),
        (b"lmgg", Format::Ggml),
        (b"fmgg", Format::Ggml),
        (b"tjgg", Format::Ggml),
        (b"\x0a\x0e\x0a\x05<unk>", Format::SentencePiece),
        // Where the newer format has the longest length, the older one has that of `<unk>`.
        (b"\x05\0\0\0<unk>", Format::OldTokenizerBin),
        (b"<!DOCTYPE", Format::Html),
        (b"<!doctype", Format::Html),
        (b"<html", Format::Html),
        (b"version https://git-lfs", Format::LfsPointer),
    ];
    let known = STARTS.iter().find(|(start, _)| bytes.starts_with(start));
    if let Some(&(_, format)) = known {
        return Some(format);
    }
    // A length of 8 bytes whose upper half is zero, then JSON.
    if bytes.get(4..10) == Some(b"\0\0\0\0{\"") {
        return Some(Format::Safetensors);
    }
    let is_text = bytes.first_chunk::<4>().is_some_and(|c| !c.contains(&0));
    (is_text && bytes.trim_ascii_start().starts_with(b"{")).then_some(Format::Json)
}

/// A better reason than a header that makes no model, where there is one.
pub(crate) fn explain(bytes: &[u8], error: CheckpointError) -> CheckpointError {
    match TokenizerBin::parse(bytes) {
        Ok(tokenizer) if tokenizer.len() > 1 => CheckpointError::Foreign {
            format: Format::TokenizerBin,
        },
        _ => error,
    }
}

/// Whether this is a checkpoint.
pub(crate) fn is_checkpoint(bytes: &[u8]) -> bool {
    Checkpoint::parse(bytes).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_recognized_makes_no_checkpoint() {
        for (bytes, format) in [
            (&b"PK\x03\x04rest of it"[..], Format::Zip),
            (b"\x1f\x8b\x08\0rest", Format::Gzip),
            (b"\x80\x02\x8a\x0alfc\x9cF\xf9", Format::Pickle),
            (b"GGUF\x03\0\0\0", Format::Gguf),
            (b"\x40\0\0\0\0\0\0\0{\"__metadata__\"", Format::Safetensors),
            (
                b"\x0a\x0e\x0a\x05<unk>\x15\0\0\0\0\x18\x02",
                Format::SentencePiece,
            ),
            (b"\x05\0\0\0<unk>\x05\0\0\0", Format::OldTokenizerBin),
            (b"{\"model\": 1}", Format::Json),
            (b"\n  {\n", Format::Json),
            (b"<!DOCTYPE html>", Format::Html),
            (
                b"version https://git-lfs.github.com/spec/v1\n",
                Format::LfsPointer,
            ),
        ] {
            assert_eq!(recognize(bytes), Some(format));
            let mut bytes = bytes.to_vec();
            bytes.resize(64, 0);
            let header: [i32; 7] = bytes.as_chunks().0[..7]
                .iter()
                .map(|&v| i32::from_le_bytes(v))
                .collect::<Vec<_>>()
                .try_into()
                .unwrap();
            assert!(crate::Config::new(header).is_err(), "{format:?}");
        }
    }

    #[test]
    fn plausible_headers_are_not_taken_for_something_else() {
        // Each begins like one of the formats: 0x20 is a space, 0x0a a line's end, 640 a pickle.
        for dim in [8827_i32, 123, 32, 10, 640, 0x227b] {
            let header = [dim, 172, 5, 8, 4, 512, 512];
            let bytes: Vec<_> = header.iter().flat_map(|v| v.to_le_bytes()).collect();
            assert_eq!(recognize(&bytes), None, "{dim}");
        }
    }
}
