//! A set of shards on the disk: found from its first, checked as a whole.

use std::{
    fs,
    ops::Range,
    path::{Path, PathBuf},
};

use smidgen_core::gguf::{Gguf, KeyError, ShardName, keys};
use smidgen_io::FileBytes;

use crate::{Error, Fault, FaultKind, head::Tensor, head::is_split_key};

/// The shards of one model, all there and fitting together.
#[derive(Clone, Debug)]
pub struct ShardSet {
    shards: Vec<Shard>,
    tensors: Vec<Tensor>,
}

/// A file of a set.
#[derive(Clone, Debug)]
pub struct Shard {
    pub(crate) path: PathBuf,
    pub(crate) bytes: u64,
    /// Which of the set's tensors it holds.
    pub(crate) tensors: Range<usize>,
}

impl Shard {
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

    /// How many tensors it holds.
    #[must_use]
    pub fn tensor_count(&self) -> usize {
        self.tensors.len()
    }
}

impl ShardSet {
    /// Finds the siblings of the first shard by its name and folder and checks them all: that each
    /// is there and a valid file, that names, `split.no`, `split.count` and `split.tensors.count`
    /// agree, that no tensor comes twice, that no metadata is from elsewhere.
    ///
    /// # Errors
    /// [`Error::Set`] with every fault that was found.
    pub fn open(first: impl AsRef<Path>) -> Result<Self, Error> {
        let mut faults = Vec::new();
        match Self::check(first, &mut |fault| faults.push(fault)) {
            Some(set) if faults.is_empty() => Ok(set),
            _ => Err(Error::Set(faults)),
        }
    }

    /// As [`open`](Self::open), but reports every fault as it is found. The answer, where there is
    /// one, may be looked at after a fault was reported, but is not to be merged then.
    pub fn check(first: impl AsRef<Path>, report: &mut dyn FnMut(Fault)) -> Option<Self> {
        let first = first.as_ref();
        let mut tell = |path: &Path, kind| {
            let path = path.to_owned();
            report(Fault { path, kind });
        };
        let Some(name) = shard_name(first) else {
            // A file that is not there at all has no name to complain of.
            let kind = match FileBytes::open(first) {
                Err(error) => FaultKind::File(error),
                Ok(_) => FaultKind::Name,
            };
            tell(first, kind);
            return None;
        };
        if name.number != 1 {
            let number = name.number;
            let first_name = sibling(first, &name, 1);
            let kind = FaultKind::NotFirst {
                number,
                first: first_name,
            };
            tell(first, kind);
            return None;
        }

        let mut first_bytes = None;
        let mut total = None;
        let (mut shards, mut tensors) = (Vec::new(), Vec::new());
        let mut missing: Option<(PathBuf, u32)> = None;
        let mut all_there = true;
        for number in 1..=name.count {
            let path = sibling(first, &name, number);
            if !path.exists() {
                all_there = false;
                missing = Some(missing.map_or((path, 0), |(path, more)| (path, more + 1)));
                continue;
            }
            if let Some((path, and_more)) = missing.take() {
                tell(&path, FaultKind::Missing { and_more });
            }
            let bytes = match FileBytes::open(&path) {
                Ok(bytes) => bytes,
                Err(error) => {
                    all_there = false;
                    tell(&path, FaultKind::File(error));
                    continue;
                }
            };
            let gguf = match bytes.gguf() {
                Ok(gguf) => gguf,
                Err(error) => {
                    all_there = false;
                    tell(&path, FaultKind::File(error));
                    continue;
                }
            };
            let place = Place { name, number };
            place.check(&gguf, &mut total, &mut |kind| tell(&path, kind));
            if let Some(first) = &first_bytes
                && let Some(key) = foreign_key(&gguf, first)
            {
                tell(&path, FaultKind::Metadata { key });
            }
            let before = tensors.len();
            tensors.extend(Tensor::all(&gguf));
            shards.push(Shard {
                bytes: bytes.len() as u64,
                tensors: before..tensors.len(),
                path,
            });
            if number == 1 {
                first_bytes = Some(bytes);
            }
        }
        if let Some((path, and_more)) = missing {
            tell(&path, FaultKind::Missing { and_more });
        }
        if let (Some(expected), true) = (total, all_there) {
            let found = tensors.len() as u64;
            if found != expected {
                tell(first, FaultKind::TensorCount { found, expected });
            }
        }
        let set = Self { shards, tensors };
        for (name, [earlier, later]) in set.duplicates() {
            let kind = FaultKind::DuplicateTensor {
                name: name.to_owned(),
                first: earlier.to_owned(),
            };
            tell(later, kind);
        }
        Some(set)
    }

