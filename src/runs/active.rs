//! Which runs are alive on this machine, across processes.
//!
//! Each run holds a lock on a file of its own for as long as its process lives; the kernel releases it
//! when the process dies, however it dies. The reaper removes what belongs to no run that is alive.

use std::{collections::BTreeSet, fs, io, path::Path, time::Duration};

use crate::{domain::RunId, sandbox::lock::LockFile};

/// A look holds a dead run's lock for microseconds; a run that is alive holds its own throughout.
const PATIENCE: Duration = Duration::from_millis(200);

/// A run that is alive until this is dropped.
#[derive(Debug)]
pub struct Alive(LockFile);

impl Drop for Alive {
    fn drop(&mut self) {
        // Left behind it would only be found unlocked and removed by the next look.
        let _ = self.0.remove();
    }
}

/// Marks a run as alive in `folder`. An error when another process runs it.
pub fn register(folder: &Path, run: &RunId) -> io::Result<Alive> {
    fs::create_dir_all(folder)?;
    let taken = LockFile::take(&folder.join(run.as_str()), PATIENCE);
    taken.map(Alive).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => io::Error::new(error.kind(), "another process is working on this run"),
        _ => error,
    })
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
        match LockFile::take_free(&path) {
            // Removed while its lock is held: a run that begins anew at this moment waits for it.
            Ok(Some(dead)) => drop(dead.remove()),
            // Locked, or not to be told: never take a living run for dead.
            Ok(None) | Err(_) => {
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

    #[test]
    fn no_look_takes_the_file_of_a_run_that_has_just_begun() {
        let folder = tempfile::tempdir().unwrap();
        let one = run("20261130-100000-aaaaaa");
        let is_over = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            let looks = || {
                while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                    alive(folder.path());
                }
            };
            scope.spawn(looks);
            scope.spawn(looks);
            for _ in 0..300 {
                fs::write(folder.path().join(one.as_str()), "").unwrap();
                let held = register(folder.path(), &one).unwrap();
                let found = alive(folder.path()).unwrap();
                assert!(found.contains(&one), "it is alive and was taken for dead");
                drop(held);
            }
            is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        });
    }
}
