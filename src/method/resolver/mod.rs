//! Strategies that turn issue and knowledge into a patch.

mod agent;

use serde::{Deserialize, Serialize};

use crate::domain::{LeftOut, TreeChanges};

pub use agent::AgentResolver;

/// What a Resolver came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolution {
    /// For the reviewer, in the model's words; empty when a limit ended the agent first.
    pub summary: String,
    /// Ids of the questions whose answers the patch relies on; only ids that exist.
    pub used_answers: Vec<String>,
    /// Everything that may leave the workspace. From a Resolver that did not submit: unfinished work.
    pub changes: TreeChanges,
    pub left_out: Vec<LeftOut>,
    /// What the Resolver asked to leave out but may not: it belongs to the repository.
    pub kept: Vec<LeftOut>,
    pub submitted: bool,
    pub tests: Vec<TestReport>,
}

/// A test command that ran after the last edit, with the exit code that the host saw.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestReport {
    pub command: String,
    /// `None` when it was killed or timed out.
    pub exit_code: Option<i32>,
}
