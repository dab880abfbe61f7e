//! What a bench leaves on disk, and how far each of its runs has come.
//!
//! | path | holds |
//! |---|---|
//! | `bench.json` | what was asked, so that a folder is never shared by two different benches |
//! | `bench.lock` | nothing; held by every bench at work here, by one with `--max-usd` alone |
//! | `issues/INSTANCE.md` | the problem statement, as the run reads it |
//! | `ARM/INSTANCE/` | the run's own folder, as `acquire solve` leaves it |
//! | `ARM/INSTANCE.log` | what the run told while it went on |
//! | `ARM/INSTANCE.score.json`, `….score.log` | what the scorer found, and what it said on stderr |
//! | `ARM/INSTANCE.judge.json` | what the judge thinks of its questions |
//! | `ARM/INSTANCE.marks.lock` | nothing; held while it is scored and judged |
//! | `ARM/predictions.jsonl` | the patches of finished runs in SWE-bench's form |
//! | `table.json`, `table.md` | the table |
//!
//! How far a run has come is read from its folder every time: several processes may work on one bench.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{self, Read},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::{arms::Arm, instances::InstanceId};
use crate::{
    domain::{Knowledge, Money},
    method::ports::StoreError,
    runs,
    store::{Outcome, RunSummary, make_run_folder, open_regular, write_atomically},
};

/// How files beside the folder of a run end, after its name and a `.`.
pub const BESIDE: [&str; 5] = ["log", "score.json", "score.log", "judge.json", "marks.lock"];
/// Errors that are a result of the method, and not of the day it was run on.
const RESULTS: [&str; 3] = ["no_questions", "over_budget", "time_limit"];

/// What must be the same whenever a folder is used again. Arms are not in here: one may be added later.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// SHA-256 of what the whole file of instances asks.
    pub data_sha256: String,
    /// The templates of the command line.
    pub repo: String,
    pub image: Option<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    #[error("{folder}: holds a bench of {other}; name another folder by --out")]
    Other { folder: String, other: &'static str },
    #[error(
        "{folder}: another bench works in this folder, and --max-usd is kept by one alone; wait for it, or name \
         another folder by --out"
    )]
    NotAlone { folder: String },
    #[error(
        "{folder}: a bench with --max-usd works in this folder; wait for it, or name another folder by --out"
    )]
    Taken { folder: String },
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// How far a run has come.
#[derive(Debug, Clone, PartialEq)]
pub enum Standing {
    New,
    /// Cancelled or killed; it goes on from what is stored.
    Open,
    /// Another process works on it.
    Locked,
    /// By the endpoint, the engine, the network, …: on another day it may end otherwise.
    Failed(Box<RunSummary>),
    Finished(Box<RunSummary>),
}

impl Standing {
    /// The result, if there is one.
    pub fn finished(self) -> Option<Box<RunSummary>> {
        match self {
            Self::Finished(summary) => Some(summary),
            _ => None,
        }
    }
}

/// The folder of a bench.
#[derive(Debug)]
pub struct BenchFolder {
    path: PathBuf,
    /// The kernel lets go of it when the process ends, however it ends.
    _lock: File,
}

