//! The bytes of a firmware, and where they go.

use anyhow::{Result, ensure};
use object::Endianness;
use object::elf::{FileHeader32, FileHeader64};
use object::read::elf::{FileHeader, ProgramHeader as _};

/// Bytes at an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) address: u64,
    pub(super) bytes: Vec<u8>,
}

impl Segment {
    fn end(&self) -> u64 {
        self.address + self.bytes.len() as u64
    }
}

/// What of an ELF file is written to flash, or loaded, in the order of addresses.
///
/// # Errors
/// No ELF file, or one without anything to load.
pub(super) fn segments(elf: &[u8]) -> Result<Vec<Segment>> {
    match object::FileKind::parse(elf)? {
        object::FileKind::Elf64 => loaded::<FileHeader64<Endianness>>(elf),
        _ => loaded::<FileHeader32<Endianness>>(elf),
    }
}

fn loaded<H: FileHeader<Endian = Endianness>>(elf: &[u8]) -> Result<Vec<Segment>> {
    let header = H::parse(elf)?;
    let endian = header.endian()?;
    let mut segments = Vec::new();
    for part in header.program_headers(endian, elf)? {
        let bytes = part.data(endian, elf).unwrap_or_default();
        if part.p_type(endian) == object::elf::PT_LOAD && !bytes.is_empty() {
            segments.push(Segment {
                // Variables lie elsewhere before start-up copies them.
                address: part.p_paddr(endian).into(),
                bytes: bytes.to_vec(),
            });
        }
    }
    ensure!(!segments.is_empty(), "the firmware is empty");
    check(&mut segments)?;
    Ok(segments)
}

/// Sorts by address.
///
/// # Errors
/// Two of them overlap.
pub(super) fn check(segments: &mut [Segment]) -> Result<()> {
    segments.sort_by_key(|segment| segment.address);
    for pair in segments.windows(2) {
        let next = pair[1].address;
        ensure!(pair[0].end() <= next, "two parts meet at {next:#x}");
    }
    Ok(())
}

/// The bytes of memory from the first segment on, with zeros between them.
///
/// # Errors
/// More than this machine can address.
pub(super) fn flat(segments: &[Segment]) -> Result<Vec<u8>> {
    let first = segments.first().map_or(0, |segment| segment.address);
    let mut bytes = Vec::new();
    for segment in segments {
        bytes.resize(usize::try_from(segment.address - first)?, 0);
        bytes.extend(&segment.bytes);
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(address: u64, bytes: &[u8]) -> Segment {
        Segment {
            address,
            bytes: bytes.to_vec(),
        }
    }

    #[test]
    fn gaps_are_zeros() {
        let segments = [segment(0x8_0000, &[1, 2]), segment(0x8_0004, &[3])];
        assert_eq!(flat(&segments).unwrap(), [1, 2, 0, 0, 3]);
    }

    #[test]
    fn parts_that_overlap_are_refused() {
        let mut apart = [segment(6, &[0]), segment(4, &[0, 0])];
        check(&mut apart).unwrap();
        assert_eq!(apart[0].address, 4);
        let error = check(&mut [segment(4, &[0; 3]), segment(6, &[0])]).unwrap_err();
        assert_eq!(error.to_string(), "two parts meet at 0x6");
    }
}
