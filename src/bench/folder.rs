//! What a bench leaves on disk, and how far each of its runs has come.
//!
//! | path | holds |
//! |---|---|
//! | `bench.json` | what was asked, so that a folder is never shared by two different benches |
//! | `issues/INSTANCE.md` | the problem statement, as the run reads it |
//! | `ARM/INSTANCE/` | the run's own folder, as `acquire solve` leaves it |
//! | `ARM/INSTANCE.log` | what the run told while it went on |
//! | `ARM/INSTANCE.score.json`, `….score.log` | what the scorer found, and what it said on stderr |
//! | `ARM/INSTANCE.judge.json` | what the judge thinks of its questions |
//! | `ARM/predictions.jsonl` | the patches of finished runs in SWE-bench's form |
//! | `table.json`, `table.md` | the table |
//!
//! How far a run has come is read from its folder every time: several processes may work on one bench.

use std::{
    fs::{self, File, TryLockError},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::{arms::Arm, instances::InstanceId};
use crate::{
    domain::{Knowledge, Money},
    method::ports::StoreError,
    store::{Outcome, RunSummary, make_run_folder, write_atomically},
};

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
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// How far a run has come.
#[derive(Debug, Clone, PartialEq)]
pub enum Standing {
    New,
    /// Cancelled or killed; it goes on from what is stored. What it has cost is known where it could say so.
    Open {
        cost: Option<Money>,
    },
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

    /// What is known to be spent.
    pub fn cost(&self) -> Money {
        match self {
            Self::New | Self::Locked => Money::ZERO,
            Self::Open { cost } => cost.unwrap_or_default(),
            Self::Failed(summary) | Self::Finished(summary) => summary.total.usd,
        }
    }
}

/// The folder of a bench.
#[derive(Debug, Clone)]
pub struct BenchFolder(PathBuf);

impl BenchFolder {
    /// Takes a new folder, or one that holds this very bench.
    pub fn open(path: &Path, asked: &Asked) -> Result<Self, FolderError> {
        make_run_folder(path)?;
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
        Ok(Self(path.to_owned()))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Makes the folder of an arm.
    pub fn prepare(&self, arm: Arm) -> Result<(), StoreError> {
        make_run_folder(&self.0.join(arm.to_string()))
    }

    pub fn run(&self, arm: Arm, id: &InstanceId) -> PathBuf {
        self.0.join(arm.to_string()).join(id.as_str())
    }

    /// A file beside the run's folder, such as `log`.
    pub fn beside(&self, arm: Arm, id: &InstanceId, what: &str) -> PathBuf {
        self.0.join(arm.to_string()).join(format!("{id}.{what}"))
    }

    pub fn predictions(&self, arm: Arm) -> PathBuf {
        self.0.join(arm.to_string()).join("predictions.jsonl")
    }

    pub fn issue(&self, id: &InstanceId) -> PathBuf {
        self.0.join("issues").join(format!("{id}.md"))
    }

    pub fn standing(&self, arm: Arm, id: &InstanceId) -> Standing {
        let folder = self.run(arm, id);
        if is_locked(&folder) {
            return Standing::Locked;
        }
        let summary = fs::read(folder.join("run.json"))
            .ok()
            .and_then(|b| serde_json::from_slice::<RunSummary>(&b).ok());
        match summary {
            None if can_go_on(&folder) => Standing::Open { cost: None },
            None => Standing::New,
            Some(summary) => match summary.outcome {
                Outcome::Cancelled => Standing::Open { cost: Some(summary.total.usd) },
                Outcome::Failed if !is_result(&summary) => Standing::Failed(Box::new(summary)),
                _ => Standing::Finished(Box::new(summary)),
            },
        }
    }

    /// What may leave of a run's work: the bytes of its patch.
    pub fn patch(&self, arm: Arm, id: &InstanceId) -> Result<Option<Vec<u8>>, StoreError> {
        read(&self.run(arm, id).join("patch.diff"))
    }

    pub fn knowledge(&self, arm: Arm, id: &InstanceId) -> Option<Knowledge> {
        let bytes = fs::read(self.run(arm, id).join("knowledge.json")).ok()?;
        serde_json::from_slice(&bytes).ok()
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
    let lock = File::open(folder.join("run.lock"));
    lock.is_ok_and(|lock| matches!(lock.try_lock_shared(), Err(TryLockError::WouldBlock)))
}

/// `None` where there is no such file.
pub fn read(path: &Path) -> Result<Option<Vec<u8>>, StoreError> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => {
            Err(StoreError { what: path.display().to_string(), reason: format!("cannot be read: {error}") })
        }
    }
}

/// Pretty-printed, for people look at it too.
pub fn json(value: &impl Serialize) -> Vec<u8> {
    let mut text = serde_json::to_vec_pretty(value).expect("texts and numbers can be written as JSON");
    text.push(b'\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runs::KnowledgeKind;

    const ARM: Arm = Arm { knowledge: KnowledgeKind::Qa, questions: 2 };

    fn asked() -> Asked {
        Asked { data_sha256: "d".into(), repo: "r".into(), image: None }
    }

    fn summary(outcome: &str, class: Option<&str>) -> String {
        let error = class.map(|class| format!(r#""error":{{"class":"{class}","message":"m"}},"#));
        format!(
            r#"{{"run_id":"20261130-100000-a1b2c3","version":"0.1.0","repo":"r","base":"b","issue":{{"title":"t"}},
            "strategy":{{"knowledge":"qa","answerer":"explore","resolver":"agent"}},"models":{{}},"sandbox":"docker",
            "outcome":"{outcome}",{}"stages":[],"total":{{"seconds":1.0,"usd":0.5,"tokens":{{"input":1,"cached":0,"output":1}}}}}}"#,
            error.unwrap_or_default()
        )
    }

    #[test]
    fn a_folder_takes_no_other_bench() {
        let temporary = tempfile::tempdir().unwrap();
        let path = temporary.path().join("out");
        BenchFolder::open(&path, &asked()).unwrap();
        BenchFolder::open(&path, &asked()).unwrap();
        let told = |asked: Asked| BenchFolder::open(&path, &asked).unwrap_err().to_string();
        assert!(told(Asked { data_sha256: "e".into(), ..asked() }).contains("a bench of other instances"));
        assert!(told(Asked { repo: "s".into(), ..asked() }).contains("another --repo"));
        assert!(told(Asked { image: Some("i".into()), ..asked() }).contains("another --image"));
    }

    #[test]
    fn a_run_stands_where_its_folder_says() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = BenchFolder::open(temporary.path(), &asked()).unwrap();
        let id = InstanceId::parse("a-1").unwrap();
        let run = folder.run(ARM, &id);
        assert_eq!(folder.standing(ARM, &id), Standing::New);
        fs::create_dir_all(run.join("stages")).unwrap();
        assert_eq!(folder.standing(ARM, &id), Standing::New, "nothing was stored yet");
        fs::write(run.join("stages/inputs.json"), "{}").unwrap();
        assert_eq!(folder.standing(ARM, &id), Standing::Open { cost: None });

        let with = |outcome: &str, class: Option<&str>| {
            fs::write(run.join("run.json"), summary(outcome, class)).unwrap();
            folder.standing(ARM, &id)
        };
        assert_eq!(with("cancelled", None), Standing::Open { cost: Some(Money::from_usd(0.5)) });
        assert!(matches!(with("failed", Some("model_unreachable")), Standing::Failed(_)));
        assert!(matches!(with("failed", Some("no_questions")), Standing::Finished(_)));
        assert!(matches!(with("no_patch", None), Standing::Finished(_)));
        fs::write(run.join("run.json"), "{").unwrap();
        assert_eq!(folder.standing(ARM, &id), Standing::Open { cost: None }, "a damaged one is made again");

        let lock = File::create(run.join("run.lock")).unwrap();
        lock.lock().unwrap();
        assert_eq!(folder.standing(ARM, &id), Standing::Locked);
        drop(lock);
        assert_ne!(folder.standing(ARM, &id), Standing::Locked);
    }
}
