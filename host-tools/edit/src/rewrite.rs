//! A file with its metadata, names or set of tensors changed. Tensor data go from file to file by
//! range and are never held.

use std::{borrow::Cow, fs::OpenOptions, io, io::Seek, io::SeekFrom, io::Write, path::Path};

use smidgen_core::gguf::{
    DEFAULT_ALIGNMENT, Gguf, MAX_NAME_LEN, TensorInfo, Value, Writer, align_up, keys,
};
use smidgen_io::{AtomicFile, Error, FileBytes, Overwrite, OwnedValue, vocab_index};

use crate::{
    EditError, Glob, Split, TypeSpec,
    check::{self, Before},
    model_keys::Expected,
};

/// A value as it was, or a new one.
#[derive(Clone, Debug)]
enum Held<'a> {
    Kept(Value<'a>),
    New(OwnedValue),
}

impl Held<'_> {
    fn as_value(&self) -> Value<'_> {
        match self {
            Self::Kept(value) => *value,
            Self::New(value) => value.as_value(),
        }
    }
}

/// A file's contents, to be changed and written.
#[derive(Debug)]
pub struct Rewrite<'a> {
    source: &'a FileBytes,
    gguf: Gguf<'a>,
    entries: Vec<(Cow<'a, str>, Held<'a>)>,
    tensors: Vec<(Cow<'a, str>, TensorInfo<'a>)>,
}

/// Where a changed file goes.
#[derive(Clone, Copy, Debug)]
pub enum Target<'p> {
    /// Takes the place of the file, in one step.
    Replace,
    /// Only the bytes that change are written into the file itself: fast for large files, but what
    /// is written when the machine stops may be half of the change.
    Patch,
    /// Another file.
    New(&'p Path, Overwrite),
}

