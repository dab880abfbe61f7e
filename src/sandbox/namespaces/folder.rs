//! The run's own folder on the host: the shared tree, mount points, the supervisor.
//!
//! Whoever holds the lock beside the folder is alive. One that can be taken belongs to a run that was killed,
//! or to one that has not begun: its holder alone takes away what is left of the run, and makes it anew.

use std::{
    fs::{self, DirBuilder, Permissions},
    io,
    os::unix::fs::{DirBuilderExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    time::Duration,
};

use crate::{domain::RunId, sandbox::lock::LockFile};

/// How long another process may take to remove what is left of a run before the run goes on. A tree of a
/// million files takes seconds.
const PATIENCE: Duration = Duration::from_secs(30);

/// Removed when dropped.
#[derive(Debug)]
pub(super) struct RunFolder {
    path: PathBuf,
    /// Let go of after the folder is removed.
    lock: LockFile,
}

impl RunFolder {
    /// Makes `base/RUN`, which nobody else may enter. What an earlier process of the run left there is
    /// removed first; `clean` removes what it left elsewhere.
    ///
    /// # Errors
    /// Also when another process is at work on this run and stays so.
    pub(super) fn create(base: &Path, run: &RunId, clean: impl Fn(&RunId)) -> io::Result<Self> {
        fs::create_dir_all(base)?;
        let lock_path = lock_path(base, run);
        let lock = LockFile::take(&lock_path, PATIENCE).map_err(|error| at(&lock_path, error))?;
        clean(run);
        let path = base.join(run.as_str());
        remove(&path).and_then(|()| DirBuilder::new().mode(0o700).create(&path)).map_err(|e| at(&path, e))?;
        Ok(Self { path, lock })
    }

    /// A new folder inside, for `owner` when root makes it.
    pub(super) fn folder(&self, name: &str, owner: Option<u32>) -> io::Result<PathBuf> {
        let path = self.path.join(name);
        fs::create_dir(&path)?;
        std::os::unix::fs::chown(&path, owner, owner)?;
        Ok(path)
    }

    /// A new program inside. It can be executed and not be read, which keeps its process from being dumped
    /// or traced from its first instruction on.
    pub(super) fn program(&self, name: &str, content: &[u8]) -> io::Result<PathBuf> {
        let path = self.path.join(name);
        fs::write(&path, content)?;
        fs::set_permissions(&path, Permissions::from_mode(0o111))?;
        Ok(path)
    }
}

impl Drop for RunFolder {
    fn drop(&mut self) {
        remove_with_lock(&self.path, &self.lock);
    }
}

fn lock_path(base: &Path, run: &RunId) -> PathBuf {
    base.join(format!("{}.lock", run.as_str()))
}

fn at(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// Whether all is gone. The lock's file goes last: as long as it is there, someone will look after the folder.
fn remove_with_lock(path: &Path, lock: &LockFile) -> bool {
    let removed = remove(path).and_then(|()| lock.remove());
    if let Err(error) = &removed {
        tracing::warn!("the sandbox folder {} cannot be removed: {error}", path.display());
    }
    removed.is_ok()
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Removes what runs that were killed left below `base`; returns their ids. `clean` removes what they left
/// elsewhere, while the run cannot begin anew.
pub(super) fn reap(base: &Path, clean: impl Fn(&RunId)) -> Vec<RunId> {
    let mut reaped = Vec::new();
    for entry in fs::read_dir(base).into_iter().flatten().flatten() {
        let name = entry.file_name().into_string().unwrap_or_default();
        let Some(run) = name.strip_suffix(".lock").and_then(|id| RunId::try_from(id.to_owned()).ok()) else {
            continue;
        };
        // One that cannot be taken is somebody's, or another user's.
        let Ok(Some(lock)) = LockFile::take_free(&entry.path()) else { continue };
        clean(&run);
        if remove_with_lock(&base.join(run.as_str()), &lock) {
            reaped.push(run);
        }
    }
    reaped
}

#[cfg(test)]
mod tests {
    use std::{
        mem::ManuallyDrop,
        sync::atomic::{AtomicBool, Ordering},
    };

    use super::*;

    fn run(id: &str) -> RunId {
        RunId::try_from(id.to_owned()).unwrap()
    }

    fn create(base: &Path, id: &str) -> io::Result<RunFolder> {
        RunFolder::create(base, &run(id), |_| {})
    }

    /// Leaves behind what a process does that is killed.
    fn kill(folder: RunFolder) -> PathBuf {
        folder.lock.die();
        ManuallyDrop::new(folder).path.clone()
    }

    fn names(base: &Path) -> Vec<String> {
        let mut names: Vec<_> =
            fs::read_dir(base).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_killed_runs_folder_is_reaped_and_a_living_ones_is_not() {
        let base = tempfile::tempdir().unwrap();
        let living = create(base.path(), "living").unwrap();
        let killed = create(base.path(), "killed").unwrap();
        fs::create_dir_all(killed.path.join("tree/deep")).unwrap();
        fs::create_dir(base.path().join("somebody-elses")).unwrap();
        let killed = kill(killed);

        let cleaned_while_held = |run: &RunId| {
            assert!(LockFile::take_free(&lock_path(base.path(), run)).unwrap().is_none(), "it could begin");
        };
        assert_eq!(reap(base.path(), cleaned_while_held), [run("killed")]);
        assert!(!killed.exists());
        assert!(living.path.exists() && base.path().join("somebody-elses").exists());
        drop(living);
        assert_eq!(names(base.path()), ["somebody-elses"]);
    }

    #[test]
    fn a_run_that_goes_on_takes_over_what_its_killed_process_left() {
        let base = tempfile::tempdir().unwrap();
        let killed = create(base.path(), "a").unwrap();
        killed.folder("tree-1", None).unwrap();
        kill(killed);
        // As a reaper of another process holds it that came first and has just begun.
        let reaper = LockFile::take_free(&lock_path(base.path(), &run("a"))).unwrap().unwrap();
        let again = std::thread::spawn({
            let base = base.path().to_owned();
            move || create(&base, "a")
        });
        drop(reaper);
        let again = again.join().unwrap().unwrap();
        assert_eq!(names(&again.path), [""; 0], "nothing of before");
        assert_eq!(reap(base.path(), |_| {}), []);
        drop(again);
        // Of a folder without a lock nobody knows whose it is, until its run comes.
        fs::create_dir(base.path().join("a")).unwrap();
        assert_eq!(reap(base.path(), |_| {}), []);
        drop(create(base.path(), "a").unwrap());
        assert_eq!(names(base.path()), [""; 0]);
    }

    #[test]
    fn what_cannot_be_removed_keeps_its_lock_and_is_named() {
        let base = tempfile::tempdir().unwrap();
        let killed = create(base.path(), "a").unwrap();
        let killed = kill(killed);
        fs::remove_dir(&killed).unwrap();
        fs::write(&killed, "no folder").unwrap();
        assert_eq!(reap(base.path(), |_| {}), []);
        assert_eq!(names(base.path()), ["a", "a.lock"], "a later one may have more luck");
        let error = create(base.path(), "a").unwrap_err().to_string();
        assert!(error.starts_with(killed.to_str().unwrap()), "{error}");
        fs::remove_file(&killed).unwrap();
        assert_eq!(reap(base.path(), |_| {}), [run("a")]);
    }

    #[test]
    fn no_reaper_takes_the_folder_of_a_run_that_has_just_begun_anew() {
        let base = tempfile::tempdir().unwrap();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !done.load(Ordering::Relaxed) {
                        reap(base.path(), |_| {});
                    }
                });
            }
            let processes: Vec<_> = (0..3_u8)
                .map(|process| {
                    scope.spawn({
                        let base = base.path();
                        move || {
                            for life in 0..100_u8 {
                                let folder = create(base, "a").unwrap();
                                let mine = folder.program("mine", &[process, life]).unwrap();
                                std::thread::yield_now();
                                assert_eq!(fs::read(&mine).ok(), Some(vec![process, life]), "it was alive");
                                if life % 2 == 0 {
                                    kill(folder);
                                }
                            }
                        }
                    })
                })
                .collect();
            let ended: Vec<_> = processes.into_iter().map(|process| process.join()).collect();
            done.store(true, Ordering::Relaxed);
            assert!(ended.iter().all(Result::is_ok), "{ended:?}");
        });
        reap(base.path(), |_| {});
        assert_eq!(names(base.path()), [""; 0]);
    }
}
