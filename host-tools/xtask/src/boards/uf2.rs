//! UF2: firmware as blocks of 512 bytes that boot loaders take as files on a drive
//! (<https://github.com/microsoft/uf2>).

use anyhow::{Context as _, Result};

use super::segments::Segment;

/// Bytes of firmware in a block. The boot loaders want this many, and addresses that are multiples.
const PAYLOAD: u64 = 256;

/// The family is given.
const HAS_FAMILY: u32 = 0x2000;

/// The file for chips of a family. Parts of blocks that belong to no segment are erased flash.
///
/// # Errors
/// An address or a number of blocks above 32 bits.
pub(super) fn uf2(segments: &[Segment], family: u32) -> Result<Vec<u8>> {
    let blocks = blocks(segments);
    let count = u32::try_from(blocks.len())?;
    let mut file = Vec::new();
    for (number, (address, payload)) in (0_u32..).zip(&blocks) {
        let address = u32::try_from(*address).context("an address above 4 GiB")?;
        let words = [
            0x0a32_4655,
            0x9e5d_5157,
            HAS_FAMILY,
            address,
            256,
            number,
            count,
            family,
        ];
        for word in words {
            file.extend(u32::to_le_bytes(word));
        }
        file.extend(payload);
        file.resize(file.len() + 476 - payload.len(), 0);
        file.extend(0x0ab1_6f30_u32.to_le_bytes());
    }
    Ok(file)
}

/// Blocks with their addresses, in order.
fn blocks(segments: &[Segment]) -> Vec<(u64, Vec<u8>)> {
    let mut blocks: Vec<(u64, Vec<u8>)> = Vec::new();
    for segment in segments {
        for (at, &byte) in (segment.address..).zip(&segment.bytes) {
            let start = at - at % PAYLOAD;
            if blocks.last().is_none_or(|(last, _)| *last != start) {
                blocks.push((start, vec![0xff; PAYLOAD as usize]));
            }
            if let Some((_, payload)) = blocks.last_mut() {
                payload[(at - start) as usize] = byte;
            }
        }
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(file: &[u8], at: usize) -> u32 {
        u32::from_le_bytes(file[at..at + 4].try_into().unwrap())
    }

    /// Field by field as in the specification's table.
    #[test]
    fn blocks_are_laid_out_as_the_specification_says() {
        let segments = [
            Segment {
                address: 0x1000_0000,
                bytes: (0..=255).chain([7]).collect(),
            },
            Segment {
                address: 0x1004_0010,
                bytes: vec![9; 2],
            },
        ];
        let file = uf2(&segments, 0xe48b_ff59).unwrap();
        assert_eq!(file.len(), 3 * 512);
        let addresses = [0x1000_0000, 0x1000_0100, 0x1004_0000];
        for (number, block) in file.chunks(512).enumerate() {
            assert_eq!(&block[..4], b"UF2\n");
            assert_eq!(word(block, 4), 0x9e5d_5157);
            assert_eq!(word(block, 8), 0x2000);
            assert_eq!(word(block, 12), addresses[number]);
            assert_eq!(word(block, 16), 256);
            assert_eq!(word(block, 20) as usize, number);
            assert_eq!(word(block, 24), 3);
            assert_eq!(word(block, 28), 0xe48b_ff59);
            assert_eq!(word(block, 508), 0x0ab1_6f30);
        }
        assert!((0..=255).eq(file[32..288].iter().copied()));
        assert_eq!(file[512 + 32..512 + 34], [7, 0xff]);
        assert_eq!(file[1024 + 32 + 15..1024 + 32 + 19], [0xff, 9, 9, 0xff]);
    }
}
