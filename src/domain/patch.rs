//! The patch: what changed in the Resolver's workspace and may leave it.

use serde::{Deserialize, Serialize};

use super::RepoPath;

/// Something that changed in the workspace but is not part of the patch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// Shown text; invalid UTF-8 and control characters are escaped.
    pub path: String,
    pub reason: String,
}

/// The contract of `patch` in `run.json`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PatchSummary {
    pub files: Vec<RepoPath>,
    pub insertions: usize,
    pub deletions: usize,
    pub left_out: Vec<LeftOut>,
}

/// A patch as git sees it: the difference of two trees in the bare repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Patch {
    /// Unified diff in git's format, binary files included; bytes, since files need not be UTF-8.
    pub diff: Vec<u8>,
    /// Object id of the new tree, in the bare repository.
    pub tree: String,
    pub summary: PatchSummary,
}
