//! The journal of a merge that deletes its shards: what was there at the beginning, and what has
//! been merged since. One line of JSON each; a line counts when it is whole.

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use crate::{
    disk::{Disk, read_at},
    part::with_suffix,
};

/// The journal beside `output`.
pub(crate) fn journal_of(output: &Path) -> PathBuf {
    with_suffix(output, ".merge-journal")
}

/// The output beside its journal, as long as it is not whole.
pub(crate) fn unfinished_of(output: &Path) -> PathBuf {
    with_suffix(output, ".merge-part")
}

/// What was there at the beginning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) keep_split_keys: bool,
    /// Bytes of the output, and of its head.
    pub(crate) output_bytes: u64,
    pub(crate) head_bytes: u64,
    pub(crate) head_crc: u32,
    pub(crate) shards: Vec<Entry>,
}

/// A shard as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) bytes: u64,
    pub(crate) tensors: usize,
}

/// An open journal. It is locked: who holds it may write the output and delete shards.
#[derive(Debug)]
pub(crate) struct Journal {
    file: File,
    /// Where the next line goes.
    end: u64,
    pub(crate) header: Option<Header>,
    /// The CRC-32 of the output's part that came from each shard which has been merged; such a
    /// shard may have been deleted.
    pub(crate) merged: Vec<Option<u32>>,
}

impl Journal {
    /// Opens a journal, or makes an empty one. `Ok(None)` when what is there is none.
    pub(crate) fn open(disk: &impl Disk, path: &Path) -> io::Result<Option<Self>> {
        let file = disk.open(path)?;
        let mut bytes = vec![0; usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX)];
        read_at(&file, &mut bytes, 0)?;
        let mut journal = Self {
            file,
            end: 0,
            header: None,
            merged: Vec::new(),
        };
        for line in bytes.split_inclusive(|&byte| byte == b'\n') {
            if line.last() != Some(&b'\n') {
                break;
            }
            let value = serde_json::from_slice(line).unwrap_or(Value::Null);
            if journal.read_line(&value).is_none() {
                // A line that was being written when the power went may hold anything. No shard
                // has been deleted on its account.
                let is_last = journal.end + line.len() as u64 == bytes.len() as u64;
                if is_last {
                    break;
                }
                return Ok(None);
            }
            journal.end += line.len() as u64;
        }
        Ok(Some(journal))
    }

    /// Writes the first line and puts it on the disk.
    pub(crate) fn start(&mut self, disk: &impl Disk, header: Header) -> io::Result<()> {
        let shard = |entry: &Entry| json!({"file": entry.name, "bytes": entry.bytes, "tensors": entry.tensors});
        let shards: Vec<_> = header.shards.iter().map(shard).collect();
        self.end = 0;
        self.append(
            disk,
            &json!({
                "journal": "smidgen merge",
                "version": 1,
                "keep_split_keys": header.keep_split_keys,
                "output_bytes": header.output_bytes,
                "head_bytes": header.head_bytes,
                "head_crc32": header.head_crc,
                "shards": shards,
            }),
        )?;
        self.merged = vec![None; header.shards.len()];
        self.header = Some(header);
        Ok(())
    }

    /// Notes on the disk that shard `number`, from 0, is in the output.
    pub(crate) fn record(&mut self, disk: &impl Disk, number: usize, crc: u32) -> io::Result<()> {
        self.append(disk, &json!({"merged": number, "crc32": crc}))?;
        if let Some(slot) = self.merged.get_mut(number) {
            *slot = Some(crc);
        }
        Ok(())
    }

    fn append(&mut self, disk: &impl Disk, value: &Value) -> io::Result<()> {
        let line = format!("{value}\n");
        // What an interrupted write has left goes first.
        disk.set_len(&self.file, self.end)?;
        disk.write(&self.file, line.as_bytes(), self.end)?;
        disk.sync(&self.file)?;
        self.end += line.len() as u64;
        Ok(())
    }

    fn read_line(&mut self, value: &Value) -> Option<()> {
        if self.header.is_none() {
            let header = Header::read(value)?;
            self.merged = vec![None; header.shards.len()];
            self.header = Some(header);
            return Some(());
        }
        let number = usize::try_from(value["merged"].as_u64()?).ok()?;
        *self.merged.get_mut(number)? = Some(read_crc(&value["crc32"])?);
        Some(())
    }
}

