//! Splitting and merging, stopped at every single step: as by a kill, by a power cut that loses
//! whatever was not put on the disk, and by a step that fails. What is left must be whole, and the
//! same call must end the work.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    fs::{self, File},
    io,
    ops::Range,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use smidgen_core::gguf::GgmlType;
use smidgen_io::{GgufBuilder, Overwrite, folder_of};

use crate::{
    Error, Limit, MergeOptions, MergePlan, SplitOptions, SplitPlan,
    disk::{Disk, RealDisk},
    merge_deleting::merge_on,
};

/// How a run is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    /// Not at all.
    Never,
    /// Before step `.0` of the process: nothing is done from there on.
    Kill(usize),
    /// In the middle of step `.0`.
    KillInside(usize),
    /// As a kill, and all that was not synchronised is lost.
    PowerCut(usize),
    /// Step `.0` fails in the middle, as on a full disk; those after it do not.
    Fail(usize),
}

/// A disk that stops, and remembers what has not been synchronised.
struct StoppingDisk {
    stop: Stop,
    steps: Cell<usize>,
    unsynced: RefCell<BTreeMap<u64, Unsynced>>,
    names: RefCell<Vec<Name>>,
    trash: tempfile::TempDir,
}

/// A file and what was written to it, by its inode.
type Unsynced = (File, Vec<Range<u64>>);

/// A change to a folder.
enum Name {
    Made(PathBuf),
    Renamed(PathBuf, PathBuf),
    Removed(PathBuf, PathBuf),
}

impl Name {
    fn path(&self) -> &Path {
        match self {
            Self::Made(path) | Self::Renamed(_, path) | Self::Removed(path, _) => path,
        }
    }
}

/// What a step may do.
enum Go {
    Whole,
    Half,
}

impl StoppingDisk {
    /// A disk for files in `folder`.
    fn new(folder: &Path, stop: Stop) -> Self {
        Self {
            stop,
            steps: Cell::new(0),
            unsynced: RefCell::default(),
            names: RefCell::default(),
            trash: tempfile::tempdir_in(folder.parent().unwrap()).unwrap(),
        }
    }

    fn step(&self) -> io::Result<Go> {
        let step = self.steps.replace(self.steps.get() + 1);
        let stopped = || Err(io::Error::other("stopped"));
        match self.stop {
            Stop::Kill(at) | Stop::PowerCut(at) if step >= at => stopped(),
            Stop::KillInside(at) if step > at => stopped(),
            Stop::KillInside(at) | Stop::Fail(at) if step == at => Ok(Go::Half),
            _ => Ok(Go::Whole),
        }
    }

    /// A step that is done or not.
    fn whole_step(&self) -> io::Result<()> {
        match self.step()? {
            Go::Whole => Ok(()),
            Go::Half => Err(io::Error::other("stopped")),
        }
    }

    /// A step that may be half done.
    fn long_step(&self, len: u64) -> io::Result<(u64, io::Result<()>)> {
        Ok(match self.step()? {
            Go::Whole => (len, Ok(())),
            Go::Half => (len / 2, Err(io::ErrorKind::StorageFull.into())),
        })
    }

    fn wrote(&self, file: &File, range: Range<u64>) {
        let mut unsynced = self.unsynced.borrow_mut();
        let inode = file.metadata().unwrap().ino();
        let entry = unsynced.entry(inode);
        let again = || (file.try_clone().unwrap(), Vec::new());
        entry.or_insert_with(again).1.push(range);
    }

    /// Loses what was not synchronised.
    fn lose(&self) {
        for (file, ranges) in self.unsynced.take().into_values() {
            for range in ranges {
                let lost = vec![0xEE; (range.end - range.start) as usize];
                RealDisk.write(&file, &lost, range.start).unwrap();
            }
        }
        for name in self.names.take().into_iter().rev() {
            match name {
                Name::Made(path) if path.is_dir() => fs::remove_dir(path).unwrap(),
                Name::Made(path) => fs::remove_file(path).unwrap(),
                Name::Renamed(from, to) => fs::rename(to, from).unwrap(),
                Name::Removed(path, kept) => fs::rename(kept, path).unwrap(),
            }
        }
    }
}

impl Disk for StoppingDisk {
    fn open(&self, path: &Path) -> io::Result<File> {
        self.whole_step()?;
        let made = !path.exists();
        let file = RealDisk.open(path)?;
        if made {
            self.names.borrow_mut().push(Name::Made(path.to_owned()));
        }
        Ok(file)
    }

