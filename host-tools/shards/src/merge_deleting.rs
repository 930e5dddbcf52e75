//! Merging a set and deleting each shard as soon as its bytes are safe in the output, for disks that
//! do not hold the model twice.
//!
//! Beside the output lie, until all is done, the unfinished output and a journal. A shard is
//! deleted only after its bytes in the unfinished output are on the disk, have been read back and
//! are equal, and the journal says so, on the disk too. So at any moment the journal, the
//! unfinished output and the shards that are left make up the whole model, and the same call goes
//! on from there.

use std::{
    fs::File,
    io,
    ops::{ControlFlow, Range},
    path::{Path, PathBuf},
};

use smidgen_core::gguf::Gguf;
use smidgen_io::{FileBytes, Overwrite, same_file};

use crate::{
    Error, Fault, FaultKind, JournalFault, MergeOptions, MergePlan, Shard, ShardSet,
    disk::{Disk, RealDisk, forget_cached},
    head::{Layout, Tensor},
    journal::{Entry, Header, Journal, journal_of, unfinished_of},
    part::Cleanup,
    transfer::{self, Compared, Progress, Segment, crc_of, segments},
};

/// What a merge has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Merged {
    /// Bytes of the output.
    pub bytes: u64,
    /// How many tensors it holds.
    pub tensors: usize,
    /// How many shards it was made of.
    pub shards: usize,
    /// How many of them an earlier, unfinished merge had merged already.
    pub resumed_after: usize,
}

