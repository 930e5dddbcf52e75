//! What splitting and merging do to the disk, one step each.

use std::{
    fs::{self, File, OpenOptions},
    io,
    path::Path,
};

use smidgen_io::{Overwrite, sync_folder_of};
use tempfile::TempPath;

/// The steps that change something. Everything that is written goes through these, so that a test
/// can stop after any of them.
pub(crate) trait Disk {
    /// Opens a file for reading and writing and locks it; makes it when it is not there. Fails with
    /// [`io::ErrorKind::WouldBlock`] when another process holds it.
    fn open(&self, path: &Path) -> io::Result<File>;

    /// Makes a folder.
    fn create_folder(&self, path: &Path) -> io::Result<()>;

    /// Cuts a file, or makes it longer; what is new reads as zeros.
    fn set_len(&self, file: &File, len: u64) -> io::Result<()>;

    /// Writes all of `bytes` at a place.
    fn write(&self, file: &File, bytes: &[u8], at: u64) -> io::Result<()>;

    /// Copies bytes from one file to another. Fails with [`io::ErrorKind::UnexpectedEof`] when
    /// `from` has not that many.
    fn copy(&self, from: &File, from_at: u64, to: &File, to_at: u64, len: u64) -> io::Result<()>;

    /// Puts a file's bytes on the disk.
    fn sync(&self, file: &File) -> io::Result<()>;

    /// Gives a file another name in one step.
    fn rename(&self, from: &Path, to: &Path, overwrite: Overwrite) -> io::Result<()>;

    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Removes an empty folder.
    fn remove_folder(&self, path: &Path) -> io::Result<()>;

    /// Puts the entries of the folder that `path` lies in on the disk: new names, and names gone.
    fn sync_folder_of(&self, path: &Path) -> io::Result<()>;
}

/// The real disk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RealDisk;

impl Disk for RealDisk {
    fn open(&self, path: &Path) -> io::Result<File> {
        loop {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create(true).truncate(false);
            #[cfg(unix)]
            {
                use std::os::unix::fs::OpenOptionsExt as _;
                // The name can be foreseen: nobody shall lead us to another file with a link.
                options.custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed());
            }
            let file = options.open(path)?;
            lock(&file)?;
            // Between opening and locking, its owner may have given the file its final name.
            if is_at(&file, path) {
                return Ok(file);
            }
        }
    }

    fn create_folder(&self, path: &Path) -> io::Result<()> {
        fs::create_dir(path)
    }

    fn set_len(&self, file: &File, len: u64) -> io::Result<()> {
        file.set_len(len)
    }

    fn write(&self, file: &File, bytes: &[u8], at: u64) -> io::Result<()> {
        write_at(file, bytes, at)
    }

    fn copy(&self, from: &File, from_at: u64, to: &File, to_at: u64, len: u64) -> io::Result<()> {
        let done = copy_in_kernel(from, from_at, to, to_at, len)?;
        copy_buffered(from, from_at + done, to, to_at + done, len - done)
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        file.sync_all()
    }

    fn rename(&self, from: &Path, to: &Path, overwrite: Overwrite) -> io::Result<()> {
        let mut from = TempPath::try_from_path(from)?;
        from.disable_cleanup(true);
        match overwrite {
            Overwrite::Refuse => from.persist_noclobber(to),
            Overwrite::Replace => from.persist(to),
        }
        .map_err(|error| error.error)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn remove_folder(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir(path)
    }

    fn sync_folder_of(&self, path: &Path) -> io::Result<()> {
        sync_folder_of(path)
    }
}

/// Locks a file for this process; file systems without locks are taken as they are.
fn lock(file: &File) -> io::Result<()> {
    #[cfg(unix)]
    {
        use rustix::{fs::FlockOperation, io::Errno};
        let locked = rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive);
        if locked == Err(Errno::WOULDBLOCK) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
    }
    #[cfg(not(unix))]
    let _ = file;
    Ok(())
}

/// Whether `path` still leads to `file`.
fn is_at(file: &File, path: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        let (Ok(open), Ok(named)) = (file.metadata(), fs::symlink_metadata(path)) else {
            return false;
        };
        (open.dev(), open.ino()) == (named.dev(), named.ino())
    }
    #[cfg(not(unix))]
    {
        let _ = (file, path);
        true
    }
}

