//! Splitting one file into shards.

use std::{
    collections::VecDeque,
    fs::File,
    ops::Range,
    path::{Path, PathBuf},
};

use smidgen_core::gguf::{DEFAULT_ALIGNMENT, Gguf, ShardName, Value, keys};
use smidgen_io::{FileBytes, Overwrite};

use crate::{
    Error, Limit,
    disk::{Disk, RealDisk},
    head::{Head, Layout, Tensor, metadata_of, version_written},
    part::{Cleanup, part_of},
    transfer::{self, Compared, Progress, Segment, segments},
};

/// How a file is split.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SplitOptions {
    /// How much a shard may hold.
    pub limit: Limit,
    /// The first shard holds metadata alone.
    pub no_tensor_first_split: bool,
}

/// What splitting a file will make; nothing is written before [`write`](Self::write).
#[derive(Debug)]
pub struct SplitPlan {
    source: FileBytes,
    file: File,
    tensors: Vec<Tensor>,
    folder_to_make: Option<PathBuf>,
    shards: Vec<PlannedShard>,
    merges_to_same_bytes: bool,
}

/// A shard that will be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedShard {
    path: PathBuf,
    tensors: Range<usize>,
    bytes: u64,
    larger_than_limit: bool,
}

impl PlannedShard {
    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes of the file.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How many tensors it will hold.
    #[must_use]
    pub fn tensor_count(&self) -> usize {
        self.tensors.len()
    }
}

/// The most shards that `split.count`, a `u16`, can count.
const MAX_SHARDS: usize = 65_535;

/// Files that wait to be put on the disk while others are written.
const OPEN_FILES: usize = 16;

impl SplitPlan {
    /// Plans the split of `source` into `PREFIX-00001-of-0000N.gguf`. A `prefix` that is a folder,
    /// or ends in a separator, is one to put shards into that are named after `source`.
    ///
    /// # Errors
    /// `source` is no valid GGUF, has no tensors or is a shard itself; the prefix is no name; there
    /// would be too many shards.
    pub fn new(
        source: impl AsRef<Path>,
        prefix: impl AsRef<Path>,
        options: &SplitOptions,
    ) -> Result<Self, Error> {
        let (path, prefix) = (source.as_ref(), prefix.as_ref());
        if path.as_os_str() == "-" || prefix.as_os_str() == "-" {
            return Err(Error::Stream);
        }
        let file = File::open(path).map_err(|error| Error::read(path, error))?;
        let again = file.try_clone().map_err(|error| Error::read(path, error))?;
        let source = FileBytes::from_file(again, path)?;
        let gguf = source.gguf()?;
        if let Ok(Some(count @ 2..)) = gguf.get_u64(keys::SPLIT_COUNT) {
            let path = path.to_owned();
            return Err(Error::IsShard { path, count });
        }
        let tensors = Tensor::all(&gguf);
        if tensors.is_empty() {
            let path = path.to_owned();
            return Err(Error::NoTensors { path });
        }
        let ranges = ranges(&tensors, gguf.alignment(), options);
        if ranges.len() > MAX_SHARDS {
            let count = ranges.len() as u64;
            return Err(Error::TooManyShards { count });
        }
        let target = Target::new(path, prefix)?;

        let whole = Head {
            version: version_written(gguf.version()),
            alignment: gguf.alignment(),
            metadata: metadata_of(&gguf),
            tensors: &tensors,
        };
        let merges_to_same_bytes = match whole.layout() {
            Some(layout) if layout.file_len == source.len() as u64 => {
                let same = transfer::has_head(&file, &whole, &layout);
                same.map_err(|error| Error::read(path, error))?
            }
            _ => false,
        };

        let mut shards = Vec::with_capacity(ranges.len());
        let place = |number| Place {
            number,
            count: ranges.len(),
        };
        for (index, range) in ranges.iter().enumerate() {
            let path = target.shard(place(index));
            let layout = place(index).head(&gguf, &tensors, range).layout();
            let Some(layout) = layout else {
                return Err(Error::TooLarge { path });
            };
            shards.push(PlannedShard {
                path,
                tensors: range.clone(),
                bytes: layout.file_len,
                larger_than_limit: match options.limit {
                    Limit::Bytes(size) => layout.file_len - layout.data_at > size.bytes(),
                    Limit::Tensors(_) => false,
                },
            });
        }
        Ok(Self {
            folder_to_make: target.to_make,
            source,
            file,
            tensors,
            shards,
            merges_to_same_bytes,
        })
    }

    /// The shards in order.
    #[must_use]
    pub fn shards(&self) -> &[PlannedShard] {
        &self.shards
    }

    /// How many tensors there are.
    #[must_use]
    pub fn tensor_count(&self) -> usize {
        self.tensors.len()
    }

