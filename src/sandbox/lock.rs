//! A file whose lock says that somebody is at work.
//!
//! The kernel frees the lock when its holder dies, however it dies. A lock tells something only of the file
//! that stands at its path: between the opening of a file and its locking, an earlier holder may have removed
//! it, and another may have made a new one and be at work. So each lock is held against its path once it is
//! taken, and nobody but its holder removes the file.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io,
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    thread::sleep,
    time::{Duration, Instant},
};

/// How often a lock that somebody else holds is tried again.
const INTERVAL: Duration = Duration::from_millis(5);

/// Held until this is dropped. The file stays, unless it is [removed](Self::remove).
#[derive(Debug)]
pub(crate) struct LockFile {
    path: PathBuf,
    _file: File,
}

impl LockFile {
    /// Takes the lock of the file at `path`, which is made where there is none.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] when somebody else holds it for longer than `patience`.
    pub(crate) fn take(path: &Path, patience: Duration) -> io::Result<Self> {
        let begun = Instant::now();
        loop {
            let mut options = OpenOptions::new();
            let file = options.write(true).create(true).truncate(false).mode(0o600).open(path)?;
            if let Some(taken) = Self::take_opened(file, path)? {
                return Ok(taken);
            }
            if begun.elapsed() >= patience {
                let said = format!(
                    "another process has held it for {} s; wait for it or end it",
                    patience.as_secs()
                );
                return Err(io::Error::new(io::ErrorKind::WouldBlock, said));
            }
            sleep(INTERVAL);
        }
    }

    /// Takes the lock of a file that is there and that nobody holds; `None` where there is no such file.
    pub(crate) fn take_free(path: &Path) -> io::Result<Option<Self>> {
        match File::open(path) {
            Ok(file) => Self::take_opened(file, path),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// `None` where somebody else holds the lock, or where the file does not stand at `path` any more.
    fn take_opened(file: File, path: &Path) -> io::Result<Option<Self>> {
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        Ok(stands_at(&file, path)?.then(|| Self { path: path.to_owned(), _file: file }))
    }

    /// Removes the file, and only then lets go of it.
    pub(crate) fn remove(&self) -> io::Result<()> {
        fs::remove_file(&self.path)
    }

    /// What the kernel does for a process that is killed: the lock goes, the file stays.
    #[cfg(test)]
    pub(crate) fn die(&self) {
        self._file.unlock().unwrap();
    }
}

fn stands_at(file: &File, path: &Path) -> io::Result<bool> {
    let inode = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
    let opened = inode(file.metadata()?);
    match fs::symlink_metadata(path) {
        Ok(named) => Ok(inode(named) == opened),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_held_once_and_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.lock");
        let held = LockFile::take(&path, Duration::ZERO).unwrap();
        assert!(LockFile::take_free(&path).unwrap().is_none());
        let refused = LockFile::take(&path, Duration::ZERO).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::WouldBlock);
        let waiting = std::thread::spawn({
            let path = path.clone();
            move || LockFile::take(&path, Duration::from_secs(60))
        });
        drop(held);
        waiting.join().unwrap().unwrap();
        assert!(LockFile::take_free(&path).unwrap().is_some(), "its file is there, and nobody holds it");
    }

    #[test]
    fn a_file_that_was_removed_after_it_was_opened_gives_no_lock() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.lock");
        let first = LockFile::take(&path, Duration::ZERO).unwrap();
        let opened = [File::open(&path).unwrap(), File::open(&path).unwrap()];
        first.remove().unwrap();
        drop(first);
        let [before, after] = opened;
        assert!(LockFile::take_opened(before, &path).unwrap().is_none(), "there is none at the path");
        let living = LockFile::take(&path, Duration::ZERO).unwrap();
        assert!(LockFile::take_opened(after, &path).unwrap().is_none(), "there is another at the path");
        assert!(LockFile::take_free(&path).unwrap().is_none());
        drop(living);
    }

    #[test]
    fn nothing_is_taken_where_there_is_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.lock");
        assert!(LockFile::take_free(&path).unwrap().is_none());
        assert!(!path.exists());
    }
}
