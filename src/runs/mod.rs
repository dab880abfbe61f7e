//! One run, from what a user asks for to the files it leaves. The only place where the rooms meet: the
//! command line enters here, and so will every other way to start a run.
//!
//! Invariants
//! - A run that has a folder leaves a valid `run.json` there, however it ended.
//! - What a resumed run needs to know (issue, commit, fence, strategy) is stored before its first stage, and
//!   taken from there; the issue is not read a second time.
//! - Everything that is written or shown passes the secret scanner (S-33).

mod inputs;
mod issue;
mod parts;
mod results;
mod settings;

use std::{path::PathBuf, sync::Arc, time::Duration};

use tokio_util::sync::CancellationToken;

use crate::{
    config::{Environment, SandboxKind, Settings},
    domain::RunId,
    method::{
        self,
        answerer::Explore,
        knowledge::{Nothing, QuestionsAndAnswers},
        ports::{Clock, KnowledgeSource, Progress},
        resolver::AgentResolver,
        run::{RunReport, Strategy},
    },
    model::Strictness,
    store::{RunFolder, RunSummary},
};

pub use inputs::{Inputs, IssueSource, Replay, Request, Start};
pub use results::Solved;

/// What a run needs of the process that it runs in.
pub struct Host {
    pub settings: Settings,
    pub environment: Environment,
    pub progress: Arc<dyn Progress>,
    pub clock: Arc<dyn Clock>,
    pub cancel: CancellationToken,
    /// Random bytes for the run's id and fence.
    pub random: [u8; 16],
}

/// Why a run could not even begin.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The command or the settings are at fault: exit code 2.
    #[error("{0}")]
    Usage(String),
    /// Everything else: exit code 1.
    #[error("{0}")]
    Failed(String),
}