    /// The first shard of the one set in a folder; any other path is given back as it is.
    ///
    /// # Errors
    /// The folder cannot be listed, or holds no shard, or shards of more than one set.
    pub fn first_in(path: impl AsRef<Path>) -> Result<PathBuf, Error> {
        let path = path.as_ref();
        if !path.is_dir() {
            return Ok(path.to_owned());
        }
        let mut firsts = Vec::new();
        for entry in fs::read_dir(path).map_err(|error| Error::read(path, error))? {
            let entry = entry.map_err(|error| Error::read(path, error))?;
            if let Some(name) = entry.file_name().to_str().and_then(ShardName::parse) {
                firsts.push(ShardName { number: 1, ..name }.to_string());
            }
        }
        firsts.sort_unstable();
        firsts.dedup();
        match &firsts[..] {
            [one] => Ok(path.join(one)),
            _ => Err(Error::Folder {
                path: path.to_owned(),
                sets: firsts,
            }),
        }
    }

    /// Whether `path` is by its name the first of several shards and another of them is there too:
    /// a set, whole or not, and no lone shard.
    #[must_use]
    pub fn is_at(path: impl AsRef<Path>) -> bool {
        let path = path.as_ref();
        let first = shard_name(path).filter(|name| name.number == 1);
        first.is_some_and(|name| (2..=name.count).any(|n| sibling(path, &name, n).exists()))
    }

    /// The shards in order.
    #[must_use]
    pub fn shards(&self) -> &[Shard] {
        &self.shards
    }

    /// How many tensors there are.
    #[must_use]
    pub fn tensor_count(&self) -> usize {
        self.tensors.len()
    }

    /// All tensors in order.
    pub(crate) fn tensors(&self) -> &[Tensor] {
        &self.tensors
    }

    /// Every tensor that comes again, with the file that has it first and the one that has it again.
    fn duplicates(&self) -> Vec<(&str, [&Path; 2])> {
        let mut names: Vec<(&str, usize)> = Vec::with_capacity(self.tensors.len());
        for (index, shard) in self.shards.iter().enumerate() {
            let tensors = &self.tensors[shard.tensors.clone()];
            names.extend(tensors.iter().map(|tensor| (&*tensor.name, index)));
        }
        names.sort_unstable();
        let path = |index: usize| self.shards[index].path();
        names
            .windows(2)
            .filter(|pair| pair[0].0 == pair[1].0)
            .map(|pair| (pair[0].0, [path(pair[0].1), path(pair[1].1)]))
            .collect()
    }

    /// Maps all shards, in order. The first holds the metadata.
    ///
    /// # Errors
    /// One cannot be read any more.
    pub fn map(&self) -> Result<Vec<FileBytes>, Error> {
        let open = |shard: &Shard| FileBytes::open(&shard.path).map_err(Error::from);
        self.shards.iter().map(open).collect()
    }
}

/// A file name taken apart.
fn shard_name(path: &Path) -> Option<ShardName<'_>> {
    ShardName::parse(path.file_name()?.to_str()?)
}

/// The path of another shard of the same set.
pub(crate) fn sibling(path: &Path, name: &ShardName<'_>, number: u32) -> PathBuf {
    path.with_file_name(ShardName { number, ..*name }.to_string())
}

/// Which shard a file must be.
struct Place<'a> {
    name: ShardName<'a>,
    number: u32,
}

impl Place<'_> {
    /// Checks the `split.*` keys; the first total that is found is the one for all.
    fn check(&self, gguf: &Gguf<'_>, total: &mut Option<u64>, tell: &mut dyn FnMut(FaultKind)) {
        let mut get = |key: &'static str| {
            let value = gguf.get_u64(key);
            let value = value.and_then(|value| value.ok_or(KeyError::Missing { key }));
            value.map_err(|error| tell(FaultKind::Key(error))).ok()
        };
        let no = get(keys::SPLIT_NO);
        let count = get(keys::SPLIT_COUNT);
        let tensors = get(keys::SPLIT_TENSORS_COUNT);
        let expected = u64::from(self.number) - 1;
        if let Some(found) = no.filter(|&found| found != expected) {
            tell(FaultKind::Number { found, expected });
        }
        let expected = u64::from(self.name.count);
        if let Some(found) = count.filter(|&found| found != expected) {
            tell(FaultKind::Count { found, expected });
        }
        let Some(found) = tensors else { return };
        let expected = *total.get_or_insert(found);
        if found != expected {
            tell(FaultKind::Total { found, expected });
        }
    }
}

/// A key of a later shard that the first has not, or with another value. `split.*` and the
/// alignment are each shard's own.
fn foreign_key(gguf: &Gguf<'_>, first: &FileBytes) -> Option<String> {
    let own = |key: &str| is_split_key(key) || key == keys::GENERAL_ALIGNMENT;
    let mut others = gguf.metadata().filter(|entry| !own(entry.key())).peekable();
    others.peek()?;
    let first = first.gguf().ok()?;
    others
        .find(|entry| first.get(entry.key()) != Some(entry.value))
        .map(|entry| entry.key().to_owned())
}