    /// Tensors that are larger than the limit by themselves, each with its shard, which holds
    /// nothing else.
    pub fn larger_than_limit(&self) -> impl Iterator<Item = (&str, &PlannedShard)> {
        let large = self.shards.iter().filter(|shard| shard.larger_than_limit);
        large.map(|shard| (&*self.tensors[shard.tensors.start].name, shard))
    }

    /// Whether merging the shards will give the source's bytes again. It will not where the source
    /// is laid out in another way than ggml's, is of version 1, or has `split.*` keys already; all
    /// tensors and all other metadata are the same even so.
    #[must_use]
    pub fn merges_to_same_bytes(&self) -> bool {
        self.merges_to_same_bytes
    }

    /// The most bytes that source and shards take on the disk together.
    #[must_use]
    pub fn peak_bytes(&self) -> u64 {
        let shards: u64 = self.shards.iter().map(|shard| shard.bytes).sum();
        self.source.len() as u64 + shards
    }

    /// Writes all shards. They get their names at the end, when all are on the disk, the first one
    /// last: a failure leaves none, and what a killed process leaves, running it again completes.
    ///
    /// `progress` is told how many bytes of how many are copied.
    ///
    /// # Errors
    /// A shard exists that is not what would be written, or is there together with the first; the
    /// source cannot be read; the shards cannot be written.
    pub fn write(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<(), Error> {
        self.write_on(&RealDisk, progress)
    }

    pub(crate) fn write_on<D: Disk>(
        &self,
        disk: &D,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<(), Error> {
        let gguf = self.source.gguf()?;
        let [first, later @ ..] = &self.shards[..] else {
            return Ok(());
        };
        if exists(&first.path) {
            let path = first.path.clone();
            return Err(Error::ShardExists { path });
        }
        let mut cleanup = Cleanup::new(disk);
        if let Some(folder) = &self.folder_to_make {
            cleanup.create_folder(folder)?;
        }
        // Held to the end: its lock is the one for the whole set.
        let first_part = cleanup.part(&first.path)?;
        let padded = self
            .tensors
            .iter()
            .filter_map(|t| t.padded_len(gguf.alignment()));
        let total = padded.sum();
        let mut progress = Progress::new(progress, total);

        let mut written = Vec::with_capacity(later.len());
        let mut unsynced = VecDeque::new();
        let sync = |(file, path): (File, &Path)| {
            disk.sync(&file).map_err(|error| Error::write(path, error))
        };
        for (number, shard) in self.shards.iter().enumerate() {
            let draft = self.draft(&gguf, number)?;
            if number > 0 && exists(&shard.path) {
                if self.is_written(&draft, &shard.path, &mut progress)? {
                    continue;
                }
                let path = shard.path.clone();
                return Err(Error::ShardExists { path });
            }
            let part = if number == 0 {
                let again = first_part.try_clone();
                again.map_err(|error| Error::write(&shard.path, error))?
            } else {
                written.push(&*shard.path);
                cleanup.part(&shard.path)?
            };
            transfer::write_head(disk, &part, &draft.head, &draft.layout)
                .and_then(|()| {
                    transfer::copy(disk, &self.file, &part, &draft.segments, &mut progress)
                })
                .and_then(|()| disk.set_len(&part, draft.layout.file_len))
                .map_err(|error| Error::copy(self.source.path(), &shard.path, error))?;
            unsynced.push_back((part, &*shard.path));
            if unsynced.len() > OPEN_FILES {
                unsynced.pop_front().map_or(Ok(()), sync)?;
            }
        }
        unsynced.into_iter().try_for_each(sync)?;

        for path in written {
            name(disk, path)?;
            cleanup.but(&part_of(path));
            cleanup.also(path);
        }
        let sync_folder = || {
            let synced = disk.sync_folder_of(&first.path);
            synced.map_err(|error| Error::write(&first.path, error))
        };
        sync_folder()?;
        name(disk, &first.path)?;
        cleanup.done();
        sync_folder()
    }

    /// What shard `number`, from 0, is made of.
    fn draft<'a>(&'a self, gguf: &Gguf<'a>, number: usize) -> Result<Draft<'a>, Error> {
        let shard = &self.shards[number];
        let count = self.shards.len();
        let head = Place { number, count }.head(gguf, &self.tensors, &shard.tensors);
        let layout = head.layout().ok_or_else(|| Error::TooLarge {
            path: shard.path.clone(),
        })?;
        let segments = segments(&self.file, head.tensors, &layout.tensors_at)
            .map_err(|error| Error::read(self.source.path(), error))?;
        Ok(Draft {
            head,
            layout,
            segments,
        })
    }

    /// Whether the file at `path` is this shard, whole: one that a killed process has left.
    fn is_written(
        &self,
        draft: &Draft<'_>,
        path: &Path,
        progress: &mut Progress<'_>,
    ) -> Result<bool, Error> {
        let fail = |error| Error::read(path, error);
        let file = File::open(path).map_err(fail)?;
        let metadata = file.metadata().map_err(fail)?;
        let range = draft.layout.data_at..draft.layout.file_len;
        if !metadata.is_file()
            || metadata.len() != range.end
            || !transfer::has_head(&file, &draft.head, &draft.layout).map_err(fail)?
        {
            return Ok(false);
        }
        transfer::compare(&self.file, &file, &draft.segments, range, progress)
            .map(|compared| matches!(compared, Compared::Equal(_)))
            .map_err(fail)
    }
}

/// All that is needed to write a shard.
struct Draft<'a> {
    head: Head<'a>,
    layout: Layout,
    segments: Vec<Segment>,
}

/// Whether there is anything under this name.
fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

/// Gives a shard its final name.
fn name(disk: &impl Disk, path: &Path) -> Result<(), Error> {
    let named = disk.rename(&part_of(path), path, Overwrite::Refuse);
    named.map_err(|error| match Error::write(path, error) {
        Error::File(smidgen_io::Error::Exists { path }) => Error::ShardExists { path },
        error => error,
    })
}

/// Which tensors each shard holds.
fn ranges(tensors: &[Tensor], alignment: u32, options: &SplitOptions) -> Vec<Range<usize>> {
    let mut ranges = Vec::new();
    if options.no_tensor_first_split {
        ranges.push(0..0);
    }
    let (mut start, mut bytes) = (0, 0_u64);
    for (index, tensor) in tensors.iter().enumerate() {
        let len = tensor.padded_len(alignment).unwrap_or(u64::MAX);
        let full = match options.limit {
            Limit::Tensors(most) => index - start >= most.get() as usize,
            Limit::Bytes(most) => index > start && bytes.saturating_add(len) > most.bytes(),
        };
        if full {
            ranges.push(start..index);
            (start, bytes) = (index, 0);
        }
        bytes = bytes.saturating_add(len);
    }
    ranges.push(start..tensors.len());
    ranges
}

/// Which shard of how many, from 0.
#[derive(Clone, Copy, Debug)]
struct Place {
    number: usize,
    count: usize,
}

impl Place {
    /// The head of this shard: the first has all metadata, the others what they need to be read.
    fn head<'a>(self, gguf: &Gguf<'a>, tensors: &'a [Tensor], range: &Range<usize>) -> Head<'a> {
        let alignment = gguf.alignment();
        let mut metadata = if self.number == 0 {
            metadata_of(gguf)
        } else if alignment == DEFAULT_ALIGNMENT {
            Vec::new()
        } else {
            vec![(keys::GENERAL_ALIGNMENT, Value::U32(alignment))]
        };
        // Planning has seen to it that they fit.
        let short = |n: usize| Value::U16(u16::try_from(n).unwrap_or(u16::MAX));
        let total = i32::try_from(tensors.len()).unwrap_or(i32::MAX);
        metadata.extend([
            (keys::SPLIT_NO, short(self.number)),
            (keys::SPLIT_TENSORS_COUNT, Value::I32(total)),
            (keys::SPLIT_COUNT, short(self.count)),
        ]);
        Head {
            version: version_written(gguf.version()),
            alignment,
            metadata,
            tensors: &tensors[range.clone()],
        }
    }
}

/// Where shards go and what they are called.
struct Target {
    folder: PathBuf,
    name: String,
    to_make: Option<PathBuf>,
}

impl Target {
    fn new(source: &Path, prefix: &Path) -> Result<Self, Error> {
        let text = prefix.as_os_str().as_encoded_bytes();
        let ends_in_separator = text
            .last()
            .is_some_and(|&byte| std::path::is_separator(byte.into()));
        let is_folder = prefix.is_dir();
        let (folder, name) = if is_folder || ends_in_separator {
            (prefix, source.file_stem())
        } else {
            (prefix.parent().unwrap_or(Path::new("")), prefix.file_name())
        };
        let Some(name) = name.and_then(|name| name.to_str()) else {
            let path = prefix.to_owned();
            return Err(Error::Prefix { path });
        };
        Ok(Self {
            folder: folder.to_owned(),
            name: name.to_owned(),
            to_make: (ends_in_separator && !is_folder).then(|| prefix.to_owned()),
        })
    }

    fn shard(&self, place: Place) -> PathBuf {
        let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let name = ShardName {
            prefix: &self.name,
            number: number(place.number + 1),
            count: number(place.count),
        };
        self.folder.join(name.to_string())
    }
}
