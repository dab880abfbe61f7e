//! Says in a run's folder that a process may be paying for the run.
//!
//! Opened before the first model call, closed when `run.json` tells of all of them. One that is open while no
//! process works there was left by a kill, or by a disk that took no `run.json`: then what the run has cost is known
//! up to the calls that were under way.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use crate::{
    method::ports::StoreError,
    store::{RunFolder, write_atomically},
};

const FILE: &str = "account.open";
/// For whoever finds it. That it is not empty also finds out whether the disk takes anything.
const TEXT: &str =
    "While this file is here, a process may be paying for this run, or was killed while it did.\n";

/// An account that stays open unless it is closed.
#[derive(Debug)]
#[must_use]
pub struct OpenAccount(PathBuf);

impl OpenAccount {
    /// Where this cannot be stored, nothing that is paid could be stored either.
    pub fn open(folder: &RunFolder) -> Result<Self, StoreError> {
        let path = folder.path().join(FILE);
        write_atomically(&path, TEXT.as_bytes())?;
        Ok(Self(path))
    }

    /// Everything paid stands in `run.json`.
    pub fn close(self) {
        if let Err(error) = fs::remove_file(&self.0)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(path = %self.0.display(), %error, "the run will count as one that was killed");
        }
    }
}

/// Whether the last process that may have paid for the run in `folder` did not tell of all of it. Where a process
/// works there, it has not yet.
pub fn has_open_account(folder: &Path) -> bool {
    folder.join(FILE).exists()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn an_account_is_open_until_it_is_closed_whatever_becomes_of_the_process() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = RunFolder::create(temporary.path(), Arc::new(str::to_owned)).unwrap();
        assert!(!has_open_account(temporary.path()));
        drop(OpenAccount::open(&folder).unwrap());
        assert!(has_open_account(temporary.path()), "as a kill leaves it");
        OpenAccount::open(&folder).unwrap().close();
        assert!(!has_open_account(temporary.path()));
    }
}
