//! Merging a set of shards into one file.

use std::{
    fs::File,
    path::{Path, PathBuf},
};

use smidgen_core::gguf::{Gguf, Value, keys};
use smidgen_io::{FileBytes, Overwrite, output_path, same_file};

use crate::{
    Error, Shard, ShardSet,
    disk::{Disk, RealDisk},
    head::{Head, Layout, metadata_of, version_written},
    journal::journal_of,
    part::{Cleanup, part_of},
    transfer::{self, Progress, segments},
};

/// How shards are merged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MergeOptions {
    /// Leaves the `split.*` keys of the first shard in the output, with a count of 0, as
    /// llama.cpp's tool does.
    pub keep_split_keys: bool,
}

/// What merging a set will make; nothing is written before [`write`](Self::write).
#[derive(Debug)]
pub struct MergePlan {
    set: ShardSet,
    first: FileBytes,
    output: PathBuf,
    overwrite: Overwrite,
    options: MergeOptions,
    layout: Layout,
}

impl MergePlan {
    /// Plans the merge of the set whose first shard (or whose folder) is `first` into `output`.
    ///
    /// # Errors
    /// The set has faults; `output` exists and must not be replaced, or is one of the shards; a
    /// merge that deletes its shards was begun for this output and has not ended.
    pub fn new(
        first: impl AsRef<Path>,
        output: impl AsRef<Path>,
        options: MergeOptions,
        overwrite: Overwrite,
    ) -> Result<Self, Error> {
        let output = output.as_ref();
        let first = ShardSet::first_in(first)?;
        if first.as_os_str() == "-" || output.as_os_str() == "-" {
            return Err(Error::Stream);
        }
        let journal = journal_of(output);
        if journal.exists() {
            let path = output.to_owned();
            return Err(Error::Unfinished { path, journal });
        }
        Self::of(&first, output, options, overwrite)
    }

    /// As [`new`](Self::new), whatever has been begun.
    pub(crate) fn of(
        first: &Path,
        output: &Path,
        options: MergeOptions,
        overwrite: Overwrite,
    ) -> Result<Self, Error> {
        let set = ShardSet::open(first)?;
        if let Some(shard) = set
            .shards()
            .iter()
            .find(|shard| same_file(shard.path(), output))
        {
            let path = shard.path().to_owned();
            return Err(Error::SameFile { path });
        }
        let output = output_path(output, overwrite)?;
        let first = FileBytes::open(first)?;
        let layout = head(&first.gguf()?, &set, options).layout();
        let layout = layout.ok_or_else(|| Error::TooLarge {
            path: output.clone(),
        })?;
        Ok(Self {
            set,
            first,
            output,
            overwrite,
            options,
            layout,
        })
    }

    /// The shards.
    #[must_use]
    pub fn set(&self) -> &ShardSet {
        &self.set
    }

    /// The file that will be made.
    #[must_use]
    pub fn output(&self) -> &Path {
        &self.output
    }

    /// Bytes of the file that will be made.
    #[must_use]
    pub fn output_bytes(&self) -> u64 {
        self.layout.file_len
    }

    /// The most bytes that shards and output take on the disk together.
    #[must_use]
    pub fn peak_bytes(&self) -> u64 {
        let shards: u64 = self.set.shards().iter().map(Shard::bytes).sum();
        shards + self.layout.file_len
    }

    /// The same, when each shard is deleted as soon as it has been merged.
    #[must_use]
    pub fn peak_bytes_when_deleting(&self) -> u64 {
        let shards = self.set.shards();
        let mut left: u64 = shards.iter().map(Shard::bytes).sum();
        let mut peak = left;
        for shard in shards {
            peak = peak.max(left + self.layout.end_of(shard.tensors.end));
            left -= shard.bytes;
        }
        peak.max(self.layout.file_len)
    }

    /// Writes the output; the shards stay as they are.
    ///
    /// `progress` is told how many bytes of how many are copied.
    ///
    /// # Errors
    /// A shard cannot be read, the output cannot be written. Nothing is left of it then.
    pub fn write(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<(), Error> {
        self.write_on(&RealDisk, progress)
    }

    pub(crate) fn write_on<D: Disk>(
        &self,
        disk: &D,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<(), Error> {
        let fail = |error| Error::write(&self.output, error);
        let mut cleanup = Cleanup::new(disk);
        let part = cleanup.part(&self.output)?;
        if let Ok(replaced) = self.output.metadata() {
            part.set_permissions(replaced.permissions()).map_err(fail)?;
        }
        let total = self.layout.file_len - self.layout.data_at;
        let mut progress = Progress::new(progress, total);
        self.write_head(disk, &part).map_err(fail)?;
        for shard in self.set.shards() {
            let file = File::open(shard.path()).map_err(|e| Error::read(shard.path(), e))?;
            let range = shard.tensors.clone();
            let tensors = &self.set.tensors()[range.clone()];
            let segments = segments(&file, tensors, &self.layout.tensors_at[range])
                .map_err(|error| Error::read(shard.path(), error))?;
            transfer::copy(disk, &file, &part, &segments, &mut progress)
                .map_err(|error| Error::copy(shard.path(), &self.output, error))?;
        }
        disk.set_len(&part, self.layout.file_len).map_err(fail)?;
        disk.sync(&part).map_err(fail)?;
        disk.rename(&part_of(&self.output), &self.output, self.overwrite)
            .map_err(fail)?;
        cleanup.done();
        disk.sync_folder_of(&self.output).map_err(fail)
    }

    /// Writes header, metadata and tensor infos into `part`.
    pub(crate) fn write_head(&self, disk: &impl Disk, part: &File) -> std::io::Result<()> {
        let gguf = self.first.gguf().map_err(std::io::Error::other)?;
        let head = head(&gguf, &self.set, self.options);
        transfer::write_head(disk, part, &head, &self.layout)
    }

    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }
}

/// The head of the whole file.
fn head<'a>(first: &Gguf<'a>, set: &'a ShardSet, options: MergeOptions) -> Head<'a> {
    let mut metadata = metadata_of(first);
    if options.keep_split_keys {
        // The count is set anew, which puts it behind all others.
        let entries = first.metadata().map(|entry| (entry.key(), entry.value));
        metadata = entries
            .filter(|(key, _)| *key != keys::SPLIT_COUNT)
            .collect();
        metadata.push((keys::SPLIT_COUNT, Value::U16(0)));
    }
    Head {
        version: version_written(first.version()),
        alignment: first.alignment(),
        metadata,
        tensors: set.tensors(),
    }
}
