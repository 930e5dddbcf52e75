//! Hashes of tensor data, as `llama-gguf-hash` makes them.

use std::{fmt, hash::Hasher as _, str::FromStr};

use sha1::Sha1;
use sha2::{Digest, Sha256};
use smidgen_core::gguf::Gguf;
use smidgen_io::{Error, FileBytes};
use twox_hash::XxHash64;

use crate::{EditError, json};

/// A kind of hash, in the order in which llama-gguf-hash prints them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HashKind {
    /// XXH64 with seed 0.
    Xxh64,
    /// SHA-1.
    Sha1,
    /// SHA-256.
    Sha256,
    /// A UUID of version 5 in llama.cpp's namespace, of the whole model only.
    Uuid,
}

impl HashKind {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Xxh64, Self::Sha1, Self::Sha256, Self::Uuid];

    /// Its name in a manifest.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Xxh64 => "xxh64",
            Self::Sha1 => "sha1",
            Self::Sha256 => "sha256",
            Self::Uuid => "uuid",
        }
    }

    fn state(self) -> State {
        match self {
            Self::Xxh64 => State::Xxh64(XxHash64::with_seed(0)),
            Self::Sha1 => State::Sha1(Sha1::new()),
            Self::Sha256 => State::Sha256(Sha256::new()),
            Self::Uuid => State::Uuid(Sha1::new().chain_update(NAMESPACE)),
        }
    }
}

/// The UUID of `en.wikipedia.org/wiki/Llama.cpp` in the namespace of URLs.
const NAMESPACE: [u8; 16] = [
    0xef, 0x00, 0x12, 0x06, 0xda, 0xdc, 0x5f, 0x6d, 0xa1, 0x5f, 0x33, 0x59, 0xe5, 0x77, 0xd4, 0xe5,
];

#[derive(Debug)]
enum State {
    Xxh64(XxHash64),
    Sha1(Sha1),
    Sha256(Sha256),
    Uuid(Sha1),
}

impl State {
    fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Xxh64(state) => state.write(bytes),
            Self::Sha1(state) | Self::Uuid(state) => state.update(bytes),
            Self::Sha256(state) => state.update(bytes),
        }
    }

    fn finish(self) -> String {
        match self {
            Self::Xxh64(state) => format!("{:016x}", state.finish()),
            Self::Sha1(state) => json::hex(&state.finalize()),
            Self::Sha256(state) => json::hex(&state.finalize()),
            Self::Uuid(state) => {
                let digest = state.finalize();
                let mut uuid = [0; 16];
                uuid.copy_from_slice(&digest[..16]);
                uuid[6] = uuid[6] & 0x0f | 0x50;
                uuid[8] = uuid[8] & 0x3f | 0x80;
                let hex = json::hex(&uuid);
                let (a, b, c) = (&hex[..8], &hex[8..12], &hex[12..16]);
                format!("{a}-{b}-{c}-{}-{}", &hex[16..20], &hex[20..])
            }
        }
    }
}

/// A hash of a tensor or of all tensors: a line of a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hash {
    /// Its kind.
    pub kind: HashKind,
    /// Hexadecimal digits, or a UUID.
    pub digest: String,
    /// The tensor; `None` for all of them together.
    pub tensor: Option<String>,
}

impl Hash {
    /// What a manifest says of a file: `file` for all tensors, `file:tensor` for one.
    #[must_use]
    pub fn subject(&self, file: &str) -> String {
        match &self.tensor {
            Some(tensor) => format!("{file}:{tensor}"),
            None => file.to_owned(),
        }
    }

    /// The line of a manifest, without its end.
    #[must_use]
    pub fn line(&self, file: &str) -> String {
        let (kind, digest) = (self.kind.name(), &self.digest);
        format!("{kind:<8}  {digest}  {}", self.subject(file))
    }
}

/// Bytes that are read at a time.
const CHUNK: usize = 1 << 20;

