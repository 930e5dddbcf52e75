//! Moving the bytes of tensors from one file to another, and comparing what has arrived.

use std::{fs::File, io, ops::Range};

use crate::disk::{BUFFER, Disk, read_at};
use crate::head::{Head, Layout, Tensor};

/// Is told how many bytes of how many are done.
pub(crate) struct Progress<'a> {
    pub(crate) report: &'a mut dyn FnMut(u64, u64),
    pub(crate) done: u64,
    pub(crate) total: u64,
}

impl<'a> Progress<'a> {
    pub(crate) fn new(report: &'a mut dyn FnMut(u64, u64), total: u64) -> Self {
        report(0, total);
        Self {
            report,
            done: 0,
            total,
        }
    }

    pub(crate) fn add(&mut self, bytes: u64) {
        self.done += bytes;
        (self.report)(self.done, self.total);
    }
}

/// Bytes that keep their order in both files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) len: u64,
}

/// What is to be copied to bring `tensors` of `from` to the places `to`: as few pieces as there are.
/// Padding that is the same in both files, and zeros, is copied along: many small pieces take longer
/// than few large ones.
pub(crate) fn segments(from: &File, tensors: &[Tensor], to: &[u64]) -> io::Result<Vec<Segment>> {
    let mut segments: Vec<Segment> = Vec::new();
    for (tensor, &to) in tensors.iter().zip(to) {
        if tensor.len == 0 {
            continue;
        }
        let new = Segment {
            from: tensor.at,
            to,
            len: tensor.len,
        };
        match segments.last_mut() {
            Some(last) if last.reaches(&new, from)? => last.len = new.to + new.len - last.to,
            _ => segments.push(new),
        }
    }
    Ok(segments)
}

impl Segment {
    /// Whether `next` lies as far behind this one in both files, with nothing or a few zeros between.
    fn reaches(&self, next: &Self, file: &File) -> io::Result<bool> {
        const MOST: usize = 4096;
        let end = self.from + self.len;
        let gap = next.from.checked_sub(end);
        if gap != next.to.checked_sub(self.to + self.len) {
            return Ok(false);
        }
        let mut between = [0; MOST];
        let gap = gap.and_then(|gap| usize::try_from(gap).ok());
        let Some(between) = gap.and_then(|gap| between.get_mut(..gap)) else {
            return Ok(false);
        };
        read_at(file, between, end)?;
        Ok(between.iter().all(|&byte| byte == 0))
    }
}

/// Bytes that are copied between two reports.
const STEP: u64 = 16 << 20;

/// Copies all segments.
pub(crate) fn copy(
    disk: &impl Disk,
    from: &File,
    to: &File,
    segments: &[Segment],
    progress: &mut Progress<'_>,
) -> io::Result<()> {
    for segment in segments {
        let mut done = 0;
        while done < segment.len {
            let len = STEP.min(segment.len - done);
            disk.copy(from, segment.from + done, to, segment.to + done, len)?;
            done += len;
            progress.add(len);
        }
    }
    Ok(())
}

/// Bytes that a head is written in.
const HEAD_BUFFER: usize = 256 << 10;

/// Writes a head to the start of a file.
pub(crate) fn write_head(
    disk: &impl Disk,
    file: &File,
    head: &Head<'_>,
    layout: &Layout,
) -> io::Result<()> {
    let mut at = 0;
    let mut buffer = Vec::with_capacity(HEAD_BUFFER);
    let mut put = |bytes: &[u8]| -> io::Result<()> {
        disk.write(file, bytes, at)?;
        at += bytes.len() as u64;
        Ok(())
    };
    head.write(layout, |part| {
        if buffer.len() + part.len() > HEAD_BUFFER {
            put(&buffer)?;
            buffer.clear();
        }
        if part.len() > HEAD_BUFFER {
            return put(part);
        }
        buffer.extend_from_slice(part);
        Ok(())
    })?;
    put(&buffer)
}

/// What a comparison has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compared {
    /// All bytes are as they should be; their CRC-32.
    Equal(u32),
    /// The first byte that differs, from the start of the file.
    DifferAt(u64),
}

/// Compares `range` of `file` with the segments that were copied into it from `from`, and with
/// zeros where there are none.
pub(crate) fn compare(
    from: &File,
    file: &File,
    segments: &[Segment],
    range: Range<u64>,
    progress: &mut Progress<'_>,
) -> io::Result<Compared> {
    let mut crc = crc32fast::Hasher::new();
    let (mut expected, mut found) = (vec![0; BUFFER], vec![0; BUFFER]);
    let mut segments = segments.iter().copied().peekable();
    let mut at = range.start;
    while at < range.end {
        while segments.next_if(|s| s.to + s.len <= at).is_some() {}
        // Up to the end of the segment, or to where the next one begins.
        let (inside, end) = match segments.peek() {
            Some(s) if s.to <= at => (Some(s.from + (at - s.to)), s.to + s.len),
            Some(s) => (None, s.to),
            None => (None, range.end),
        };
        let left = end.min(range.end) - at;
        let len = usize::try_from(left).map_or(BUFFER, |left| left.min(BUFFER));
        let (expected, found) = (&mut expected[..len], &mut found[..len]);
        match inside {
            Some(from_at) => read_at(from, expected, from_at)?,
            None => expected.fill(0),
        }
        read_at(file, found, at)?;
        if expected != found {
            let same = expected.iter().zip(&*found).take_while(|(a, b)| a == b);
            return Ok(Compared::DifferAt(at + same.count() as u64));
        }
        crc.update(found);
        at += len as u64;
        progress.add(len as u64);
    }
    Ok(Compared::Equal(crc.finalize()))
}

