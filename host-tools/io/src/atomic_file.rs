//! Output that appears whole under its name, or not at all.

use std::{
    fs::{self, File},
    io::{self, BufWriter, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

use tempfile::NamedTempFile;

use crate::{Error, FileBytes};

/// What to do when the output exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overwrite {
    /// Leave it and fail.
    Refuse,
    /// Replace it at the end, in one step.
    Replace,
}

/// A file that is written under a temporary name in the output's folder. [`commit`](Self::commit)
/// puts it on the disk and gives it its name; dropped without, it is removed.
///
/// The temporary name starts with a dot and ends in `.part`: what a killed process leaves behind
/// cannot be taken for a model.
#[derive(Debug)]
pub struct AtomicFile {
    path: PathBuf,
    overwrite: Overwrite,
    writer: BufWriter<NamedTempFile>,
}

impl AtomicFile {
    /// Starts an output. A symbolic link is followed: what it points to will be replaced.
    ///
    /// # Errors
    /// The output exists and must not be replaced, is no regular file, or its folder cannot be
    /// written to.
    pub fn create(path: impl AsRef<Path>, overwrite: Overwrite) -> Result<Self, Error> {
        let given = path.as_ref();
        let fail = |source| Error::Write {
            path: given.to_owned(),
            source,
        };
        let path = output_path(given, overwrite)?;
        let permissions = fs::metadata(&path).ok().map(|found| found.permissions());
        let Some(name) = path.file_name() else {
            return Err(Error::NotAFile {
                path: given.to_owned(),
            });
        };
        let mut prefix = std::ffi::OsString::from(".");
        prefix.push(name);
        prefix.push(".");
        let mut builder = tempfile::Builder::new();
        builder.prefix(&prefix).suffix(".part");
        #[cfg(unix)]
        let builder = {
            use std::os::unix::fs::PermissionsExt;
            // As for any new file: all may read and write but whom the umask excludes.
            builder.permissions(fs::Permissions::from_mode(0o666))
        };
        // Else the message would name the temporary file, of which nobody knows.
        fs::metadata(folder_of(&path)).map_err(fail)?;
        let file = builder.tempfile_in(folder_of(&path)).map_err(fail)?;
        if let Some(permissions) = permissions {
            file.as_file().set_permissions(permissions).map_err(fail)?;
        }
        Ok(Self {
            path,
            overwrite,
            writer: BufWriter::with_capacity(1 << 18, file),
        })
    }

    /// The path that the file will have.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file under its temporary name, with everything written so far flushed to it.
    ///
    /// # Errors
    /// Flushing fails.
    pub fn file_mut(&mut self) -> io::Result<&mut File> {
        self.writer.flush()?;
        Ok(self.writer.get_mut().as_file_mut())
    }

    /// What has been written so far, to be checked before the file gets its name.
    ///
    /// # Errors
    /// Flushing or mapping fails.
    pub fn written(&mut self) -> Result<FileBytes, Error> {
        let path = self.path.clone();
        let file = self.file_mut().and_then(|file| file.try_clone());
        match file {
            Ok(file) => FileBytes::from_file(file, &path),
            Err(source) => Err(Error::Write { path, source }),
        }
    }

    /// Puts the bytes on the disk and gives the file its name.
    ///
    /// # Errors
    /// Writing fails, or the name has been taken meanwhile and must not be replaced. Nothing is
    /// left under the name then.
    pub fn commit(self) -> Result<(), Error> {
        let path = self.path;
        let fail = |source: io::Error| match source.kind() {
            io::ErrorKind::AlreadyExists => Error::Exists { path: path.clone() },
            _ => Error::Write {
                path: path.clone(),
                source,
            },
        };
        let file = self.writer.into_inner().map_err(|e| fail(e.into_error()))?;
        file.as_file().sync_all().map_err(fail)?;
        let named = match self.overwrite {
            Overwrite::Refuse => file.persist_noclobber(&path),
            Overwrite::Replace => file.persist(&path),
        };
        named.map_err(|e| fail(e.error))?;
        sync_folder_of(&path).map_err(fail)
    }
}

impl Write for AtomicFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

impl Seek for AtomicFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.writer.seek(to)
    }
}

