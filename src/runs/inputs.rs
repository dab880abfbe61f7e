//! What a user asks for, and what a resumed run takes from its folder.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::{
    config::SandboxKind,
    domain::{CommitId, Issue, RepoId, RunId},
    gate::intake::FenceId,
};

/// A run as asked for. Stored, so that a resumed run is the same run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// An absolute path or an https URL.
    pub repo: String,
    /// None where questions are asked without one.
    pub issue: Option<IssueSource>,
    /// A branch, tag or commit id; the default branch where absent.
    pub base: Option<String>,
    pub knowledge: KnowledgeKind,
    /// Of a Questioner. 0 is the same as [`KnowledgeKind::None`].
    pub questions: usize,
    /// The questions of [`KnowledgeKind::Asked`], as a person wrote them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub asked: Vec<String>,
    #[serde(default)]
    pub answerer: AnswererKind,
    /// False: knowledge only.
    pub patch: bool,
    /// Docker image in place of the settings'.
    pub image: Option<String>,
    pub sandbox: SandboxKind,
}

impl Request {
    /// What stage 1 does in the end: a Questioner that may ask nothing is none.
    pub fn source(&self) -> KnowledgeKind {
        if self.knowledge.has_questioner() && self.questions == 0 {
            KnowledgeKind::None
        } else {
            self.knowledge
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IssueSource {
    File(PathBuf),
    /// A number, or a URL.
    Reference(String),
}

/// What stage 1 does. The words stand in `--help`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum KnowledgeKind {
    /// Questions and checked answers
    Qa,
    /// The same, with questions that belong to no category
    Freeq,
    /// Root cause and fix strategy, written by one agent
    Proposal,
    /// No knowledge: the base agent
    None,
    /// Answers to the questions of a person; the command line has a command of its own for it
    #[value(skip)]
    Asked,
}

impl KnowledgeKind {
    /// Whether a model chooses what is asked.
    pub fn has_questioner(self) -> bool {
        matches!(self, Self::Qa | Self::Freeq)
    }

    /// As `run.json` and the command line name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Qa => "qa",
            Self::Freeq => "freeq",
            Self::Proposal => "proposal",
            Self::None => "none",
            Self::Asked => "asked",
        }
    }
}

/// How a question is answered. The words stand in `--help`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum AnswererKind {
    /// An agent with a shell on a workspace that it cannot write to
    #[default]
    Explore,
}

impl AnswererKind {
    /// As `run.json` and the command line name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Explore => "explore",
        }
    }
}

/// A new run, or the rest of an old one.
pub enum Start {
    Fresh { request: Request, folder: PathBuf },
    Resume { folder: PathBuf },
}

/// Where replies come from and go to; not part of what a run is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Replies {
    /// Replies of live models are appended here.
    pub record: Option<PathBuf>,
    pub replay: Option<Replay>,
}

/// Recorded replies in place of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replay {
    pub source: ReplaySource,
    /// A reply whose prompt differs from the recorded one is used all the same, and said.
    pub lenient: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReplaySource {
    File(PathBuf),
    /// A recording that is part of the program; `name` is what errors call it.
    Text {
        name: &'static str,
        text: &'static str,
    },
}

/// Everything about a run that must not change when it is resumed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Inputs {
    pub run_id: RunId,
    pub request: Request,
    pub issue: Issue,
    pub commit: CommitId,
    /// Random; see [`crate::method::context::RunContext::fence`].
    pub fence: FenceId,
    /// Where citations can be linked to.
    pub links: Option<RepoId>,
    /// What readers should know of the commit that was taken.
    #[serde(default)]
    pub notes: Vec<String>,
}