/// Merges the set whose first shard (or whose folder) is `first` into `output` and deletes each
/// shard as it goes. Where an earlier call was killed or failed, this one goes on.
///
/// `progress` is told how many bytes of how many are done; each is copied and read back.
///
/// # Errors
/// As [`MergePlan::new`]; also a shard is a symbolic link, the disk is full, a byte was not read
/// back as it was written, or the journal of an unfinished merge is not of this set.
pub fn merge_deleting(
    first: impl AsRef<Path>,
    output: impl AsRef<Path>,
    options: MergeOptions,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Merged, Error> {
    merge_on(
        &RealDisk,
        first.as_ref(),
        output.as_ref(),
        options,
        progress,
    )
}

pub(crate) fn merge_on<D: Disk>(
    disk: &D,
    first: &Path,
    output: &Path,
    options: MergeOptions,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Merged, Error> {
    if first.as_os_str() == "-" || output.as_os_str() == "-" {
        return Err(Error::Stream);
    }
    let journal_path = journal_of(output);
    // Without a journal nothing has been begun, and nothing is touched before the set is sound.
    let plan = match journal_path.exists() {
        true => None,
        false => Some(plan(first, output, options)?),
    };
    let opened = Journal::open(disk, &journal_path).map_err(|e| Error::write(output, e))?;
    let malformed = || Error::journal(&journal_path, JournalFault::Malformed);
    let mut journal = opened.ok_or_else(malformed)?;

    // As long as no shard can have been deleted, a failure leaves nothing behind.
    let mut cleanup = Cleanup::new(disk);
    if journal.merged.iter().all(Option::is_none) {
        cleanup.also(&journal_path);
        if journal.header.is_some() {
            cleanup.also(&unfinished_of(output));
        }
    }
    let merge = match Merge::resume(disk, &journal, first, output, options)? {
        Some(merge) => merge,
        None => {
            let plan = match plan {
                Some(plan) => plan,
                None => self::plan(first, output, options).map_err(|error| {
                    if journal.merged.iter().all(Option::is_none) {
                        return error;
                    }
                    let output = unfinished_of(output);
                    Error::journal(&journal_path, JournalFault::Gone { output })
                })?,
            };
            cleanup.also(&unfinished_of(output));
            Merge::begin(disk, &mut journal, &plan, output, options)?
        }
    };
    merge.finish(disk, journal, cleanup, progress)
}

/// Whether a merge that deletes its shards was begun for `output` and has not ended: what is left of
/// the shards is of no use without the unfinished output then.
#[must_use]
pub fn is_unfinished(output: impl AsRef<Path>) -> bool {
    journal_of(output.as_ref()).exists()
}

/// Checks the set and all else that can be known before.
fn plan(first: &Path, output: &Path, options: MergeOptions) -> Result<MergePlan, Error> {
    let first = ShardSet::first_in(first)?;
    let plan = MergePlan::of(&first, output, options, Overwrite::Refuse)?;
    for shard in plan.set().shards() {
        refuse_link(shard.path())?;
    }
    Ok(plan)
}

fn refuse_link(shard: &Path) -> Result<(), Error> {
    if shard.is_symlink() {
        let path = shard.to_owned();
        return Err(Error::LinkedShard { path });
    }
    Ok(())
}

/// A merge under way.
struct Merge<'a> {
    output: &'a Path,
    /// Where what has been merged is: the unfinished output, or the output itself when all but the
    /// end of the work was done.
    written: PathBuf,
    file: File,
    /// The folder of the shards.
    folder: PathBuf,
    /// The tensors in the output, in order.
    tensors: Vec<Tensor>,
    layout: Layout,
}

impl<'a> Merge<'a> {
    /// Writes the head and begins the journal.
    fn begin(
        disk: &impl Disk,
        journal: &mut Journal,
        plan: &MergePlan,
        output: &'a Path,
        options: MergeOptions,
    ) -> Result<Self, Error> {
        let fail = |error| Error::write(output, error);
        let written = unfinished_of(output);
        let file = disk.open(&written).map_err(fail)?;
        disk.set_len(&file, 0).map_err(fail)?;
        plan.write_head(disk, &file).map_err(fail)?;
        disk.sync(&file).map_err(fail)?;

        let layout = plan.layout().clone();
        let mut nobody = |_, _| {};
        let head_crc = crc_of(&file, 0..layout.data_at, &mut Progress::new(&mut nobody, 0));
        let shards = plan.set().shards().iter();
        let header = Header {
            keep_split_keys: options.keep_split_keys,
            output_bytes: layout.file_len,
            head_bytes: layout.data_at,
            head_crc: head_crc.map_err(|error| Error::read(&written, error))?,
            shards: shards.map(entry).collect(),
        };
        journal.start(disk, header).map_err(fail)?;
        disk.sync_folder_of(output).map_err(fail)?;

        let mut tensors = plan.set().tensors().to_vec();
        for (tensor, &at) in tensors.iter_mut().zip(&layout.tensors_at) {
            tensor.at = at;
        }
        let shards = plan.set().shards().first();
        Ok(Self {
            output,
            written,
            file,
            folder: shards.map_or(PathBuf::new(), |first| parent(first.path())),
            tensors,
            layout,
        })
    }

    /// Takes up what an earlier call has left; `None` when that is nothing to go on from.
    fn resume(
        disk: &impl Disk,
        journal: &Journal,
        first: &Path,
        output: &'a Path,
        options: MergeOptions,
    ) -> Result<Option<Self>, Error> {
        let Some(header) = &journal.header else {
            return Ok(None);
        };
        let journal_path = journal_of(output);
        let fault = |cause| Error::journal(&journal_path, cause);
        let keep_split_keys = header.keep_split_keys;
        if keep_split_keys != options.keep_split_keys {
            return Err(fault(JournalFault::OtherOptions { keep_split_keys }));
        }
        let first_name = header.shards.first().map_or("", |shard| &shard.name);
        let folder = if first.is_dir() {
            first.to_owned()
        } else if first.file_name().is_some_and(|name| name == first_name) {
            parent(first)
        } else {
            let first = first_name.to_owned();
            return Err(fault(JournalFault::OtherSet { first }));
        };

        let unfinished = unfinished_of(output);
        let (written, file) = if unfinished.exists() {
            if output.exists() && !same_file(&unfinished, output) {
                let path = output.to_owned();
                return Err(smidgen_io::Error::Exists { path }.into());
            }
            let file = disk.open(&unfinished);
            (unfinished, file)
        } else if output.exists() && journal.merged.iter().all(Option::is_some) {
            (output.to_owned(), File::open(output))
        } else {
            return Ok(None);
        };
        let file = file.map_err(|error| Error::write(output, error))?;

        let damaged = || {
            fault(JournalFault::Damaged {
                shard: first_name.to_owned(),
                output: written.clone(),
            })
        };
        let mut nobody = |_, _| {};
        let crc = crc_of(
            &file,
            0..header.head_bytes,
            &mut Progress::new(&mut nobody, 0),
        );
        if !crc.is_ok_and(|crc| crc == header.head_crc) {
            return Err(damaged());
        }
        // The head is whole; data that is still missing is a fault here that does not matter.
        let again = file
            .try_clone()
            .map_err(|error| Error::read(&written, error))?;
        let bytes = FileBytes::from_file(again, &written)?;
        let mut scratch = vec![0; Gguf::scratch_len(&bytes)];
        let gguf = Gguf::check(&bytes, &mut scratch, &mut |_| ControlFlow::Continue(()));
        let tensors = Tensor::all(&gguf.ok_or_else(damaged)?);
        let listed: usize = header.shards.iter().map(|shard| shard.tensors).sum();
        if listed != tensors.len() {
            return Err(fault(JournalFault::Malformed));
        }
        let layout = Layout {
            data_at: header.head_bytes,
            tensors_at: tensors.iter().map(|tensor| tensor.at).collect(),
            file_len: header.output_bytes,
        };
        Ok(Some(Self {
            output,
            written,
            file,
            folder,
            tensors,
            layout,
        }))
    }

    /// Merges what has not been merged yet, and gives the output its name.
    fn finish<D: Disk>(
        self,
        disk: &D,
        mut journal: Journal,
        cleanup: Cleanup<'_, D>,
        report: &mut dyn FnMut(u64, u64),
    ) -> Result<Merged, Error> {
        let fail = |error| Error::write(self.output, error);
        let shards = journal
            .header
            .as_ref()
            .map_or(Vec::new(), |h| h.shards.clone());
        let resumed_after = journal.merged.iter().flatten().count();
        let total = 2 * (self.layout.file_len - self.layout.data_at);
        let mut progress = Progress::new(report, total);
        let mut cleanup = Some(cleanup);
        let mut start = 0;
        for (number, entry) in shards.iter().enumerate() {
            let tensors = start..start + entry.tensors;
            start = tensors.end;
            let path = self.folder.join(&entry.name);
            let there = path.symlink_metadata().is_ok();
            match journal.merged[number] {
                Some(crc) if !there => self.check(&tensors, crc, entry, &mut progress)?,
                Some(_) => {
                    let source = Source::open(&path, entry, &self.tensors[tensors.clone()])?;
                    self.compare(&source, &tensors, &mut progress)?;
                }
                None => {
                    let source = Source::open(&path, entry, &self.tensors[tensors.clone()])?;
                    self.copy(disk, &source, &tensors, &mut progress)?;
                    let crc = self.compare(&source, &tensors, &mut progress)?;
                    journal.record(disk, number, crc).map_err(fail)?;
                    if let Some(cleanup) = cleanup.take() {
                        cleanup.done();
                    }
                }
            }
            if there {
                disk.remove(&path)
                    .and_then(|()| disk.sync_folder_of(&path))
                    .map_err(|error| Error::write(&path, error))?;
            }
        }
        if self.written != self.output {
            disk.rename(&self.written, self.output, Overwrite::Refuse)
                .map_err(fail)?;
            disk.sync_folder_of(self.output).map_err(fail)?;
        }
        disk.remove(&journal_of(self.output)).map_err(fail)?;
        disk.sync_folder_of(self.output).map_err(fail)?;
        Ok(Merged {
            bytes: self.layout.file_len,
            tensors: self.tensors.len(),
            shards: shards.len(),
            resumed_after,
        })
    }

    /// The part of the output that these tensors take, padding included.
    fn range(&self, tensors: &Range<usize>) -> Range<u64> {
        self.layout.end_of(tensors.start)..self.layout.end_of(tensors.end)
    }

    fn segments(&self, source: &Source, tensors: &Range<usize>) -> Result<Vec<Segment>, Error> {
        let to = &self.layout.tensors_at[tensors.clone()];
        let segments = segments(&source.file, &source.tensors, to);
        segments.map_err(|error| Error::read(&source.path, error))
    }

    /// Copies a shard's tensors into the output and puts them on the disk.
    fn copy(
        &self,
        disk: &impl Disk,
        source: &Source,
        tensors: &Range<usize>,
        progress: &mut Progress<'_>,
    ) -> Result<(), Error> {
        let segments = self.segments(source, tensors)?;
        let end = self.range(tensors).end;
        transfer::copy(disk, &source.file, &self.file, &segments, progress)
            .and_then(|()| {
                if self.file.metadata()?.len() < end {
                    disk.set_len(&self.file, end)?;
                }
                disk.sync(&self.file)
            })
            .map_err(|error| Error::copy(&source.path, self.output, error))
    }

    /// Reads a shard's tensors back and compares them with the shard; their CRC-32.
    fn compare(
        &self,
        source: &Source,
        tensors: &Range<usize>,
        progress: &mut Progress<'_>,
    ) -> Result<u32, Error> {
        forget_cached(&self.file);
        let segments = self.segments(source, tensors)?;
        let range = self.range(tensors);
        let compared = transfer::compare(&source.file, &self.file, &segments, range, progress);
        match compared.map_err(|error| Error::read(&self.written, error))? {
            Compared::Equal(crc) => Ok(crc),
            Compared::DifferAt(at) => Err(Error::Differs {
                shard: source.path.clone(),
                output: self.written.clone(),
                at,
            }),
        }
    }

    /// Checks the part of the output that came from a shard which has been deleted.
    fn check(
        &self,
        tensors: &Range<usize>,
        crc: u32,
        entry: &Entry,
        progress: &mut Progress<'_>,
    ) -> Result<(), Error> {
        match crc_of(&self.file, self.range(tensors), progress) {
            Ok(found) if found == crc => Ok(()),
            Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => {
                Err(Error::read(&self.written, error))
            }
            _ => {
                let cause = JournalFault::Damaged {
                    shard: entry.name.clone(),
                    output: self.written.clone(),
                };
                Err(Error::journal(journal_of(self.output), cause))
            }
        }
    }
}

/// A shard that is still there.
struct Source {
    path: PathBuf,
    file: File,
    tensors: Vec<Tensor>,
}

impl Source {
    /// Opens a shard and checks that it is the one that the journal and the output's head tell of.
    fn open(path: &Path, entry: &Entry, expected: &[Tensor]) -> Result<Self, Error> {
        if !path.exists() {
            let kind = FaultKind::Missing { and_more: 0 };
            let path = path.to_owned();
            return Err(Error::Set(vec![Fault { path, kind }]));
        }
        refuse_link(path)?;
        let file = File::open(path).map_err(|error| Error::read(path, error))?;
        let again = file.try_clone().map_err(|error| Error::read(path, error))?;
        let bytes = FileBytes::from_file(again, path)?;
        let tensors = Tensor::all(&bytes.gguf()?);
        let alike = |(a, b): (&Tensor, &Tensor)| a.is_like(b);
        let same = tensors.len() == expected.len() && tensors.iter().zip(expected).all(alike);
        if !same || bytes.len() as u64 != entry.bytes {
            return Err(Error::journal(path, JournalFault::ShardChanged));
        }
        Ok(Self {
            path: path.to_owned(),
            file,
            tensors,
        })
    }
}

fn entry(shard: &Shard) -> Entry {
    let name = shard.path().file_name().unwrap_or_default();
    Entry {
        // A set's names are UTF-8, or they would not have been read as such.
        name: name.to_string_lossy().into_owned(),
        bytes: shard.bytes(),
        tensors: shard.tensor_count(),
    }
}

fn parent(path: &Path) -> PathBuf {
    path.parent().unwrap_or(Path::new("")).to_owned()
}
