//! Chat models.

use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::domain::{AgentName, Money, Price, Tokens};

/// One message of a conversation, in the shape of the OpenAI wire format. Conversations only ever grow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum Message {
    System {
        content: String,
    },
    User {
        content: String,
    },
    Assistant {
        content: Option<String>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<ToolCall>,
        /// See [`ChatReply::provider`].
        #[serde(default, skip_serializing_if = "Option::is_none")]
        provider: Option<Value>,
    },
    Tool {
        tool_call_id: String,
        content: String,
    },
}

impl Message {
    pub fn role(&self) -> &'static str {
        match self {
            Self::System { .. } => "system",
            Self::User { .. } => "user",
            Self::Assistant { .. } => "assistant",
            Self::Tool { .. } => "tool",
        }
    }
}

/// A call as the model wrote it. `arguments` is the raw text: malformed JSON must stay visible.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    pub id: String,
    pub name: String,
    pub arguments: String,
    /// See [`ChatReply::provider`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<Value>,
}

/// What a model is told of a tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    pub name: String,
    pub description: String,
    /// JSON schema of the arguments.
    pub parameters: Value,
}

#[derive(Debug, Clone)]
pub struct ChatRequest {
    pub agent: AgentName,
    /// Counts the agent's model calls from 1.
    pub turn: u32,
    pub messages: Vec<Message>,
    pub tools: Vec<ToolSpec>,
    pub temperature: Option<f64>,
    /// Most tokens that the reply may have.
    pub max_tokens: Option<u32>,
    /// A JSON schema that the reply's text should follow, with its name; providers may ignore it.
    pub response_schema: Option<(String, Value)>,
    /// Parts of the prompt that differ from run to run or machine to machine (the fence id, the
    /// environment facts); a recorded reply's digest does not cover them.
    pub volatile: Vec<String>,
}

/// Why the model stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    Stop,
    ToolCalls,
    /// Cut off at the token limit.
    Length,
    /// The model declined, or the provider's filter withheld its words: asking again brings the same.
    Declined,
    /// A reason that we do not know.
    Other,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChatReply {
    pub text: Option<String>,
    pub calls: Vec<ToolCall>,
    pub finish: Finish,
    /// As the provider counted, else estimated (then said in `notes`).
    pub tokens: Tokens,
    /// The part of `tokens.input` that the provider wrote to its cache, which some charge more for.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cache_written: u64,
    /// What the provider wants back unchanged with this reply, such as its reasoning. Only the client that
    /// made it can read it; every other one ignores it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<Value>,
    /// Why the calls in the text cannot be read, for a model that writes its calls as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unreadable: Option<String>,
    /// What the run should say about this call, such as "the provider refused `temperature`".
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl ChatReply {
    /// What the call cost at this price.
    pub fn cost(&self, price: Price) -> Money {
        price.with_writes(self.tokens, self.cache_written)
    }
}

/// A failed model call. The client has retried what could succeed by then.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ModelError {
    #[error(
        "the model endpoint {url} cannot be reached: {reason}. Check `[model] base_url` and that the server runs"
    )]
    Unreachable { url: String, reason: String },
    #[error(
        "the model endpoint {url} refuses the key ({status}): {message}. Check the key that `[model] api_key_env` names, or ACQUIRE_MODEL__API_KEY"
    )]
    Unauthorized { url: String, status: u16, message: String },
    #[error("the model endpoint {url} still answers {status} after {}: {message}", counted_tries(*.tries))]
    Unavailable { url: String, status: u16, tries: u32, message: String },
    #[error("the model endpoint {url} gave no whole answer within {} s ({}). Raise `[model] timeout_seconds`, or take a faster model", .after.as_secs_f64(), counted_tries(*.tries))]
    TimedOut { url: String, after: Duration, tries: u32 },
    #[error("the conversation no longer fits into the model's context: {message}")]
    ContextOverflow { message: String },
    #[error("the model endpoint {url} refuses the request ({status}): {message}")]
    Refused { url: String, status: u16, message: String },
    #[error(
        "the model endpoint {url} answered with something that is no chat completion ({}): {what}",
        counted_tries(*.tries)
    )]
    NotAReply { url: String, tries: u32, what: String },
    #[error("recorded replies: {0}")]
    Replay(String),
}

/// `1 try`, `2 tries`.
pub fn counted_tries(tries: u32) -> String {
    if tries == 1 { "1 try".to_owned() } else { format!("{tries} tries") }
}

impl ModelError {
    /// The stable name that `run.json` shows.
    pub fn class(&self) -> &'static str {
        match self {
            Self::Unreachable { .. } => "model_unreachable",
            Self::Unauthorized { .. } => "model_unauthorized",
            Self::Unavailable { .. } => "model_unavailable",
            Self::TimedOut { .. } => "model_timeout",
            Self::ContextOverflow { .. } => "context_overflow",
            Self::Refused { .. } => "model_refused",
            Self::NotAReply { .. } => "model_not_a_reply",
            Self::Replay(_) => "replay",
        }
    }
}

#[async_trait]
pub trait ChatModel: Send + Sync {
    /// As the settings name it.
    fn name(&self) -> &str;
    /// `None` where the price is unknown.
    fn price(&self) -> Option<Price>;
    async fn chat(&self, request: &ChatRequest) -> Result<ChatReply, ModelError>;
}
