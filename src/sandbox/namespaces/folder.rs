//! The run's own folder on the host: the shared tree, mount points, the supervisor.
//!
//! Whoever holds the lock beside the folder is alive. The lock appears already held, under its final name,
//! so one that can be taken belongs to a run that was killed, and its folder may go.

use std::{
    fs::{self, DirBuilder, File, Permissions, TryLockError},
    io,
    os::unix::fs::{DirBuilderExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use crate::domain::RunId;

/// Removed when dropped.
#[derive(Debug)]
pub(super) struct RunFolder {
    path: PathBuf,
    lock_path: PathBuf,
    _lock: File,
}

impl RunFolder {
    /// Makes `base/RUN`, which nobody else may enter.
    pub(super) fn create(base: &Path, run: &RunId) -> io::Result<Self> {
        fs::create_dir_all(base)?;
        let lock_path = base.join(format!("{}.lock", run.as_str()));
        let unnamed = tempfile::Builder::new().prefix("new-").tempfile_in(base)?;
        unnamed.as_file().lock()?;
        let lock = unnamed.persist_noclobber(&lock_path).map_err(|error| error.error)?;
        let path = base.join(run.as_str());
        DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self { path, lock_path, _lock: lock })
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
        remove(&self.path);
        // Last: as long as it is there, someone will look after the folder.
        let _ = fs::remove_file(&self.lock_path);
    }
}

fn remove(path: &Path) {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!("the sandbox folder {} cannot be removed: {error}", path.display());
        }
        _ => {}
    }
}

/// Removes what runs that were killed left below `base`; returns their ids.
pub(super) fn reap(base: &Path) -> Vec<RunId> {
    let mut reaped = Vec::new();
    for entry in fs::read_dir(base).into_iter().flatten().flatten() {
        let lock_path = entry.path();
        let name = entry.file_name().into_string().unwrap_or_default();
        let Some(run) = name.strip_suffix(".lock").and_then(|id| RunId::try_from(id.to_owned()).ok()) else {
            continue;
        };
        let Ok(lock) = File::open(&lock_path) else { continue };
        match lock.try_lock() {
            Ok(()) => {
                remove(&base.join(run.as_str()));
                let _ = fs::remove_file(&lock_path);
                reaped.push(run);
            }
            Err(TryLockError::WouldBlock | TryLockError::Error(_)) => {}
        }
    }
    reaped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(id: &str) -> RunId {
        RunId::try_from(id.to_owned()).unwrap()
    }

    #[test]
    fn a_killed_runs_folder_is_reaped_and_a_living_ones_is_not() {
        let base = tempfile::tempdir().unwrap();
        let living = RunFolder::create(base.path(), &run("living")).unwrap();
        let killed = RunFolder::create(base.path(), &run("killed")).unwrap();
        fs::create_dir_all(killed.path.join("tree/deep")).unwrap();
        fs::create_dir(base.path().join("somebody-elses")).unwrap();
        // What the kernel does for a process that is killed: the lock goes, the files stay.
        killed._lock.unlock().unwrap();
        let killed = std::mem::ManuallyDrop::new(killed);

        assert_eq!(reap(base.path()), [run("killed")]);
        assert!(!killed.path.exists());
        assert!(living.path.exists() && base.path().join("somebody-elses").exists());
        drop(living);
        let left: Vec<_> = fs::read_dir(base.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(left, ["somebody-elses"]);
    }

    #[test]
    fn a_run_id_is_used_once() {
        let base = tempfile::tempdir().unwrap();
        let _first = RunFolder::create(base.path(), &run("a")).unwrap();
        assert!(RunFolder::create(base.path(), &run("a")).is_err());
    }
}