/// Lets the kernel copy, which shares the blocks where the file system can (and both places are at
/// the start of a block). Tells how many bytes it did: where it cannot at all, none.
#[cfg(target_os = "linux")]
fn copy_in_kernel(
    from: &File,
    mut from_at: u64,
    to: &File,
    mut to_at: u64,
    len: u64,
) -> io::Result<u64> {
    use rustix::io::Errno;
    let mut done = 0;
    while done < len {
        let left = usize::try_from(len - done).unwrap_or(usize::MAX);
        match rustix::fs::copy_file_range(from, Some(&mut from_at), to, Some(&mut to_at), left) {
            Ok(0) => break,
            Ok(copied) => done += copied as u64,
            Err(Errno::INTR) => {}
            // Not between these two files, not on this file system, not in this kernel, or not
            // under these rules.
            Err(
                Errno::XDEV
                | Errno::NOSYS
                | Errno::OPNOTSUPP
                | Errno::INVAL
                | Errno::PERM
                | Errno::ACCESS
                | Errno::TXTBSY,
            ) => break,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(done)
}

#[cfg(not(target_os = "linux"))]
fn copy_in_kernel(_: &File, _: u64, _: &File, _: u64, _: u64) -> io::Result<u64> {
    Ok(0)
}

/// Bytes that are read and written, or compared, at once.
pub(crate) const BUFFER: usize = 1 << 20;

fn copy_buffered(
    from: &File,
    mut from_at: u64,
    to: &File,
    mut to_at: u64,
    mut len: u64,
) -> io::Result<()> {
    let mut buffer = vec![0; usize::try_from(len).map_or(BUFFER, |len| len.min(BUFFER))];
    while len > 0 {
        let part = usize::try_from(len).map_or(BUFFER, |len| len.min(BUFFER));
        let part = &mut buffer[..part];
        read_at(from, part, from_at)?;
        write_at(to, part, to_at)?;
        let done = part.len() as u64;
        (from_at, to_at, len) = (from_at + done, to_at + done, len - done);
    }
    Ok(())
}

/// Fills `bytes` from a place in a file.
pub(crate) fn read_at(file: &File, bytes: &mut [u8], at: u64) -> io::Result<()> {
    #[cfg(unix)]
    {
        std::os::unix::fs::FileExt::read_exact_at(file, bytes, at)
    }
    #[cfg(not(unix))]
    {
        use std::io::{Read as _, Seek as _, SeekFrom};
        let mut file = file;
        file.seek(SeekFrom::Start(at))?;
        file.read_exact(bytes)
    }
}

fn write_at(file: &File, bytes: &[u8], at: u64) -> io::Result<()> {
    #[cfg(unix)]
    {
        std::os::unix::fs::FileExt::write_all_at(file, bytes, at)
    }
    #[cfg(not(unix))]
    {
        use std::io::{Seek as _, SeekFrom, Write as _};
        let mut file = file;
        file.seek(SeekFrom::Start(at))?;
        file.write_all(bytes)
    }
}

/// Asks the system to forget what it holds of a file in memory, so that reading it again reads the
/// disk. It may not.
pub(crate) fn forget_cached(file: &File) {
    #[cfg(target_os = "linux")]
    {
        let _ = rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = file;
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    fn bytes(len: usize) -> Vec<u8> {
        (0..len).map(|i| (i * 31 + i / 251) as u8).collect()
    }

    #[test]
    fn both_ways_of_copying_copy_the_same() {
        let content = bytes(3 * BUFFER + 77);
        let mut from = tempfile::tempfile().unwrap();
        from.write_all(&content).unwrap();
        for (at, len) in [(0, content.len()), (5, 2 * BUFFER), (BUFFER, 1), (9, 0)] {
            let ours: Vec<_> = [true, false]
                .into_iter()
                .map(|kernel| {
                    let to = tempfile::tempfile().unwrap();
                    let (from_at, len) = (at as u64, len as u64);
                    if kernel {
                        RealDisk.copy(&from, from_at, &to, 3, len).unwrap();
                    } else {
                        copy_buffered(&from, from_at, &to, 3, len).unwrap();
                    }
                    let mut copied = vec![0; len as usize];
                    read_at(&to, &mut copied, 3).unwrap();
                    copied
                })
                .collect();
            assert_eq!(ours[0], content[at..at + len]);
            assert_eq!(ours[1], content[at..at + len]);
        }
    }

    #[test]
    fn a_source_that_ends_early_is_an_error() {
        let mut from = tempfile::tempfile().unwrap();
        from.write_all(&[1; 10]).unwrap();
        let to = tempfile::tempfile().unwrap();
        let error = RealDisk.copy(&from, 4, &to, 0, 7).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }

    #[cfg(unix)]
    #[test]
    fn a_file_is_held_by_one_at_a_time_and_links_are_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(".out.part");
        let held = RealDisk.open(&path).unwrap();
        let error = RealDisk.open(&path).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        drop(held);
        RealDisk.open(&path).unwrap();

        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(RealDisk.open(&link).is_err());
    }

    #[test]
    fn a_name_that_is_taken_stays() {
        let folder = tempfile::tempdir().unwrap();
        let (a, b) = (folder.path().join("a"), folder.path().join("b"));
        fs::write(&a, "a").unwrap();
        fs::write(&b, "b").unwrap();
        let error = RealDisk.rename(&a, &b, Overwrite::Refuse).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(
            (fs::read(&a).unwrap(), fs::read(&b).unwrap()),
            (b"a".into(), b"b".into())
        );
        RealDisk.rename(&a, &b, Overwrite::Replace).unwrap();
        assert_eq!(fs::read(&b).unwrap(), b"a");
        assert!(!a.exists());
    }
}