    fn create_folder(&self, path: &Path) -> io::Result<()> {
        self.whole_step()?;
        self.names.borrow_mut().push(Name::Made(path.to_owned()));
        RealDisk.create_folder(path)
    }

    fn set_len(&self, file: &File, len: u64) -> io::Result<()> {
        self.whole_step()?;
        RealDisk.set_len(file, len)
    }

    fn write(&self, file: &File, bytes: &[u8], at: u64) -> io::Result<()> {
        let (len, result) = self.long_step(bytes.len() as u64)?;
        RealDisk.write(file, &bytes[..len as usize], at)?;
        self.wrote(file, at..at + len);
        result
    }

    fn copy(&self, from: &File, from_at: u64, to: &File, to_at: u64, len: u64) -> io::Result<()> {
        let (len, result) = self.long_step(len)?;
        RealDisk.copy(from, from_at, to, to_at, len)?;
        self.wrote(to, to_at..to_at + len);
        result
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        self.whole_step()?;
        let inode = file.metadata()?.ino();
        self.unsynced.borrow_mut().remove(&inode);
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path, overwrite: Overwrite) -> io::Result<()> {
        self.whole_step()?;
        RealDisk.rename(from, to, overwrite)?;
        let name = Name::Renamed(from.to_owned(), to.to_owned());
        self.names.borrow_mut().push(name);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.whole_step()?;
        let kept = self.trash.path().join(self.steps.get().to_string());
        fs::rename(path, &kept)?;
        let name = Name::Removed(path.to_owned(), kept);
        self.names.borrow_mut().push(name);
        Ok(())
    }

    fn remove_folder(&self, path: &Path) -> io::Result<()> {
        self.whole_step()?;
        RealDisk.remove_folder(path)
    }

    fn sync_folder_of(&self, path: &Path) -> io::Result<()> {
        self.whole_step()?;
        let folder = folder_of(path);
        let mut names = self.names.borrow_mut();
        names.retain(|name| folder_of(name.path()) != folder);
        Ok(())
    }
}

/// All files of a folder by their names.
type Files = BTreeMap<String, Vec<u8>>;

fn files(folder: &Path) -> Files {
    let entries = fs::read_dir(folder).unwrap().map(Result::unwrap);
    entries
        .map(|entry| {
            let name = entry.file_name().into_string().unwrap();
            (name, fs::read(entry.path()).unwrap())
        })
        .collect()
}

fn fill(folder: &Path, files: &Files) {
    for (name, bytes) in files {
        fs::write(folder.join(name), bytes).unwrap();
    }
}

/// A model of 7 tensors, among them an empty one, whose sizes are no multiples of the alignment.
fn model() -> Vec<u8> {
    let mut builder = GgufBuilder::new();
    builder.set("general.name", "stopped");
    builder.set("general.alignment", 64_u32);
    builder.set("numbers", &[1_u16, 2, 3][..]);
    for (number, len) in [3_u64, 100, 0, 16, 33, 7, 250].into_iter().enumerate() {
        let value = |i| (i * 7 + number as u64) as u8;
        let bytes: Vec<_> = (0..4 * len).map(value).collect();
        let name = format!("tensor.{number}");
        builder.tensor(&name, &[len], GgmlType::F32, bytes).unwrap();
    }
    let mut bytes = Vec::new();
    builder.write_to(&mut bytes).unwrap();
    bytes
}

const NOBODY: fn(u64, u64) = |_, _| {};

fn split(folder: &Path, disk: &impl Disk) -> Result<(), Error> {
    let options = SplitOptions {
        limit: Limit::Tensors(2.try_into().unwrap()),
        no_tensor_first_split: false,
    };
    let plan = SplitPlan::new(folder.join("model.gguf"), folder.join("m"), &options)?;
    plan.write_on(disk, &mut { NOBODY })
}

const FIRST: &str = "m-00001-of-00004.gguf";

fn merge(folder: &Path, disk: &impl Disk) -> Result<(), Error> {
    let (first, output) = (folder.join(FIRST), folder.join("model.gguf"));
    let options = MergeOptions::default();
    let plan = MergePlan::new(first, output, options, Overwrite::Refuse)?;
    plan.write_on(disk, &mut { NOBODY })
}

fn merge_deleting(folder: &Path, disk: &impl Disk) -> Result<(), Error> {
    let (first, output) = (folder.join(FIRST), folder.join("model.gguf"));
    let options = MergeOptions::default();
    merge_on(disk, &first, &output, options, &mut { NOBODY }).map(|_| ())
}

