//! What agents can call.

use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;

use super::{SandboxError, SourceError, StoreError, ToolSpec};

/// What the loop tells a tool about its call.
#[derive(Debug, Clone, Copy)]
pub struct CallContext {
    /// The turn that the call is part of.
    pub turn: u32,
    /// Calls of the same tool that were answered with an observation, earlier in this conversation.
    pub earlier_calls: u32,
    /// What the agent has left of its time: what the tool starts must have ended by then.
    pub time_left: Duration,
}

/// What came of a tool call.
#[derive(Debug, Clone, PartialEq)]
pub enum ToolOutcome {
    /// Shown to the model; it goes on.
    Observation(String),
    /// The arguments do not fit the tool: a format error, with what to do.
    BadArguments(String),
    /// The agent is done; the value is its submission.
    Finished(Value),
}

#[derive(Debug, Clone, thiserror::Error)]
pub enum ToolError {
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    #[error(transparent)]
    Source(#[from] SourceError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Something a model can call: schema, and a handler that runs on the host.
#[async_trait]
pub trait Tool: Send + Sync {
    fn spec(&self) -> ToolSpec;
    /// `arguments` are a JSON object; anything else has been answered by the loop.
    async fn call(&self, arguments: Value, context: CallContext) -> Result<ToolOutcome, ToolError>;
}
