//! What the method needs of the outside, in its own words.
//!
//! Every other room implements these traits or is called through them; nothing else of the outside is
//! known here. Implementations: `model` ([`ChatModel`]), `sandbox` ([`Sandboxes`], [`Sandbox`]), `repo`
//! ([`SourceTree`]), `index` ([`Symbols`]), `agent` ([`Budget`], [`Tool`]), `store` ([`RunStore`]), `cli`
//! ([`Progress`]); the strategies lie in `method` itself, one file each.

use std::{path::PathBuf, sync::Arc, time::Duration};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    domain::{
        Account, AgentName, Answer, CommitId, FileMode, Knowledge, Money, Patch, Price, Question, RepoPath,
        Tokens, TreeChanges, TreePath,
    },
    method::{
        context::{AgentReport, RunContext, RunError, StageReport},
        resolver::Resolution,
    },
};

// ---------------------------------------------------------------------------------------------------
// Chat model

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
    /// Withheld by the provider's filter, or a reason that we do not know.
    Other,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChatReply {
    pub text: Option<String>,
    pub calls: Vec<ToolCall>,
    pub finish: Finish,
    /// As the provider counted, else estimated (then said in `notes`).
    pub tokens: Tokens,
    /// What the run should say about this call, such as "the provider refused `temperature`".
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
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

fn counted_tries(tries: u32) -> String {
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

// ---------------------------------------------------------------------------------------------------
// Sandbox

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

// ---------------------------------------------------------------------------------------------------
// Repository

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

/// The repository at one commit. Reads only the host's bare repository.
#[async_trait]
pub trait SourceTree: Send + Sync {
    fn commit(&self) -> &CommitId;
    /// All files and symlinks, in tree order.
    async fn entries(&self) -> Result<Arc<Vec<TreeEntry>>, SourceError>;
    /// `None` when the commit has no such file. Larger than `max_bytes` is [`SourceError::Limit`].
    async fn read(&self, path: &RepoPath, max_bytes: u64) -> Result<Option<Vec<u8>>, SourceError>;
    /// Sends every file of the tree that may be written out (S-22 applies to none of the content), one by one.
    async fn stream_files(
        &self,
        to: tokio::sync::mpsc::Sender<crate::domain::Change>,
    ) -> Result<(), SourceError>;
    /// The `.git` files of an agent's repository, as paths below `.git/`: `main` at the commit, objects by way
    /// of `alternates` (an absolute path inside the sandbox), an index, no other refs, no reflogs.
    async fn git_files(&self, alternates: &str) -> Result<Vec<crate::domain::Change>, SourceError>;
    /// Packs history once for a run, below `into`.
    async fn history(&self, into: PathBuf, max_bytes: u64) -> Result<History, SourceError>;
    /// The base tree with `changes` on top, written into the bare repository, and its difference to the base.
    async fn build_patch(&self, changes: TreeChanges) -> Result<Patch, SourceError>;
}

/// A definition around a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope {
    pub name: String,
    /// A class, trait, module or the like, whose members are called on it; else a function.
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

// ---------------------------------------------------------------------------------------------------
// Tools

/// What the loop tells a tool about its call.
#[derive(Debug, Clone, Copy)]
pub struct CallContext {
    /// The turn that the call is part of.
    pub turn: u32,
    /// Calls of the same tool that were answered with an observation, earlier in this conversation.
    pub earlier_calls: u32,
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

// ---------------------------------------------------------------------------------------------------
// Run state

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

// ---------------------------------------------------------------------------------------------------
// Budget

/// Why a call may not be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OverBudget {
    #[error("the agent's limit is reached")]
    Agent,
    #[error("the run's limit is reached")]
    Run,
}

/// The one ledger of a run. A call's worst case is reserved before it and settled after, so that all
/// agents together overshoot by no more than one call.
pub trait Budget: Send + Sync {
    /// `worst` is an upper bound; `tokens` stands in for money where the price is unknown.
    fn reserve(&self, agent: &AgentName, worst: Money, tokens: u64) -> Result<Reservation, OverBudget>;
    /// Every reservation is settled, a failed call's with nothing used.
    fn settle(&self, reservation: Reservation, used: Money, tokens: Tokens);
    /// Counts what an earlier process of this run spent.
    fn restore(&self, agent: &AgentName, used: Money, tokens: Tokens);
    fn spent(&self) -> Money;
}

/// A promise to [`Budget::settle`].
#[derive(Debug)]
#[must_use]
pub struct Reservation {
    pub agent: AgentName,
    pub worst: Money,
    pub tokens: u64,
}

// ---------------------------------------------------------------------------------------------------
// Progress, time

/// Something worth showing while a run goes on.
#[derive(Debug, Clone)]
pub enum Event {
    StageStarted {
        name: &'static str,
    },
    StageFinished {
        name: &'static str,
        account: Account,
        resumed: bool,
    },
    AgentStarted {
        agent: AgentName,
    },
    /// A model call is under way.
    AgentThinks {
        agent: AgentName,
        step: u32,
    },
    /// A command runs.
    AgentRuns {
        agent: AgentName,
        step: u32,
        command: String,
    },
    AgentFinished {
        agent: AgentName,
        exit: &'static str,
        account: Account,
    },
    Spent {
        total: Money,
    },
    /// Plain words for people, such as which sandbox was taken.
    Note {
        text: String,
    },
}

pub trait Progress: Send + Sync {
    fn report(&self, event: Event);
}

/// Time as a value, so that tests are exact.
pub trait Clock: Send + Sync {
    fn now(&self) -> jiff::Timestamp;
    /// Since an arbitrary start.
    fn monotonic(&self) -> Duration;
}

// ---------------------------------------------------------------------------------------------------
// Strategies

/// How an agent ended: its result, and what it used either way.
pub struct Ended<T> {
    pub report: AgentReport,
    pub result: Result<T, RunError>,
}

/// Stage 1: whatever is learned before the repair.
#[async_trait]
pub trait KnowledgeSource: Send + Sync {
    /// As the settings and `run.json` name it.
    fn name(&self) -> &'static str;
    /// Runs its stages, each with its checkpoint, and reports what they used.
    async fn acquire(
        &self,
        context: &RunContext,
        stages: &mut Vec<StageReport>,
    ) -> Result<Knowledge, RunError>;
}

/// Answers one question from the repository.
#[async_trait]
pub trait Answerer: Send + Sync {
    fn name(&self) -> &'static str;
    /// `number` counts from 1. The Answerer gets the issue, this question and run-wide facts, nothing else.
    async fn answer(&self, context: &RunContext, number: usize, question: &Question) -> Ended<Answer>;
}

/// Stage 2: from issue and knowledge to a patch.
#[async_trait]
pub trait Resolver: Send + Sync {
    fn name(&self) -> &'static str;
    async fn resolve(&self, context: &RunContext, knowledge: &Knowledge) -> Ended<Resolution>;
}