/// Hashes the data of all tensors in the order of the file, padding left out. `progress` is told
/// how many bytes of how many are done.
///
/// # Errors
/// Reading fails.
pub fn hash(
    file: &FileBytes,
    gguf: &Gguf<'_>,
    kinds: &[HashKind],
    per_tensor: bool,
    mut progress: impl FnMut(u64, u64),
) -> Result<Vec<Hash>, Error> {
    let mut hashes = Vec::new();
    let mut all: Vec<_> = kinds.iter().map(|&kind| (kind, kind.state())).collect();
    let mut buffer = vec![0; CHUNK];
    let lens = gguf.tensors().map(|info| info.byte_len().unwrap_or(0));
    let (mut done, total) = (0, lens.sum());
    for info in gguf.tensors() {
        let single = kinds
            .iter()
            .filter(|&&kind| per_tensor && kind != HashKind::Uuid);
        let mut single: Vec<_> = single.map(|&kind| (kind, kind.state())).collect();
        let mut at = gguf.data_offset() + info.offset();
        let mut left = info.byte_len().unwrap_or(0);
        while left > 0 {
            let len = usize::try_from(left).unwrap_or(CHUNK).min(CHUNK);
            let part = &mut buffer[..len];
            file.read_at(part, at)?;
            for (_, state) in all.iter_mut().chain(&mut single) {
                state.update(part);
            }
            at += len as u64;
            left -= len as u64;
            done += len as u64;
            progress(done, total);
        }
        let hash = |(kind, state): (HashKind, State)| Hash {
            kind,
            digest: state.finish(),
            tensor: Some(info.name().to_owned()),
        };
        hashes.extend(single.into_iter().map(hash));
    }
    hashes.extend(all.into_iter().map(|(kind, state)| Hash {
        kind,
        digest: state.finish(),
        tensor: None,
    }));
    Ok(hashes)
}

/// The lines of a manifest that say something of hashes that are known here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    lines: Vec<(HashKind, String, String)>,
}

impl FromStr for Manifest {
    type Err = EditError;

    /// Reads what `smidgen hash` or llama-gguf-hash has printed. Lines of other kinds of hash are
    /// passed over.
    fn from_str(text: &str) -> Result<Self, EditError> {
        let line = |line: &str| {
            let (kind, rest) = line.split_once(char::is_whitespace)?;
            let (digest, subject) = rest.trim_start().split_once("  ")?;
            let mut kinds = HashKind::ALL.into_iter();
            let kind = kinds.find(|known| known.name() == kind)?;
            Some((kind, digest.to_owned(), subject.to_owned()))
        };
        let lines: Vec<_> = text.lines().filter_map(line).collect();
        if lines.is_empty() {
            return Err(EditError::Syntax {
                message: "no manifest: no line is `KIND  HASH  FILE`".into(),
            });
        }
        Ok(Self { lines })
    }
}

/// What a manifest says about a hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checked {
    /// The same.
    Ok,
    /// Another one.
    Mismatch,
    /// Nothing.
    NotFound,
}

impl fmt::Display for Checked {
    /// In llama-gguf-hash's words.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ok => "Ok",
            Self::Mismatch => "Mismatch",
            Self::NotFound => "Not Found",
        })
    }
}

impl Manifest {
    /// The kinds of hash that it has.
    #[must_use]
    pub fn kinds(&self) -> Vec<HashKind> {
        let mut kinds: Vec<_> = self.lines.iter().map(|line| line.0).collect();
        kinds.sort_unstable();
        kinds.dedup();
        kinds
    }

    /// Whether it has lines about single tensors of `file`.
    #[must_use]
    pub fn has_tensors(&self, file: &str) -> bool {
        let of_tensor = |subject: &str| {
            let tensor = strip_file(subject, file);
            tensor.is_some_and(|rest| rest.starts_with(':'))
        };
        self.lines.iter().any(|line| of_tensor(&line.2))
    }

