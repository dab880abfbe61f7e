//! The repository, and the symbols in its files.

use std::{path::PathBuf, sync::Arc};

use async_trait::async_trait;
use tokio::sync::mpsc::Sender;

use crate::domain::{Change, CommitId, FileMode, Patch, RepoPath, TreeChanges, TreePath};

/// An entry of the tree at the commit. Paths are whatever the commit has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeEntry {
    pub path: TreePath,
    pub mode: FileMode,
    pub size: u64,
}

/// Reachable history, packed for agents to read (`git log`, `git blame`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct History {
    /// A folder on the host in the shape of a git `objects` directory (`pack/…`); mounted read-only.
    pub objects: PathBuf,
    /// Said to agents where the history was cut.
    pub note: Option<String>,
}

#[derive(Debug, Clone, thiserror::Error)]
pub enum SourceError {
    /// The input is at fault: what, where, what to do.
    #[error("{0}")]
    Input(String),
    /// A limit on size or time.
    #[error("{0}")]
    Limit(String),
    /// The host refused the credentials.
    #[error("{0}")]
    Authentication(String),
    /// Anything else that git says.
    #[error("git: {0}")]
    Git(String),
}

/// The repository at one commit, read from the host's bare repository.
#[async_trait]
pub trait SourceTree: Send + Sync {
    fn commit(&self) -> &CommitId;
    /// All files and symlinks, in tree order.
    async fn entries(&self) -> Result<Arc<Vec<TreeEntry>>, SourceError>;
    /// `None` when the commit has no such file. Larger than `max_bytes` is [`SourceError::Limit`].
    async fn read(&self, path: &RepoPath, max_bytes: u64) -> Result<Option<Vec<u8>>, SourceError>;
    /// Sends every file of the tree that may be written out (S-22 applies to none of the content), one by one.
    async fn stream_files(&self, to: Sender<Change>) -> Result<(), SourceError>;
    /// The `.git` files of an agent's repository, as paths below `.git/`: `main` at the commit, objects by way
    /// of `alternates` (an absolute path inside the sandbox), an index, no other refs, no reflogs.
    async fn git_files(&self, alternates: &str) -> Result<Vec<Change>, SourceError>;
    /// Packs history once for a run, below `into`.
    async fn history(&self, into: PathBuf, max_bytes: u64) -> Result<History, SourceError>;
    /// The base tree with `changes` on top, written into the bare repository, and its difference to the base.
    async fn build_patch(&self, changes: TreeChanges) -> Result<Patch, SourceError>;
}

/// A definition around a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope {
    pub name: String,
    /// A class, module or the like; else a function.
    pub is_type: bool,
}

/// Where a symbol is defined or called in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SymbolPlace {
    pub name: String,
    /// Where the name begins in the file, in bytes.
    pub offset: usize,
    /// Enclosing definitions from the outside in, such as the class of a method; empty where not known.
    pub scope: Vec<Scope>,
    /// First and last line from 1. A call is its own line; a definition reaches from its name to its end.
    pub first: u32,
    pub last: u32,
    pub is_definition: bool,
}

/// Finds symbols in source text.
pub trait Symbols: Send + Sync {
    /// All definitions and calls; `None` when the language of `path` is not known.
    fn places(&self, path: &RepoPath, text: &[u8]) -> Option<Vec<SymbolPlace>>;
}