impl Header {
    fn read(value: &Value) -> Option<Self> {
        if value["journal"] != "smidgen merge" || value["version"] != 1 {
            return None;
        }
        let shards = value["shards"].as_array()?.iter().map(|shard| {
            Some(Entry {
                name: shard["file"].as_str()?.to_owned(),
                bytes: shard["bytes"].as_u64()?,
                tensors: usize::try_from(shard["tensors"].as_u64()?).ok()?,
            })
        });
        Some(Self {
            keep_split_keys: value["keep_split_keys"].as_bool()?,
            output_bytes: value["output_bytes"].as_u64()?,
            head_bytes: value["head_bytes"].as_u64()?,
            head_crc: read_crc(&value["head_crc32"])?,
            shards: shards.collect::<Option<_>>()?,
        })
    }
}

fn read_crc(value: &Value) -> Option<u32> {
    u32::try_from(value.as_u64()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::RealDisk;
    use std::fs;

    fn header() -> Header {
        let shard = |name: &str| Entry {
            name: name.to_owned(),
            bytes: 1 << 40,
            tensors: 3,
        };
        Header {
            keep_split_keys: true,
            output_bytes: u64::MAX,
            head_bytes: 64,
            head_crc: u32::MAX,
            shards: vec![shard("\"ä\n-00001-of-00002.gguf"), shard("b")],
        }
    }

    #[test]
    fn every_cut_leaves_what_was_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        let mut journal = Journal::open(&RealDisk, &path).unwrap().unwrap();
        assert_eq!(journal.header, None);
        journal.start(&RealDisk, header()).unwrap();
        let after_header = journal.end;
        journal.record(&RealDisk, 1, 7).unwrap();
        journal.record(&RealDisk, 0, u32::MAX).unwrap();
        let end = journal.end;
        drop(journal);
        let whole = fs::read(&path).unwrap();
        assert_eq!(whole.len() as u64, end);

        for len in 0..=whole.len() {
            fs::write(&path, &whole[..len]).unwrap();
            let mut cut = Journal::open(&RealDisk, &path).unwrap().unwrap();
            let lines = whole[..len].iter().filter(|&&byte| byte == b'\n').count();
            assert_eq!(cut.header, (lines > 0).then(header), "{len} bytes");
            if lines > 0 {
                let expected = [(lines > 2).then_some(u32::MAX), (lines > 1).then_some(7)];
                assert_eq!(cut.merged, expected, "{len} bytes");
                // Going on from here leaves no trace of the cut line.
                cut.record(&RealDisk, 0, 5).unwrap();
                drop(cut);
                let again = Journal::open(&RealDisk, &path).unwrap().unwrap();
                assert_eq!(again.merged[0], Some(5));
            }
        }

        // A last line of anything else counts as cut, one in the middle does not.
        let mut zeros = whole.clone();
        zeros[after_header as usize + 2..].fill(0);
        *zeros.last_mut().unwrap() = b'\n';
        fs::write(&path, &zeros).unwrap();
        let journal = Journal::open(&RealDisk, &path).unwrap().unwrap();
        assert_eq!(journal.merged, [None, None]);
        drop(journal);
        for at in [2, after_header as usize + 2] {
            let mut torn = whole.clone();
            torn[at] = b'?';
            fs::write(&path, torn).unwrap();
            assert!(Journal::open(&RealDisk, &path).unwrap().is_none());
        }
    }
}