/// The CRC-32 of a part of a file.
pub(crate) fn crc_of(
    file: &File,
    range: Range<u64>,
    progress: &mut Progress<'_>,
) -> io::Result<u32> {
    let mut crc = crc32fast::Hasher::new();
    let mut buffer = vec![0; BUFFER];
    let mut at = range.start;
    while at < range.end {
        let len = usize::try_from(range.end - at).map_or(BUFFER, |left| left.min(BUFFER));
        let part = &mut buffer[..len];
        read_at(file, part, at)?;
        crc.update(part);
        at += len as u64;
        progress.add(len as u64);
    }
    Ok(crc.finalize())
}

/// Whether a file begins with this head.
pub(crate) fn has_head(file: &File, head: &Head<'_>, layout: &Layout) -> io::Result<bool> {
    let mut buffer = vec![0; HEAD_BUFFER];
    let (mut at, mut equal) = (0, true);
    head.write(layout, |part| {
        for expected in part.chunks(HEAD_BUFFER) {
            let found = &mut buffer[..expected.len()];
            read_at(file, found, at)?;
            equal = equal && found == expected;
            at += expected.len() as u64;
        }
        Ok(())
    })?;
    Ok(equal)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::RealDisk;
    use smidgen_core::gguf::GgmlType;

    fn tensor(at: u64, len: u64) -> Tensor {
        Tensor {
            name: "t".into(),
            dims: [1].into(),
            ty: GgmlType::F32,
            at,
            len,
        }
    }

    #[test]
    fn tensors_that_lie_alike_are_one_piece() {
        let from = tempfile::tempfile().unwrap();
        RealDisk.write(&from, &[1; 300], 0).unwrap();
        RealDisk.write(&from, &[0; 24], 168).unwrap();
        let piece = |from, to, len| Segment { from, to, len };
        let cases = [
            // Side by side; padding of other bytes than zeros; padding of zeros; an empty one.
            (vec![(64, 0, 32), (96, 32, 32)], vec![piece(64, 0, 64)]),
            (
                vec![(64, 0, 8), (96, 32, 8)],
                vec![piece(64, 0, 8), piece(96, 32, 8)],
            ),
            (
                vec![(160, 32, 8), (192, 64, 4), (9, 70, 0)],
                vec![piece(160, 32, 36)],
            ),
            // Padding that is not the same in both; another order.
            (
                vec![(160, 32, 8), (192, 72, 4)],
                vec![piece(160, 32, 8), piece(192, 72, 4)],
            ),
            (
                vec![(192, 0, 4), (160, 32, 8)],
                vec![piece(192, 0, 4), piece(160, 32, 8)],
            ),
        ];
        for (places, expected) in cases {
            let tensors: Vec<_> = places.iter().map(|&(at, _, len)| tensor(at, len)).collect();
            let to: Vec<_> = places.iter().map(|&(_, to, _)| to).collect();
            assert_eq!(segments(&from, &tensors, &to).unwrap(), expected);
        }
    }

    #[test]
    fn every_byte_is_compared() {
        let from = tempfile::tempfile().unwrap();
        let content: Vec<_> = (0..200_u8).collect();
        RealDisk.write(&from, &content, 0).unwrap();
        let pieces = segments(&from, &[tensor(10, 50), tensor(100, 40)], &[8, 64]).unwrap();
        let to = tempfile::tempfile().unwrap();
        let mut ignore = |_, _| {};
        let mut progress = Progress::new(&mut ignore, 0);
        copy(&RealDisk, &from, &to, &pieces, &mut progress).unwrap();
        RealDisk.set_len(&to, 112).unwrap();

        let mut whole = [0; 112];
        whole[8..58].copy_from_slice(&content[10..60]);
        whole[64..104].copy_from_slice(&content[100..140]);
        let crc = crc32fast::hash(&whole[8..]);
        let equal = compare(&from, &to, &pieces, 8..112, &mut progress).unwrap();
        assert_eq!(equal, Compared::Equal(crc));
        assert_eq!(crc_of(&to, 8..112, &mut progress).unwrap(), crc);

        for at in 8..112 {
            let byte = whole[at as usize];
            RealDisk.write(&to, &[byte ^ 1], at).unwrap();
            let found = compare(&from, &to, &pieces, 8..112, &mut progress).unwrap();
            assert_eq!(found, Compared::DifferAt(at));
            RealDisk.write(&to, &[byte], at).unwrap();
        }
    }
}
