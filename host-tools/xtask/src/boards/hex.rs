//! Intel HEX, by the crate `ihex`.

use anyhow::{Context as _, Result};
use ihex::Record;

use super::segments::Segment;

/// Bytes in a line.
const LINE: usize = 16;

/// The file.
///
/// # Errors
/// An address above 32 bits.
pub(super) fn hex(segments: &[Segment]) -> Result<String> {
    let mut records = Vec::new();
    let mut upper = None;
    for segment in segments {
        let mut address = u32::try_from(segment.address).context("an address above 4 GiB")?;
        let mut rest = &segment.bytes[..];
        while !rest.is_empty() {
            let [high, low] = [(address >> 16) as u16, (address & 0xffff) as u16];
            if upper != Some(high) {
                records.push(Record::ExtendedLinearAddress(high));
                upper = Some(high);
            }
            // No line goes over the end of what its offset can reach.
            let len = rest.len().min(LINE).min(0x1_0000 - usize::from(low));
            let (value, behind) = rest.split_at(len);
            records.push(Record::Data {
                offset: low,
                value: value.to_vec(),
            });
            rest = behind;
            address += len as u32;
        }
    }
    records.push(Record::EndOfFile);
    Ok(ihex::create_object_file_representation(&records)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_those_of_the_format() {
        let segments = [
            Segment {
                address: 0x0100,
                bytes: b"!F\x016\x01!G\x016\0~\xfe\t\xd2\x19\x01".to_vec(),
            },
            Segment {
                address: 0x1_fffe,
                bytes: vec![1, 2, 3],
            },
        ];
        // The first line of data is the example of the format's usual description.
        let expected = [
            ":020000040000FA",
            ":10010000214601360121470136007EFE09D2190140",
            ":020000040001F9",
            ":02FFFE000102FE",
            ":020000040002F8",
            ":0100000003FC",
            ":00000001FF",
        ];
        let lines: Vec<_> = expected.to_vec();
        assert_eq!(hex(&segments).unwrap().lines().collect::<Vec<_>>(), lines);
    }
}
