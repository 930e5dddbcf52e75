//! Bytes from one file into another without a way through this process's memory.

use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom},
};

/// Appends `len` bytes of `from`, from `at` on, at the position of `to`. The system copies where it
/// can, and holes stay holes where it tells where they are.
pub(crate) fn copy_range(mut from: &File, at: u64, len: u64, to: &mut File) -> io::Result<()> {
    let base = to.stream_position()?;
    let end = at.checked_add(len).ok_or(io::ErrorKind::InvalidInput)?;
    if from.metadata()?.len() < end {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let mut start = at;
    while let Some((data, hole)) = next_data(from, start, end)? {
        from.seek(SeekFrom::Start(data))?;
        to.seek(SeekFrom::Start(base + (data - at)))?;
        let copied = io::copy(&mut from.take(hole - data), to)?;
        if copied != hole - data {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        start = hole;
    }
    let after = base + len;
    if to.metadata()?.len() < after {
        to.set_len(after)?;
    }
    to.seek(SeekFrom::Start(after))?;
    Ok(())
}

/// Where the next data begin and end, of what is left from `start` on; `None` when only holes are.
#[cfg(target_os = "linux")]
fn next_data(file: &File, start: u64, end: u64) -> io::Result<Option<(u64, u64)>> {
    use rustix::{
        fs::{SeekFrom, seek},
        io::Errno,
    };
    if start >= end {
        return Ok(None);
    }
    match seek(file, SeekFrom::Data(start)) {
        Ok(data) if data < end => {
            let hole = seek(file, SeekFrom::Hole(data))?;
            Ok(Some((data, hole.min(end))))
        }
        Ok(_) | Err(Errno::NXIO) => Ok(None),
        // A file system that does not know holes.
        Err(_) => Ok(Some((start, end))),
    }
}

#[cfg(not(target_os = "linux"))]
fn next_data(_: &File, start: u64, end: u64) -> io::Result<Option<(u64, u64)>> {
    Ok((start < end).then_some((start, end)))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn any_range_arrives_whole() {
        let mut from = tempfile::tempfile().unwrap();
        // Data, a hole of 1 MiB, data, a hole at the end.
        let bytes: Vec<u8> = (0..100_000_u32).map(|n| (n % 251) as u8).collect();
        from.write_all(&bytes).unwrap();
        from.seek(SeekFrom::Start(1 << 20)).unwrap();
        from.write_all(&bytes).unwrap();
        from.set_len(1 << 22).unwrap();
        let mut all = Vec::new();
        from.rewind().unwrap();
        from.read_to_end(&mut all).unwrap();
        for (at, len) in [
            (0, 1 << 22),
            (1, 0),
            (7, 99_000),
            (99_999, 1_000_000),
            (200_000, 100_000),
            (1 << 20, 3 << 20),
            (3 << 20, 1 << 20),
        ] {
            let mut to = tempfile::tempfile().unwrap();
            to.write_all(b"head").unwrap();
            copy_range(&from, at, len, &mut to).unwrap();
            to.write_all(b"tail").unwrap();
            let mut found = Vec::new();
            to.rewind().unwrap();
            to.read_to_end(&mut found).unwrap();
            let (at, len) = (at as usize, len as usize);
            let expected = [b"head", &all[at..at + len], b"tail"].concat();
            assert!(found == expected, "{at} {len}");
        }
        let mut to = tempfile::tempfile().unwrap();
        let short = copy_range(&from, 4, 1 << 22, &mut to).unwrap_err();
        assert_eq!(short.kind(), io::ErrorKind::UnexpectedEof);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn holes_stay_holes() {
        use std::os::unix::fs::MetadataExt;
        let mut from = tempfile::tempfile().unwrap();
        from.write_all(&[1; 8192]).unwrap();
        from.set_len(1 << 30).unwrap();
        if from.metadata().unwrap().blocks() > 1000 {
            return; // This file system has no holes.
        }
        let mut to = tempfile::tempfile().unwrap();
        copy_range(&from, 0, 1 << 30, &mut to).unwrap();
        let found = to.metadata().unwrap();
        assert_eq!(found.len(), 1 << 30);
        assert!(found.blocks() < 1000, "{} blocks", found.blocks());
    }
}
