//! The loop itself, with a scripted model, sandboxes that obey the test's words, and a real run folder.

mod compaction;
mod limits;

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use super::{
    Agent, Finished, Limits, Services,
    harvest::Harvester,
    ledger::{Cap, Ledger},
    shell::Shell,
    workbench::Workbench,
};
use crate::{
    domain::{AgentName, Money, Price, Tokens, TreeChanges},
    method::ports::*,
    store::RunFolder,
};

/// What the model does at one call.
#[derive(Clone)]
enum Act {
    Bash(&'static str),
    Submit,
    Say(&'static str),
    Decline(&'static str),
    Overflow,
    Refuse,
}
use Act::{Bash, Decline, Overflow, Refuse, Say, Submit};

/// Replies in order, the last one again and again.
struct Scripted {
    acts: Mutex<VecDeque<Act>>,
    asked: Mutex<Vec<ChatRequest>>,
    price: Option<Price>,
}

#[async_trait]
impl ChatModel for Scripted {
    fn name(&self) -> &str {
        "scripted"
    }

    fn price(&self) -> Option<Price> {
        self.price
    }

    async fn chat(&self, request: &ChatRequest) -> Result<ChatReply, ModelError> {
        assert_paired(&request.messages);
        self.asked.lock().unwrap().push(request.clone());
        let mut acts = self.acts.lock().unwrap();
        let act = if acts.len() > 1 { acts.pop_front() } else { acts.front().cloned() };
        let call = |name: &str, arguments: Value| {
            let id = format!("call_{}", request.turn);
            vec![ToolCall { id, name: name.into(), arguments: arguments.to_string(), provider: None }]
        };
        let mut finish = Finish::Stop;
        let (text, calls) = match act.expect("the script has an act") {
            Bash(command) => (None, call("bash", json!({ "command": command }))),
            Submit => (None, call("submit", json!({}))),
            Say(text) => (Some(text.to_owned()), Vec::new()),
            Decline(text) => {
                finish = Finish::Declined;
                (Some(text.to_owned()), Vec::new())
            }
            Overflow => return Err(ModelError::ContextOverflow { message: "too long".into() }),
            Refuse => {
                return Err(ModelError::Refused { url: "u".into(), status: 400, message: "no".into() });
            }
        };
        let tokens = Tokens { input: 100, cached: 0, output: 10 };
        Ok(ChatReply {
            text,
            calls,
            finish,
            tokens,
            cache_written: 0,
            provider: None,
            unreadable: None,
            notes: Vec::new(),
        })
    }
}

/// Every result follows its call, and every call has its result before anybody speaks again.
#[track_caller]
fn assert_paired(messages: &[Message]) {
    let mut open: Vec<&str> = Vec::new();
    for message in messages {
        match message {
            Message::Tool { tool_call_id, .. } => {
                let at = open.iter().position(|id| id == tool_call_id);
                open.remove(at.unwrap_or_else(|| panic!("{tool_call_id} has no call: {messages:#?}")));
            }
            other => {
                assert!(open.is_empty(), "{open:?} have no result: {messages:#?}");
                if let Message::Assistant { tool_calls, .. } = other {
                    open.extend(tool_calls.iter().map(|call| call.id.as_str()));
                }
            }
        }
    }
    assert!(open.is_empty(), "{open:?} have no result: {messages:#?}");
}

/// Stands still, but for commands.
#[derive(Default)]
struct Hand(Mutex<Duration>);

impl Clock for Hand {
    fn now(&self) -> jiff::Timestamp {
        jiff::Timestamp::UNIX_EPOCH
    }

    fn monotonic(&self) -> Duration {
        *self.0.lock().unwrap()
    }
}

/// Its commands: `wait N` takes N seconds, `print N` prints N bytes, `interrupt` cancels the run and goes on.
#[derive(Clone)]
struct Obedient {
    clock: Arc<Hand>,
    cancel: CancellationToken,
    ran: Arc<Mutex<Vec<String>>>,
}

#[async_trait]
impl Sandbox for Obedient {
    async fn run(&self, command: &str, limits: CommandLimits) -> Result<CommandOutcome, SandboxError> {
        self.ran.lock().unwrap().push(command.to_owned());
        let number = |prefix| command.strip_prefix(prefix).and_then(|n: &str| n.parse::<u64>().ok());
        if command == "interrupt" {
            self.cancel.cancel();
            std::future::pending::<()>().await;
        }
        let asked = Duration::from_secs(number("wait ").unwrap_or(0));
        let duration = asked.min(limits.timeout);
        *self.clock.0.lock().unwrap() += duration;
        Ok(CommandOutcome {
            exit: if asked > limits.timeout { CommandExit::TimedOut } else { CommandExit::Code(0) },
            head: vec![b'x'; number("print ").unwrap_or(0) as usize],
            tail: Vec::new(),
            omitted: 0,
            background_ended: 0,
            duration,
        })
    }

    async fn list_changes(&self, _: Since) -> Result<Vec<Listed>, SandboxError> {
        Ok(Vec::new())
    }

    async fn freeze(&self) -> Result<(), SandboxError> {
        Ok(())
    }

    async fn fetch(&self, _: &[u8], _: u64) -> Result<Vec<u8>, SandboxError> {
        Err(SandboxError::Lost("there is no file".into()))
    }

    async fn close(&self) {}
}

#[async_trait]
impl Sandboxes for Obedient {
    fn kind(&self) -> &'static str {
        "obedient"
    }

    fn facts(&self) -> Vec<String> {
        Vec::new()
    }

    async fn open(
        &self,
        _: &AgentName,
        _: Access,
        _: &TreeChanges,
    ) -> Result<Arc<dyn Sandbox>, SandboxError> {
        Ok(Arc::new(self.clone()))
    }

    async fn close(&self) {}
}

struct SubmitAnything;

#[async_trait]
impl Tool for SubmitAnything {
    fn spec(&self) -> ToolSpec {
        ToolSpec { name: "submit".into(), description: String::new(), parameters: json!({}) }
    }

    async fn call(&self, arguments: Value, _: CallContext) -> Result<ToolOutcome, ToolError> {
        Ok(ToolOutcome::Finished(arguments))
    }
}

struct Silent;

impl Progress for Silent {
    fn report(&self, _: Event) {}
}

/// An agent and its world. [`World::run`] is one process of the run; its folder outlives it.
struct World {
    folder: TempDir,
    access: Access,
    limits: Limits,
    cap: Cap,
    price: Option<Price>,
    /// Seconds of the whole run.
    run_seconds: u64,
}

/// What one process did.
struct Seen {
    finished: Finished,
    asked: Vec<ChatRequest>,
    ran: Vec<String>,
    spent: Money,
    turns: Vec<Turn>,
}

impl World {
    fn new(access: Access) -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            access,
            limits: Limits {
                steps: 100,
                time: Duration::from_secs(1_000),
                format_errors: 3,
                reply_tokens: 1_000,
            },
            cap: Cap { usd: Money::from_usd(10.0), tokens: 3_000_000 },
            price: None,
            run_seconds: 10_000,
        }
    }

