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
    domain::{AgentName, FileMode, Money, Price, RepoPath, RunId, Tokens},
    gate::{harvest::HarvestLimits, secrets::Scanner},
    method::ports::{
        Access, ChatModel, ChatReply, ChatRequest, Clock, CommandLimits, Event, Finish, Message, ModelError,
        Progress, Sandboxes, SourceTree, ToolCall,
    },
    repo::{self, Mirror, Source},
    runs::redactor,
    sandbox::docker::{DockerRun, DockerSandboxes, DockerSettings, Engine, InstanceId, REAP_EVERY},
    store::RunFolder,
};
use anyhow::{Context, bail};
use async_trait::async_trait;
use tokio::{
    sync::{Semaphore, mpsc},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

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
        let clock: Arc<dyn Clock> = Arc::new(SystemClock(Instant::now()));
        let sandboxes = Arc::new(sandboxes(tree.clone(), &clock, at("history")).await?);
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

async fn sandboxes(
    source: Arc<dyn SourceTree>,
    clock: &Arc<dyn Clock>,
    history: std::path::PathBuf,
) -> anyhow::Result<DockerSandboxes> {
    let mut random = [0; 3];
    getrandom::fill(&mut random)?;
    let run = RunId::new(clock.now(), random);
    let alive = Some([run.clone()].into());
    Ok(DockerSandboxes::start(DockerRun {
        engine: Engine::connect(None).await?,
        settings: settings(),
        instance: InstanceId::parse(&format!("bench-{}", hex::encode(random)))?,
        run,
        lease_until: clock.now() + jiff::SignedDuration::from_hours(1),
        history: source.history(history, 64 << 20).await?,
        source,
        active: Arc::new(move || alive.clone()),
        clock: clock.clone(),
        reap_every: REAP_EVERY,
    })
    .await?)
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

struct SystemClock(Instant);

impl Clock for SystemClock {
    fn now(&self) -> jiff::Timestamp {
        jiff::Timestamp::now()
    }

    fn monotonic(&self) -> Duration {
        self.0.elapsed()
    }
}