    /// What it says about a hash of `file`. Folders in either path make no difference: what is
    /// checked may have been moved since.
    #[must_use]
    pub fn check(&self, hash: &Hash, file: &str) -> Checked {
        let tensor = hash.tensor.as_ref().map(|tensor| format!(":{tensor}"));
        let tensor = tensor.unwrap_or_default();
        let mut lines = self.lines.iter().filter(|(kind, _, subject)| {
            *kind == hash.kind && strip_file(subject, file) == Some(&tensor)
        });
        match lines.next() {
            Some((_, digest, _)) if *digest == hash.digest => Checked::Ok,
            Some(_) => Checked::Mismatch,
            None => Checked::NotFound,
        }
    }
}

/// What follows the file's path in a manifest's subject; paths are the same when their last parts
/// are.
fn strip_file<'s>(subject: &'s str, file: &str) -> Option<&'s str> {
    if let Some(rest) = subject.strip_prefix(file) {
        return Some(rest).filter(|rest| rest.is_empty() || rest.starts_with(':'));
    }
    let name = |path: &str| path.rsplit(['/', '\\']).next().unwrap_or_default().len();
    let file = &file[file.len() - name(file)..];
    // A tensor's name may hold a slash, a file's name cannot.
    let starts = subject.match_indices(['/', '\\']).map(|(at, _)| at + 1);
    let mut starts = std::iter::once(0).chain(starts);
    starts.find_map(|at| {
        let rest = subject[at..].strip_prefix(file)?;
        (rest.is_empty() || rest.starts_with(':')).then_some(rest)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(kind: HashKind, digest: &str, tensor: Option<&str>) -> Hash {
        Hash {
            kind,
            digest: digest.into(),
            tensor: tensor.map(String::from),
        }
    }

    #[test]
    fn known_digests() {
        for (kind, of_abc) in [
            (HashKind::Xxh64, "44bc2cf5ad770999"),
            (HashKind::Sha1, "a9993e364706816aba3e25717850c26c9cd0d89d"),
            (
                HashKind::Sha256,
                "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
            ),
            // python3 -c "import uuid; print(uuid.uuid5(uuid.UUID(NAMESPACE), 'abc'))"
            (HashKind::Uuid, "9f2200fc-45e8-5a39-9535-c3ea5c0e0cef"),
        ] {
            let mut state = kind.state();
            state.update(b"a");
            state.update(b"bc");
            assert_eq!(state.finish(), of_abc, "{kind:?}");
        }
    }

    #[test]
    fn manifests_are_found_by_the_files_name() {
        let text = "manifest  x  sha256\n\
                    xxh64     11  old/m.gguf:blk.0/a\n\
                    xxh3      22  old/m.gguf\n\
                    sha1      33  old/m.gguf\n";
        let manifest: Manifest = text.parse().unwrap();
        assert_eq!(manifest.kinds(), [HashKind::Xxh64, HashKind::Sha1]);
        assert!(manifest.has_tensors("new/m.gguf"));
        assert!(!manifest.has_tensors("n.gguf"));
        let check = |found: Hash, file: &str| manifest.check(&found, file);
        let whole = |digest| hash(HashKind::Sha1, digest, None);
        assert_eq!(check(whole("33"), "m.gguf"), Checked::Ok);
        assert_eq!(check(whole("33"), "/new/m.gguf"), Checked::Ok);
        assert_eq!(check(whole("34"), "m.gguf"), Checked::Mismatch);
        assert_eq!(check(whole("33"), "xm.gguf"), Checked::NotFound);
        assert_eq!(check(whole("33"), "gguf"), Checked::NotFound);
        let tensor = hash(HashKind::Xxh64, "11", Some("blk.0/a"));
        assert_eq!(check(tensor, "m.gguf"), Checked::Ok);
        assert!("nothing\n".parse::<Manifest>().is_err());
        assert!("".parse::<Manifest>().is_err());
    }
}