/// The model alone, and its shards alone.
fn model_and_shards() -> (Files, Files) {
    let folder = tempfile::tempdir().unwrap();
    let whole = Files::from([("model.gguf".to_owned(), model())]);
    fill(folder.path(), &whole);
    split(folder.path(), &RealDisk).unwrap();
    let mut shards = files(folder.path());
    shards.remove("model.gguf");
    assert_eq!(shards.len(), 4);
    (whole, shards)
}

/// Stops `work` at each step in each way, looks at what is left with `check`, and does it again.
fn stop_everywhere(
    before: &Files,
    after: &Files,
    work: impl Fn(&Path, &StoppingDisk) -> Result<(), Error>,
    check: impl Fn(Stop, &Files),
) {
    let run = |stop: Stop, then: &dyn Fn(&Path)| {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("files");
        fs::create_dir(&folder).unwrap();
        fill(&folder, before);
        let disk = StoppingDisk::new(&folder, stop);
        let result = work(&folder, &disk);
        if matches!(stop, Stop::PowerCut(_)) {
            disk.lose();
        }
        // A dead process holds no locks.
        disk.unsynced.take();
        let steps = disk.steps.get();
        then(&folder);
        (result, steps)
    };
    let (result, steps) = run(Stop::Never, &|folder| assert_eq!(&files(folder), after));
    result.unwrap();
    assert!(steps > 10, "{steps} steps");
    for step in 0..steps {
        for stop in [Stop::Kill, Stop::KillInside, Stop::PowerCut, Stop::Fail].map(|s| s(step)) {
            let (result, _) = run(stop, &|folder| {
                check(stop, &files(folder));
                let again = StoppingDisk::new(folder, Stop::Never);
                let result = work(folder, &again);
                let left = files(folder);
                // The end may have been reached before: then there is nothing to do again.
                let names: Vec<_> = left.keys().collect();
                assert!(&left == after, "{stop:?}: {result:?}, {names:?}");
            });
            assert!(result.is_err(), "{stop:?}");
        }
    }
}

#[test]
fn a_stopped_split_leaves_the_source_and_no_half_set() {
    let (whole, shards) = model_and_shards();
    let mut both = whole.clone();
    both.extend(shards.clone());
    stop_everywhere(&whole, &both, split, |stop, left| {
        assert_eq!(left["model.gguf"], whole["model.gguf"], "{stop:?}");
        for (name, bytes) in left.iter().filter(|(name, _)| name.starts_with("m-")) {
            assert_eq!(bytes, &shards[name], "{stop:?}");
        }
        if left.contains_key(FIRST) {
            assert_eq!(left, &both, "{stop:?}");
        }
        if matches!(stop, Stop::Fail(_)) {
            assert!(
                left == &whole || left == &both,
                "{stop:?}: {:?}",
                left.keys()
            );
        }
    });
}

#[test]
fn a_stopped_merge_leaves_the_shards() {
    let (whole, shards) = model_and_shards();
    let mut both = whole.clone();
    both.extend(shards.clone());
    stop_everywhere(&shards, &both, merge, |stop, left| {
        let unchanged = shards.iter().all(|(name, bytes)| &left[name] == bytes);
        assert!(unchanged, "{stop:?}");
        if let Some(output) = left.get("model.gguf") {
            assert_eq!(output, &whole["model.gguf"], "{stop:?}");
        }
        if matches!(stop, Stop::Fail(_)) {
            assert!(
                left == &shards || left == &both,
                "{stop:?}: {:?}",
                left.keys()
            );
        }
    });
}

#[test]
fn a_stopped_merge_that_deletes_can_go_on() {
    let (whole, shards) = model_and_shards();
    stop_everywhere(&shards, &whole, merge_deleting, |stop, left| {
        for (name, bytes) in left.iter().filter(|(name, _)| name.starts_with("m-")) {
            assert_eq!(bytes, &shards[name], "{stop:?}");
        }
        if let Some(output) = left.get("model.gguf") {
            assert_eq!(output, &whole["model.gguf"], "{stop:?}");
        } else if !left.contains_key(".model.gguf.merge-journal") {
            let there = shards.keys().all(|name| left.contains_key(name));
            assert!(there, "{stop:?}: {:?}", left.keys());
        }
        // A failure before the first deletion leaves nothing behind.
        if matches!(stop, Stop::Fail(_)) && shards.keys().all(|name| left.contains_key(name)) {
            let merged_one = left.contains_key(".model.gguf.merge-journal");
            assert!(merged_one || left == &shards, "{stop:?}: {:?}", left.keys());
        }
    });
}
