//! What a run keeps, so that it can go on.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{ChatReply, Finish, Message, ToolSpec};
use crate::domain::{Account, AgentName, Money, Price, TreeChanges};

/// One complete turn of an agent: a line of its trajectory. `reply` and what came of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    /// From 1.
    pub turn: u32,
    /// What this turn appended to the conversation: the reply, then observations or an error message. In front of
    /// the reply of a last call stands what the agent was told. Only a compaction has none; that the key is absent
    /// then makes readers stop that do not know of compactions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
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
    /// Set on a turn that shortened the conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compaction: Option<Compaction>,
    /// UTC.
    pub at: jiff::Timestamp,
}

impl Turn {
    /// A turn that has its reply and nothing that came of it; it has taken no time yet.
    pub fn of_reply(turn: u32, reply: &ChatReply, price: Option<Price>, at: jiff::Timestamp) -> Self {
        let usd = price.map_or(Money::ZERO, |price| reply.cost(price));
        Self {
            turn,
            messages: vec![Message::Assistant {
                content: reply.text.clone(),
                tool_calls: reply.calls.clone(),
                provider: reply.provider.clone(),
            }],
            finish: reply.finish,
            observed: Vec::new(),
            account: Account { steps: 1, seconds: 0.0, usd, tokens: reply.tokens },
            format_error: None,
            submission: None,
            compaction: None,
            at,
        }
    }

    /// A turn that shortens the conversation.
    pub fn of_compaction(turn: u32, compaction: Compaction, account: Account, at: jiff::Timestamp) -> Self {
        Self {
            turn,
            messages: Vec::new(),
            finish: Finish::Stop,
            observed: Vec::new(),
            account,
            format_error: None,
            submission: None,
            compaction: Some(compaction),
            at,
        }
    }
}

/// How a conversation was shortened. All turns stay stored; the model no longer reads those before `keep_from`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compaction {
    /// The first turn that is kept; this one's own number where none is.
    pub keep_from: u32,
    /// The message that stands between the opening and the kept turns, in the place of everything that was there.
    pub summary: String,
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
