//! What a run keeps, so that it can go on.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Finish, Message, ToolSpec};
use crate::domain::{Account, AgentName, TreeChanges};

/// One complete turn of an agent: a line of its trajectory. `reply` and what came of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    /// From 1.
    pub turn: u32,
    /// What this turn appended to the conversation: the reply, then observations or an error message.
    pub messages: Vec<Message>,
    pub finish: Finish,
    /// Tools whose calls were run and answered with an observation, in order.
    pub observed: Vec<String>,
    pub account: Account,
    /// Set on a turn that could not be parsed: `truncated`, `malformed_call` or `no_call`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format_error: Option<String>,
    /// Set on the last turn of an agent that submitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub submission: Option<Value>,
    /// UTC.
    pub at: jiff::Timestamp,
}

/// What an agent was started with: the first line of its trajectory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Opening {
    pub agent: String,
    pub model: String,
    pub messages: Vec<Message>,
    pub tools: Vec<ToolSpec>,
    /// See [`ChatRequest::volatile`].
    pub volatile: Vec<String>,
}

#[derive(Debug, Clone, thiserror::Error)]
#[error("run state: {what}: {reason}")]
pub struct StoreError {
    pub what: String,
    pub reason: String,
}

impl StoreError {
    /// The words alone, where it is clear that they are of the run's state.
    pub fn without_its_kind(&self) -> String {
        format!("{}: {}", self.what, self.reason)
    }
}

/// Turns, stage outputs and saved trees of one run. What has been stored survives a kill.
#[async_trait]
pub trait RunStore: Send + Sync {
    async fn stage(&self, name: &str) -> Result<Option<Value>, StoreError>;
    async fn put_stage(&self, name: &str, output: &Value) -> Result<(), StoreError>;
    /// `None` before [`RunStore::open_agent`].
    async fn opening(&self, agent: &AgentName) -> Result<Option<Opening>, StoreError>;
    async fn open_agent(&self, agent: &AgentName, opening: &Opening) -> Result<(), StoreError>;
    /// A half-written last turn is not there.
    async fn turns(&self, agent: &AgentName) -> Result<Vec<Turn>, StoreError>;
    async fn append_turn(&self, agent: &AgentName, turn: &Turn) -> Result<(), StoreError>;
    /// Drops all turns and saved trees after `last`, so that the conversation goes on from there.
    async fn cut_turns(&self, agent: &AgentName, last: u32) -> Result<(), StoreError>;
    /// Stores what changed in the workspace since the last saved tree, as of the end of `turn`.
    async fn save_tree(&self, agent: &AgentName, turn: u32, changes: &TreeChanges) -> Result<(), StoreError>;
    /// The newest saved tree of a turn up to `turn`, all deltas laid over one another, and its turn.
    async fn saved_tree(
        &self,
        agent: &AgentName,
        turn: u32,
    ) -> Result<Option<(u32, TreeChanges)>, StoreError>;
}