    async fn run(&self, acts: &[Act]) -> Seen {
        let redact = Arc::new(|text: &str| text.to_owned());
        let store = match RunFolder::create(self.folder.path(), redact.clone()) {
            Ok(new) => new,
            Err(_) => RunFolder::resume(self.folder.path(), redact).unwrap(),
        };
        let store: Arc<dyn RunStore> = Arc::new(store);
        let clock = Arc::new(Hand::default());
        let cancel = CancellationToken::new();
        let sandboxes = Obedient { clock: clock.clone(), cancel: cancel.clone(), ran: Arc::default() };
        let (cap, name) = (self.cap, AgentName::answerer(1));
        let budget = Arc::new(Ledger::new(Money::from_usd(100.0), move |_| cap));
        let services = Services {
            store: store.clone(),
            budget: budget.clone(),
            progress: Arc::new(Silent),
            clock: clock.clone(),
            cancel,
            deadline: Duration::from_secs(self.run_seconds),
        };
        let model = Arc::new(Scripted {
            acts: Mutex::new(acts.iter().cloned().collect()),
            asked: Mutex::default(),
            price: self.price,
        });
        let bench = Arc::new(Workbench::new(
            Arc::new(sandboxes.clone()),
            name.clone(),
            self.access,
            store.clone(),
            clock,
            Arc::new(Harvester::of_nothing()),
        ));
        let limits = CommandLimits { timeout: Duration::from_secs(100), keep_bytes: 100_000 };
        let agent = Agent {
            name: name.clone(),
            model: model.clone(),
            opening: vec![
                Message::System { content: "system".into() },
                Message::User { content: "task".into() },
            ],
            volatile: Vec::new(),
            tools: vec![
                Arc::new(Shell { bench: bench.clone(), limits, output_chars: 10_000 }),
                Arc::new(SubmitAnything),
            ],
            bench,
            limits: self.limits,
            temperature: None,
        };
        let finished = agent.run(&services).await;
        let turns = store.turns(&name).await.unwrap();
        let asked = model.asked.lock().unwrap().clone();
        let ran = sandboxes.ran.lock().unwrap().clone();
        Seen { finished, asked, ran, spent: budget.spent(), turns }
    }
}

fn text(message: &Message) -> &str {
    match message {
        Message::System { content } | Message::User { content } | Message::Tool { content, .. } => content,
        Message::Assistant { content, .. } => content.as_deref().unwrap_or_default(),
    }
}

/// A conversation as one line a message: who speaks, and the beginning of it.
fn told(request: &ChatRequest) -> Vec<String> {
    let line = |message: &Message| match message {
        Message::Assistant { tool_calls, .. } if !tool_calls.is_empty() => {
            format!("assistant calls {}", tool_calls[0].arguments)
        }
        other => {
            let first: String = text(other).lines().next().unwrap_or_default().chars().take(50).collect();
            format!("{}: {first}", other.role())
        }
    };
    request.messages.iter().map(line).collect()
}