impl<'a> Rewrite<'a> {
    /// The contents of a valid file.
    ///
    /// # Errors
    /// The file is no valid GGUF.
    pub fn of(source: &'a FileBytes) -> Result<Self, EditError> {
        let gguf = source.gguf()?;
        let entry = |entry: smidgen_core::gguf::Entry<'a>| {
            (Cow::Borrowed(entry.key()), Held::Kept(entry.value))
        };
        let entries = gguf.metadata().map(entry).collect();
        let tensors = gguf.tensors();
        let tensors = tensors.map(|info| (Cow::Borrowed(info.name()), info));
        Ok(Self {
            source,
            gguf,
            entries,
            tensors: tensors.collect(),
        })
    }

    /// The file as it is.
    #[must_use]
    pub fn gguf(&self) -> &Gguf<'a> {
        &self.gguf
    }

    /// The value of `key` after the changes so far.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<Value<'_>> {
        self.entries
            .iter()
            .find(|entry| entry.0 == key)
            .map(|entry| entry.1.as_value())
    }

    /// All keys in order, after the changes so far.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|entry| &entry.0[..])
    }

    /// The names of all tensors in order, after the changes so far.
    pub fn tensor_names(&self) -> impl Iterator<Item = &str> {
        self.tensors.iter().map(|tensor| &tensor.0[..])
    }

    /// The type that the value of `key` has, or, where it is not there, must have by the
    /// specification.
    ///
    /// # Errors
    /// Nothing is known about the key.
    pub fn type_of(&self, key: &str) -> Result<TypeSpec, EditError> {
        if let Some(value) = self.get(key) {
            return Ok(TypeSpec::of(&value));
        }
        let architecture = self.get(keys::GENERAL_ARCHITECTURE);
        let architecture = architecture.as_ref().and_then(Value::as_str);
        let expected = Expected::of(key, architecture);
        let ty = expected.and_then(Expected::usual_type);
        ty.ok_or_else(|| EditError::NoType { key: key.into() })
    }

    /// Sets `key`, where it stands or, when it is new, behind all others.
    ///
    /// # Errors
    /// The format does not allow such a key.
    pub fn set(&mut self, key: &str, value: OwnedValue) -> Result<(), EditError> {
        check_key(key)?;
        match self.entries.iter_mut().find(|entry| entry.0 == key) {
            Some(entry) => entry.1 = Held::New(value),
            None => self
                .entries
                .push((Cow::Owned(key.into()), Held::New(value))),
        }
        Ok(())
    }

    /// Removes `key`.
    ///
    /// # Errors
    /// It is not there.
    pub fn remove(&mut self, key: &str) -> Result<(), EditError> {
        let before = self.entries.len();
        self.entries.retain(|entry| entry.0 != key);
        if self.entries.len() == before {
            return Err(EditError::NoKey { key: key.into() });
        }
        Ok(())
    }

    /// Renames `old` where it stands.
    ///
    /// # Errors
    /// `old` is not there, `new` is, or the format does not allow it.
    pub fn rename(&mut self, old: &str, new: &str) -> Result<(), EditError> {
        check_key(new)?;
        if self.get(new).is_some() {
            return Err(EditError::KeyExists { key: new.into() });
        }
        let entry = self.entries.iter_mut().find(|entry| entry.0 == old);
        let Some(entry) = entry else {
            return Err(EditError::NoKey { key: old.into() });
        };
        entry.0 = Cow::Owned(new.into());
        Ok(())
    }

    /// Sets all keys of another file that fit one of the patterns, and tells their number. Without
    /// patterns these are all but those that say how this file is laid out: the alignment and
    /// `split.*`.
    ///
    /// # Errors
    /// A pattern fits no key.
    pub fn copy_from(&mut self, other: &Gguf<'_>, patterns: &[Glob]) -> Result<usize, EditError> {
        for pattern in patterns {
            if !other.metadata().any(|entry| pattern.fits(entry.key())) {
                let key = pattern.to_string();
                return Err(EditError::NoKey { key });
            }
        }
        let wanted = |key: &str| match patterns {
            [] => key != keys::GENERAL_ALIGNMENT && !key.starts_with("split."),
            patterns => patterns.iter().any(|pattern| pattern.fits(key)),
        };
        let mut count = 0;
        for entry in other.metadata().filter(|entry| wanted(entry.key())) {
            self.set(entry.key(), OwnedValue::from(entry.value))?;
            count += 1;
        }
        Ok(count)
    }

    /// Gives each tensor the name that `rename` tells, if it tells one.
    ///
    /// # Errors
    /// Two tensors would have the same name, or the format does not allow one. Nothing is changed
    /// then.
    pub fn rename_tensors(
        &mut self,
        rename: impl Fn(&str) -> Option<String>,
    ) -> Result<(), EditError> {
        let mut tensors = self.tensors.clone();
        let mut names = std::collections::HashSet::new();
        for (name, _) in &mut tensors {
            if let Some(new) = rename(name) {
                if new.is_empty() || new.len() > MAX_NAME_LEN || new.contains('\0') {
                    return Err(EditError::BadName { name: new });
                }
                *name = Cow::Owned(new);
            }
        }
        for (name, _) in &tensors {
            if !names.insert(name) {
                let name = name.clone().into_owned();
                return Err(EditError::TensorExists { name });
            }
        }
        self.tensors = tensors;
        Ok(())
    }

    /// Removes the tensors that `wanted` picks and tells their number.
    ///
    /// # Errors
    /// The file is one of several.
    pub fn remove_tensors(&mut self, wanted: impl Fn(&str) -> bool) -> Result<usize, EditError> {
        if Split::of(&self.gguf).is_some_and(|split| split.is_shard()) {
            return Err(EditError::Shard);
        }
        let before = self.tensors.len();
        self.tensors.retain(|tensor| !wanted(&tensor.0));
        Ok(before - self.tensors.len())
    }

    /// Writes the changed file.
    ///
    /// Where the tokens have changed, the arrays `smidgen.tokenizer.*` are built again, or dropped
    /// when there are no tokens any more. Tensors stay where they are, counted from the start of
    /// the data, unless some are gone or the alignment is another one.
    ///
    /// # Errors
    /// Reading or writing fails; the changed file would be wrong where this one is not, unless
    /// `force` is set; a patch would have to move something. The file is as it was then.
    pub fn write(mut self, target: Target<'_>, force: bool) -> Result<(), EditError> {
        self.fix_index();
        // Who changes the tensors knows what he has them for.
        let names = self.gguf.tensors().map(|info| info.name());
        let as_model = names.eq(self.tensor_names());
        let before = Before::of(self.source, &self.gguf, as_model);
        let alignment = self.alignment()?;
        let moved =
            alignment != self.gguf.alignment() || self.tensors.len() != self.gguf.tensor_count();
        let (head, unpadded) = self.head(alignment, moved)?;
        let same = self.source.get(..head.len()) == Some(&head[..]);
        if same && !moved && matches!(target, Target::Replace) {
            return Ok(());
        }
        let (path, overwrite) = match target {
            Target::Patch => return self.patch(&head, unpadded, moved, &before, force),
            Target::Replace => (self.source.path(), Overwrite::Replace),
            Target::New(path, overwrite) => (path, overwrite),
        };
        let mut file = AtomicFile::create(path, overwrite)?;
        let written = self.write_to(&mut file, &head, alignment, moved);
        written.map_err(|source| Error::Write {
            path: path.to_owned(),
            source,
        })?;
        check::not_worse(&before, &file.written()?, force)?;
        file.commit()?;
        Ok(())
    }

    fn write_to(
        &self,
        file: &mut AtomicFile,
        head: &[u8],
        alignment: u32,
        moved: bool,
    ) -> io::Result<()> {
        file.write_all(head)?;
        let out = file.file_mut()?;
        let data = self.gguf.data_offset();
        if !moved {
            return self.source.copy_range(data, self.gguf.data_len(), out);
        }
        for (_, info) in &self.tensors {
            let len = info.byte_len().unwrap_or(0);
            self.source.copy_range(data + info.offset(), len, out)?;
            let at = out.stream_position()?;
            let end = align_up(at, alignment).ok_or(io::ErrorKind::FileTooLarge)?;
            out.set_len(end)?;
            out.seek(SeekFrom::Start(end))?;
        }
        Ok(())
    }

    /// Writes what changes in the head into the file itself.
    fn patch(
        self,
        head: &[u8],
        unpadded: usize,
        moved: bool,
        before: &Before,
        force: bool,
    ) -> Result<(), EditError> {
        let infos_end = self.gguf.infos_end();
        if moved || unpadded as u64 != infos_end || self.gguf.version() == 1 {
            return Err(EditError::NotInPlace {
                before: infos_end,
                after: unpadded as u64,
            });
        }
        let (new, old) = (&head[..unpadded], &self.source[..unpadded]);
        let differs = |at: &usize| new[*at] != old[*at];
        let Some(first) = (0..unpadded).find(differs) else {
            return Ok(());
        };
        let last = (0..unpadded).rfind(differs).unwrap_or(first);
        let change = new[first..=last].to_vec();
        check::not_worse(before, &self.source.with_change(first, &change)?, force)?;
        let path = self.source.path();
        let write = || -> io::Result<()> {
            let mut file = OpenOptions::new().write(true).open(path)?;
            file.seek(SeekFrom::Start(first as u64))?;
            file.write_all(&change)?;
            file.sync_all()
        };
        write().map_err(|source| {
            let path = path.to_owned();
            EditError::Io(Error::Write { path, source })
        })
    }

    fn alignment(&self) -> Result<u32, EditError> {
        match self.get(keys::GENERAL_ALIGNMENT) {
            None => Ok(DEFAULT_ALIGNMENT),
            Some(Value::U32(n)) if n.is_power_of_two() => Ok(n),
            Some(_) => Err(EditError::Alignment),
        }
    }

    /// Header, metadata, tensor infos and padding, and how many bytes are not padding.
    fn head(&self, alignment: u32, moved: bool) -> Result<(Vec<u8>, usize), EditError> {
        let mut head = Vec::new();
        let sink = |part: &[u8]| -> Result<(), std::convert::Infallible> {
            head.extend_from_slice(part);
            Ok(())
        };
        let version = match self.gguf.version() {
            1 => 3,
            other => other,
        };
        let (entries, tensors) = (self.entries.len() as u64, self.tensors.len() as u64);
        let mut writer = Writer::with_version(sink, version, entries, tensors)?;
        for (key, value) in &self.entries {
            writer.metadata(key, &value.as_value())?;
        }
        let mut packed = 0_u64;
        for (name, info) in &self.tensors {
            let offset = if moved { packed } else { info.offset() };
            let placed = TensorInfo::new(name, info.dims(), info.ty(), offset);
            writer.tensor(&placed.ok_or(EditError::Alignment)?)?;
            let end = packed.checked_add(info.byte_len().unwrap_or(0));
            packed = end
                .and_then(|end| align_up(end, alignment))
                .ok_or(EditError::Alignment)?;
        }
        let unpadded = usize::try_from(writer.written()).unwrap_or(usize::MAX);
        writer.finish(alignment)?;
        Ok((head, unpadded))
    }

    /// Builds the arrays that find tokens again where the tokens have changed.
    fn fix_index(&mut self) {
        let arrays = [
            keys::SMIDGEN_TOKENIZER_OFFSETS,
            keys::SMIDGEN_TOKENIZER_SORTED,
        ];
        let there = |key: &&str| self.get(key).is_some();
        let tokens = self.get(keys::TOKENIZER_GGML_TOKENS);
        let same = match (tokens, self.gguf.get(keys::TOKENIZER_GGML_TOKENS)) {
            (Some(new), Some(old)) => new == old,
            (new, old) => new.is_none() && old.is_none(),
        };
        if same || !arrays.iter().any(there) {
            return;
        }
        let index = match tokens {
            Some(Value::Array(tokens)) => vocab_index(&tokens),
            _ => None,
        };
        self.entries
            .retain(|entry| index.is_some() || !arrays.contains(&&entry.0[..]));
        if let Some((offsets, sorted)) = index {
            for (key, array) in arrays.into_iter().zip([offsets, sorted]) {
                // These keys are allowed.
                let _ = self.set(key, array);
            }
        }
    }
}

fn check_key(key: &str) -> Result<(), EditError> {
    if key.is_empty() || key.len() > 65_535 || key.contains('\0') {
        return Err(EditError::BadKey { key: key.into() });
    }
    Ok(())
}
