//! Which runs are alive on this machine, across processes.
//!
//! Each run holds a lock on a file of its own for as long as its process lives; the kernel releases it
//! when the process dies, however it dies. The reaper removes what belongs to no run that is alive.

use std::{
    collections::BTreeSet,
    fs::{self, File, TryLockError},
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use crate::domain::RunId;

/// A look holds a dead run's lock for microseconds; a run that is alive holds its own throughout.
const REGISTER_TRIES: u32 = 100;

/// A run that is alive until this is dropped.
#[derive(Debug)]
pub struct Alive {
    path: PathBuf,
    _lock: File,
}

impl Drop for Alive {
    fn drop(&mut self) {
        // Left behind it would only be found unlocked and removed by the next look.
        let _ = fs::remove_file(&self.path);
    }
}

/// Marks a run as alive in `folder`. An error when another process runs it.
pub fn register(folder: &Path, run: &RunId) -> io::Result<Alive> {
    fs::create_dir_all(folder)?;
    let path = folder.join(run.as_str());
    // A look at this very moment may take the new file for a dead run's and remove it: then once more.
    for _ in 0..REGISTER_TRIES {
        let lock = File::create(&path)?;
        match lock.try_lock() {
            Ok(()) if is_file_at(&lock, &path) => return Ok(Alive { path, _lock: lock }),
            Ok(()) | Err(TryLockError::WouldBlock) => std::thread::yield_now(),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
    Err(io::Error::new(io::ErrorKind::WouldBlock, "another process is working on this run"))
}

fn is_file_at(file: &File, path: &Path) -> bool {
    let inode = |m: fs::Metadata| (m.dev(), m.ino());
    match (file.metadata(), fs::metadata(path)) {
        (Ok(open), Ok(named)) => inode(open) == inode(named),
        _ => false,
    }
}

/// All runs that are alive; `None` when that cannot be told.
pub fn alive(folder: &Path) -> Option<BTreeSet<RunId>> {
    let mut runs = BTreeSet::new();
    for entry in fs::read_dir(folder).ok()? {
        let path = entry.ok()?.path();
        let Some(run) =
            path.file_name().and_then(|n| n.to_str()).and_then(|n| RunId::try_from(n.to_owned()).ok())
        else {
            continue;
        };
        match File::open(&path).map(|file| file.try_lock()) {
            Ok(Ok(())) => {
                let _ = fs::remove_file(&path);
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            // Locked, or not to be told: never take a living run for dead.
            Ok(Err(_)) | Err(_) => {
                runs.insert(run);
            }
        }
    }
    Some(runs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(text: &str) -> RunId {
        RunId::try_from(text.to_owned()).unwrap()
    }

    #[test]
    fn a_run_is_alive_as_long_as_its_lock() {
        let folder = tempfile::tempdir().unwrap();
        let (one, two) = (run("20261130-100000-aaaaaa"), run("20261130-100000-bbbbbb"));
        let first = register(folder.path(), &one).unwrap();
        let second = register(folder.path(), &two).unwrap();
        assert!(register(folder.path(), &one).is_err());
        assert_eq!(alive(folder.path()).unwrap(), [one.clone(), two.clone()].into());
        drop(first);
        assert_eq!(alive(folder.path()).unwrap(), [two].into());
        drop(second);
        // A killed process leaves its file and no lock.
        fs::write(folder.path().join(one.as_str()), "").unwrap();
        assert_eq!(alive(folder.path()).unwrap(), [].into());
        assert_eq!(alive(&folder.path().join("nowhere")), None);
    }
}