impl BenchFolder {
    /// Takes a new folder, or one that holds this very bench. `alone`: no other process may work on it until this
    /// is dropped, for one process cannot count what another is about to pay.
    pub fn open(path: &Path, asked: &Asked, alone: bool) -> Result<Self, FolderError> {
        make_run_folder(path)?;
        let lock = lock(path, alone)?;
        let file = path.join("bench.json");
        let stored = read(&file)?.and_then(|bytes| serde_json::from_slice::<Asked>(&bytes).ok());
        match stored {
            Some(stored) if stored == *asked => {}
            Some(stored) => {
                let other = if stored.data_sha256 != asked.data_sha256 {
                    "other instances"
                } else if stored.repo != asked.repo {
                    "another --repo"
                } else {
                    "another --image"
                };
                return Err(FolderError::Other { folder: path.display().to_string(), other });
            }
            None => write_atomically(&file, &json(asked))?,
        }
        make_run_folder(&path.join("issues"))?;
        Ok(Self { path: path.to_owned(), _lock: lock })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes the folder of an arm.
    pub fn prepare(&self, arm: Arm) -> Result<(), StoreError> {
        make_run_folder(&self.path.join(arm.to_string()))
    }

    pub fn run(&self, arm: Arm, id: &InstanceId) -> PathBuf {
        self.path.join(arm.to_string()).join(id.as_str())
    }

    /// A file beside the run's folder: one of [`BESIDE`].
    pub fn beside(&self, arm: Arm, id: &InstanceId, what: &str) -> PathBuf {
        self.path.join(arm.to_string()).join(format!("{id}.{what}"))
    }

    pub fn predictions(&self, arm: Arm) -> PathBuf {
        self.path.join(arm.to_string()).join("predictions.jsonl")
    }

    pub fn issue(&self, id: &InstanceId) -> PathBuf {
        self.path.join("issues").join(format!("{id}.md"))
    }

    pub fn standing(&self, arm: Arm, id: &InstanceId) -> Standing {
        let folder = self.run(arm, id);
        if is_locked(&folder) {
            return Standing::Locked;
        }
        match RunSummary::of_folder(&folder) {
            None if can_go_on(&folder) => Standing::Open,
            None => Standing::New,
            Some(summary) => match summary.outcome {
                Outcome::Cancelled => Standing::Open,
                Outcome::Failed if !is_result(&summary) => Standing::Failed(Box::new(summary)),
                _ => Standing::Finished(Box::new(summary)),
            },
        }
    }

    /// What a run has cost, all processes that worked on it together. `None` where nobody can say: another process
    /// has it, or one was killed that had calls under way.
    pub fn cost(&self, arm: Arm, id: &InstanceId) -> Option<Money> {
        let folder = self.run(arm, id);
        match self.standing(arm, id) {
            Standing::New => Some(Money::ZERO),
            Standing::Locked => None,
            Standing::Finished(summary) if summary.outcome.is_final() => Some(summary.total.usd),
            Standing::Open | Standing::Failed(_) | Standing::Finished(_) => {
                let summary = RunSummary::of_folder(&folder).filter(|_| !runs::has_open_account(&folder));
                summary.map(|summary| summary.total.usd)
            }
        }
    }

    /// Keeps others from marking a run until this is dropped; `None` where another process marks it.
    pub fn lock_marks(&self, arm: Arm, id: &InstanceId) -> Result<Option<File>, StoreError> {
        let path = self.beside(arm, id, "marks.lock");
        let file = open_lock(&path)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(failed(&path, "locked", &error)),
        }
    }

    /// What may leave of a run's work: the bytes of its patch.
    pub fn patch(&self, arm: Arm, id: &InstanceId) -> Result<Option<Vec<u8>>, StoreError> {
        read(&self.run(arm, id).join("patch.diff"))
    }

    pub fn knowledge(&self, arm: Arm, id: &InstanceId) -> Option<Knowledge> {
        serde_json::from_slice(&read(&self.run(arm, id).join("knowledge.json")).ok()??).ok()
    }
}

/// Whether a run's folder holds enough to go on from.
pub fn can_go_on(folder: &Path) -> bool {
    folder.join("stages/inputs.json").is_file()
}

fn is_result(summary: &RunSummary) -> bool {
    summary.error.as_ref().is_some_and(|error| RESULTS.contains(&error.class.as_str()))
}

fn is_locked(folder: &Path) -> bool {
    let lock = open_regular(&folder.join("run.lock"), OpenOptions::new().read(true));
    lock.is_ok_and(|lock| matches!(lock.try_lock_shared(), Err(TryLockError::WouldBlock)))
}

fn lock(folder: &Path, alone: bool) -> Result<File, FolderError> {
    let path = folder.join("bench.lock");
    let file = open_lock(&path)?;
    let folder = folder.display().to_string();
    match if alone { file.try_lock() } else { file.try_lock_shared() } {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) if alone => Err(FolderError::NotAlone { folder }),
        Err(TryLockError::WouldBlock) => Err(FolderError::Taken { folder }),
        Err(TryLockError::Error(error)) => Err(failed(&path, "locked", &error).into()),
    }
}

fn open_lock(path: &Path) -> Result<File, StoreError> {
    open_regular(path, OpenOptions::new().write(true).create(true).truncate(false))
        .map_err(|error| failed(path, "opened", &error))
}

/// `None` where there is no such file.
pub fn read(path: &Path) -> Result<Option<Vec<u8>>, StoreError> {
    let mut bytes = Vec::new();
    let file = open_regular(path, OpenOptions::new().read(true));
    match file.and_then(|mut file| file.read_to_end(&mut bytes)) {
        Ok(_) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed(path, "read", &error)),
    }
}

fn failed(path: &Path, what: &str, error: &io::Error) -> StoreError {
    StoreError { what: path.display().to_string(), reason: format!("cannot be {what}: {error}") }
}

/// Pretty-printed, for people look at it too.
pub fn json(value: &impl Serialize) -> Vec<u8> {
    let mut text = serde_json::to_vec_pretty(value).expect("texts and numbers can be written as JSON");
    text.push(b'\n');
    text
}

#[cfg(test)]
mod tests;
