//! Our agent with everything that it has in a run, but for its model.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use acquire::{
    agent::{
        Agent, Exit, Finished, Limits, Services,
        harvest::Harvester,
        ledger::{Cap, Ledger},
        shell::Shell,
        workbench::Workbench,
    },
    domain::{AgentName, FileMode, Money, Price, RepoPath, Tokens},
    gate::{harvest::HarvestLimits, secrets::Scanner},
    method::ports::{
        Access, ChatModel, ChatReply, ChatRequest, CommandLimits, Event, Finish, Message, ModelError,
        Progress, Sandboxes, SourceTree, ToolCall,
    },
    repo::{self, Mirror, Source},
    runs::redactor,
    sandbox::docker::{DockerSandboxes, DockerSettings},
    store::RunFolder,
};
use anyhow::{Context, bail};
use async_trait::async_trait;
use tokio::{
    sync::{Semaphore, mpsc},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

use super::sandboxes::{self, SystemClock};

/// As many as a large Python project has, of 4 KiB each.
const FILES: usize = 1_500;
const MANY: u32 = 1_000_000;

pub fn settings() -> DockerSettings {
    DockerSettings::default()
}

/// An agent that waits to be let go on.
pub struct Ours {
    permits: Arc<Semaphore>,
    taken: tokio::sync::Mutex<mpsc::UnboundedReceiver<Duration>>,
    agent: JoinHandle<Finished>,
    bench: Arc<Workbench>,
    sandboxes: Arc<DockerSandboxes>,
    cancel: CancellationToken,
    _folder: tempfile::TempDir,
}

impl Ours {
    pub async fn start() -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let at = |name: &str| folder.path().join(name);
        repo::create_repository(at("repo"), files(), "Start".to_owned()).await?;
        let mirrors = repo::Settings::new(at("mirrors"));
        let tree = Mirror::open(Source::Folder(at("repo")), mirrors).await?.at(None).await?;
        let tree: Arc<dyn SourceTree> = Arc::new(tree);
        let clock = SystemClock::start();
        let history = tree.history(at("history"), sandboxes::HISTORY_BYTES).await?;
        let run = sandboxes::new_run(&*clock)?;
        let sandboxes = Arc::new(sandboxes::start(run, tree.clone(), history, clock.clone()).await?);
        let store = Arc::new(RunFolder::create(&at("out"), redactor(Arc::new(Scanner::new(&[]))))?);
        let name = AgentName::resolver();
        let bench = Arc::new(Workbench::new(
            sandboxes.clone(),
            name.clone(),
            Access::ReadWrite,
            store.clone(),
            clock.clone(),
            Arc::new(Harvester::new(&*tree, HarvestLimits::default()).await?),
        ));
        let permits = Arc::new(Semaphore::new(0));
        let (times, taken) = mpsc::unbounded_channel();
        let limits = CommandLimits { timeout: Duration::from_secs(360), keep_bytes: 40_000 };
        let agent = Agent {
            name,
            model: Arc::new(PacedModel { permits: permits.clone(), replied: Mutex::new(None), times }),
            opening: vec![
                Message::System { content: super::SYSTEM.into() },
                Message::User { content: super::TASK.into() },
            ],
            volatile: Vec::new(),
            tools: vec![Arc::new(Shell { bench: bench.clone(), limits, output_chars: 10_000 })],
            bench: bench.clone(),
            limits: Limits { steps: MANY, time: Duration::MAX, format_errors: 3, reply_tokens: 1_000 },
            temperature: Some(0.0),
        };
        let cancel = CancellationToken::new();
        let services = Services {
            store,
            budget: Arc::new(Ledger::new(Money::ZERO, |_| Cap { usd: Money::ZERO, tokens: u64::MAX })),
            progress: Arc::new(Silent),
            clock,
            cancel: cancel.clone(),
            deadline: Duration::MAX,
        };
        let agent = tokio::spawn(async move { agent.run(&services).await });
        Ok(Self {
            permits,
            taken: tokio::sync::Mutex::new(taken),
            agent,
            bench,
            sandboxes,
            cancel,
            _folder: folder,
        })
    }

    /// Lets the agent take so many steps.
    pub async fn steps(&self, number: u32) -> anyhow::Result<Vec<Duration>> {
        let mut taken = self.taken.lock().await;
        self.permits.add_permits(number as usize);
        let mut steps = Vec::with_capacity(number as usize);
        while steps.len() < number as usize {
            steps.push(taken.recv().await.context("the agent ended early")?);
        }
        Ok(steps)
    }

    pub async fn close(self) -> anyhow::Result<()> {
        self.cancel.cancel();
        let finished = self.agent.await;
        self.bench.close().await;
        self.sandboxes.close().await;
        let finished = finished?;
        match finished.error {
            Some(error) => Err(error).context("the agent failed"),
            None if finished.exit != Exit::Cancelled => {
                bail!("the agent ended by {}", finished.exit.as_str())
            }
            None => Ok(()),
        }
    }
}

fn files() -> Vec<(RepoPath, FileMode, Vec<u8>)> {
    let file = |number: usize| {
        let path = format!("src/part{:02}/file{number:04}.py", number % 60);
        let path = RepoPath::parse(&path).expect("it is relative and plain");
        (path, FileMode::Regular, format!("value_{number:04} = 1\n").repeat(240).into_bytes())
    };
    (0..FILES).map(file).collect()
}

/// Replies with `true` when it is let, and takes the time from its reply to the next request.
struct PacedModel {
    permits: Arc<Semaphore>,
    replied: Mutex<Option<Instant>>,
    times: mpsc::UnboundedSender<Duration>,
}

#[async_trait]
impl ChatModel for PacedModel {
    fn name(&self) -> &str {
        "paced"
    }

    fn price(&self) -> Option<Price> {
        None
    }

    async fn chat(&self, request: &ChatRequest) -> Result<ChatReply, ModelError> {
        let asked = Instant::now();
        if let Some(replied) = *self.replied.lock().expect("nothing panics while it is held") {
            // Nobody listens any more at the very end.
            let _ = self.times.send(asked - replied);
        }
        self.permits.acquire().await.expect("it is never closed").forget();
        let call = ToolCall {
            id: format!("call_{}", request.turn),
            name: "bash".into(),
            arguments: r#"{"command": "true"}"#.into(),
            provider: None,
        };
        *self.replied.lock().expect("nothing panics while it is held") = Some(Instant::now());
        Ok(ChatReply {
            text: None,
            calls: vec![call],
            finish: Finish::ToolCalls,
            tokens: Tokens { input: 1_000, cached: 0, output: 20 },
            cache_written: 0,
            provider: None,
            unreadable: None,
            notes: Vec::new(),
        })
    }
}

struct Silent;

impl Progress for Silent {
    fn report(&self, _: Event) {}
}