/// The path that an output called `given` will have: that of the target where `given` is a symbolic
/// link.
///
/// # Errors
/// It exists and must not be replaced, or is there and no regular file.
pub fn output_path(given: &Path, overwrite: Overwrite) -> Result<PathBuf, Error> {
    let path = match fs::symlink_metadata(given) {
        Ok(found) if found.is_symlink() => {
            fs::canonicalize(given).map_err(|source| Error::Write {
                path: given.to_owned(),
                source,
            })?
        }
        _ => given.to_owned(),
    };
    match fs::metadata(&path) {
        Ok(found) if !found.is_file() => Err(Error::NotAFile {
            path: given.to_owned(),
        }),
        Ok(_) if overwrite == Overwrite::Refuse => Err(Error::Exists {
            path: given.to_owned(),
        }),
        _ => Ok(path),
    }
}

/// The folder that a path lies in.
#[must_use]
pub fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Puts the folder's entry of `path` on the disk, without which a new name can be lost.
///
/// # Errors
/// The folder cannot be opened or synchronised.
pub fn sync_folder_of(path: &Path) -> io::Result<()> {
    #[cfg(unix)]
    File::open(folder_of(path))?.sync_all()?;
    #[cfg(not(unix))]
    let _ = path;
    Ok(())
}

/// Whether two paths lead to the same existing file, by whatever names.
#[must_use]
pub fn same_file(a: &Path, b: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        if let (Ok(a), Ok(b)) = (fs::metadata(a), fs::metadata(b)) {
            return (a.dev(), a.ino()) == (b.dev(), b.ino());
        }
    }
    matches!((fs::canonicalize(a), fs::canonicalize(b)), (Ok(a), Ok(b)) if a == b)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let name = |entry: io::Result<fs::DirEntry>| entry.unwrap().file_name();
        let mut names: Vec<_> = entries
            .map(|entry| name(entry).into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn the_name_appears_with_the_last_step_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.gguf");
        let mut file = AtomicFile::create(&path, Overwrite::Refuse).unwrap();
        file.write_all(b"whole").unwrap();
        file.flush().unwrap();
        let during = names(folder.path());
        assert!(during[0].starts_with(".out.gguf.") && during[0].ends_with(".part"));
        assert_eq!(during.len(), 1);
        file.commit().unwrap();
        assert_eq!(names(folder.path()), ["out.gguf"]);
        assert_eq!(fs::read(&path).unwrap(), b"whole");
    }

    #[test]
    fn a_dropped_output_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        let mut file = AtomicFile::create(&path, Overwrite::Refuse).unwrap();
        file.write_all(&[1; 1 << 20]).unwrap();
        drop(file);
        assert!(names(folder.path()).is_empty());
    }

    #[test]
    fn an_existing_file_is_kept_unless_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        fs::write(&path, "old").unwrap();
        let refused = AtomicFile::create(&path, Overwrite::Refuse);
        assert!(matches!(refused, Err(Error::Exists { .. })));
        let mut file = AtomicFile::create(&path, Overwrite::Replace).unwrap();
        file.write_all(b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"old");
        file.commit().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
    }

    #[test]
    fn a_name_taken_meanwhile_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        let file = AtomicFile::create(&path, Overwrite::Refuse).unwrap();
        fs::write(&path, "theirs").unwrap();
        assert!(matches!(file.commit(), Err(Error::Exists { .. })));
        assert_eq!(fs::read(&path).unwrap(), b"theirs");
        assert_eq!(names(folder.path()), ["out"]);
    }

    #[test]
    fn folders_and_devices_are_no_output() {
        let folder = tempfile::tempdir().unwrap();
        for path in [folder.path(), Path::new("/dev/null")] {
            let refused = AtomicFile::create(path, Overwrite::Replace);
            assert!(matches!(refused, Err(Error::NotAFile { .. })), "{path:?}");
        }
        let missing = folder.path().join("no/such/folder/out");
        let refused = AtomicFile::create(missing, Overwrite::Refuse).unwrap_err();
        let Error::Write { source, .. } = refused else {
            panic!("{refused}");
        };
        assert_eq!(source.kind(), io::ErrorKind::NotFound);
        assert!(!source.to_string().contains(".part"), "{source}");
    }

    #[cfg(unix)]
    #[test]
    fn a_link_stays_and_its_target_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let (target, link) = (folder.path().join("target"), folder.path().join("link"));
        fs::write(&target, "old").unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        assert!(same_file(&target, &link));
        let mut file = AtomicFile::create(&link, Overwrite::Replace).unwrap();
        file.write_all(b"new").unwrap();
        file.commit().unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read(&target).unwrap(), b"new");
    }

    #[cfg(unix)]
    #[test]
    fn permissions_are_kept() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let file = AtomicFile::create(&path, Overwrite::Replace).unwrap();
        file.commit().unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
    }
}
