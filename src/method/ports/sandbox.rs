//! Where agents run commands.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::domain::{AgentName, FileMode, TreeChanges, TreePath};

/// What an agent may do to `/workspace`. Held by the kernel, not by asking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Access {
    ReadOnly,
    ReadWrite,
}

/// Limits of one command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommandLimits {
    pub timeout: Duration,
    /// Bytes of output kept from its beginning, and as many from its end; the rest is counted and dropped.
    pub keep_bytes: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CommandExit {
    Code(i32),
    Signal(i32),
    /// Killed at the deadline with everything it had started.
    TimedOut,
}

/// What a command did. Output is stdout and stderr as they came, raw bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandOutcome {
    pub exit: CommandExit,
    pub head: Vec<u8>,
    /// Empty when all output fits into `head`.
    pub tail: Vec<u8>,
    /// Bytes between `head` and `tail` that were dropped.
    pub omitted: u64,
    /// Background processes that were ended when the foreground command was over (R-EX-3).
    pub background_ended: u32,
    pub duration: Duration,
}

/// An entry of the workspace that differs from an earlier state; its content is fetched on its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    pub path: TreePath,
    pub kind: ListedKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListedKind {
    /// New or changed file or symlink, with its size in bytes.
    Changed {
        mode: FileMode,
        size: u64,
    },
    Removed,
    /// FIFO, socket or device: cannot enter a git tree.
    Special,
}

/// The earlier state that changes are listed against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Since {
    /// The tree as it was filled in from the base commit (with saved changes on top counted as changes).
    Base,
    /// The last time that this was asked.
    LastListing,
}

#[derive(Debug, Clone, thiserror::Error)]
pub enum SandboxError {
    /// No engine, no image, no namespaces: the operator must act.
    #[error("{0}")]
    Unavailable(String),
    /// The sandbox is gone or does not answer; a fresh one may go on from the last saved tree.
    #[error("sandbox lost: {0}")]
    Lost(String),
    /// The workspace or a limit is exhausted, with the fact that helps.
    #[error("{0}")]
    Limit(String),
}

/// One agent's sandbox. The repository lies at `/workspace`.
#[async_trait]
pub trait Sandbox: Send + Sync {
    /// Runs `bash -c command`, one at a time. A command that fails or times out is an outcome, not an error.
    async fn run(&self, command: &str, limits: CommandLimits) -> Result<CommandOutcome, SandboxError>;
    /// Entries that differ, `.git` at any depth left out (S-23).
    async fn list_changes(&self, since: Since) -> Result<Vec<Listed>, SandboxError>;
    /// Ends every process but the supervisor (S-20); `run` fails from now on.
    async fn freeze(&self) -> Result<(), SandboxError>;
    /// Content of a file, or target of a symlink; [`SandboxError::Limit`] above `max_bytes`.
    async fn fetch(&self, path: &[u8], max_bytes: u64) -> Result<Vec<u8>, SandboxError>;
    /// Ends and removes the sandbox. Never fails loudly: the reaper takes what is left.
    async fn close(&self);
}

/// The sandboxes of one run.
#[async_trait]
pub trait Sandboxes: Send + Sync {
    /// `docker` or `namespaces`.
    fn kind(&self) -> &'static str;
    /// Facts about the posture that agents are told, such as "the network is off".
    fn facts(&self) -> Vec<String>;
    /// A fresh sandbox with the base tree and `changes` on top. All read-only ones share one tree.
    async fn open(
        &self,
        agent: &AgentName,
        access: Access,
        changes: &TreeChanges,
    ) -> Result<Arc<dyn Sandbox>, SandboxError>;
    /// Ends and removes all of them.
    async fn close(&self);
}
