//! Files under temporary names, which a failure removes.

use std::{
    ffi::OsString,
    fs::File,
    path::{Path, PathBuf},
};

use crate::{Error, disk::Disk};

/// The name that `path` has while it is written: hidden, and no model's. It can be foreseen, so
/// that what a killed process has left is used again and not added to.
pub(crate) fn part_of(path: &Path) -> PathBuf {
    with_suffix(path, ".part")
}

/// `.NAME` and a suffix, beside `path`.
pub(crate) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(suffix);
    path.with_file_name(name)
}

/// What is to be removed unless all goes well.
#[derive(Debug)]
pub(crate) struct Cleanup<'a, D: Disk> {
    disk: &'a D,
    files: Vec<PathBuf>,
    folder: Option<PathBuf>,
}

impl<'a, D: Disk> Cleanup<'a, D> {
    pub(crate) fn new(disk: &'a D) -> Self {
        Self {
            disk,
            files: Vec::new(),
            folder: None,
        }
    }

    /// Makes a folder that was not there.
    pub(crate) fn create_folder(&mut self, path: &Path) -> Result<(), Error> {
        let made = self.disk.create_folder(path);
        made.map_err(|error| Error::write(path, error))?;
        self.folder = Some(path.to_owned());
        Ok(())
    }

    /// Starts the temporary file of `output`, empty.
    pub(crate) fn part(&mut self, output: &Path) -> Result<File, Error> {
        let path = part_of(output);
        let fail = |error| Error::write(output, error);
        let file = self.disk.open(&path).map_err(fail)?;
        self.files.push(path);
        self.disk.set_len(&file, 0).map_err(fail)?;
        Ok(file)
    }

    /// Also removes this file.
    pub(crate) fn also(&mut self, path: &Path) {
        self.files.push(path.to_owned());
    }

    /// No longer removes this file.
    pub(crate) fn but(&mut self, path: &Path) {
        self.files.retain(|file| file != path);
    }

    /// All went well: removes nothing.
    pub(crate) fn done(mut self) {
        self.files.clear();
        self.folder = None;
    }
}

impl<D: Disk> Drop for Cleanup<'_, D> {
    fn drop(&mut self) {
        // There is an error already that says more than one from here would.
        for file in &self.files {
            let _ = self.disk.remove(file);
        }
        if let Some(folder) = &self.folder {
            let _ = self.disk.remove_folder(folder);
        }
    }
}
