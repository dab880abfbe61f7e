//! What the tests of the Docker sandbox are told with.

#[path = "../../support/engine_proxy.rs"]
pub mod engine_proxy;

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use acquire::{
    domain::{AgentName, RunId, TreeChanges},
    method::ports::{
        Access, Clock, CommandExit, CommandLimits, CommandOutcome, History, Sandbox, SandboxError, Sandboxes,
        SourceTree,
    },
    sandbox::docker::{DockerRun, DockerSandboxes, DockerSettings, Engine, InstanceId, REAP_EVERY},
};
use bollard::{
    Docker,
    models::{ContainerConfig, ContainerCreateBody, ContainerSummary, Volume},
    query_parameters::{
        CommitContainerOptionsBuilder, CreateContainerOptions, ListContainersOptionsBuilder,
        ListVolumesOptionsBuilder, RemoveContainerOptionsBuilder,
    },
};
use jiff::{SignedDuration, Timestamp};

use crate::sandbox_conformance::MemoryTree;

pub const LIMITS: CommandLimits = CommandLimits { timeout: Duration::from_secs(30), keep_bytes: 5_000 };

/// Whether there is an engine to test with. Says so aloud when there is none, and fails as root.
pub async fn engine_answers() -> bool {
    let Err(error) = Engine::connect(None).await else { return true };
    assert!(!nix::unistd::geteuid().is_root(), "as root these tests need a Docker engine: {error}");
    eprintln!("SKIPPED, needs a Docker engine: {error}");
    false
}

/// Skips a test where no engine answers.
#[macro_export]
macro_rules! needs_engine {
    () => {
        if !$crate::support::engine_answers().await {
            return;
        }
    };
}

pub struct WallClock;

impl Clock for WallClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }
}

/// An installation of acquire that no other test shares. Removes what is left of it at its end.
pub struct Installation {
    pub instance: InstanceId,
    pub docker: Docker,
    runs: AtomicU32,
}

/// What differs from run to run in a test.
pub struct RunOf {
    /// Address of the engine; the usual one without it.
    pub host: Option<String>,
    pub settings: DockerSettings,
    pub source: Arc<dyn SourceTree>,
    pub history: History,
    pub run: RunId,
    pub lease_until: Timestamp,
    pub active: Option<BTreeSet<RunId>>,
    pub reap_every: Duration,
}

impl Installation {
    pub async fn new() -> Self {
        let random = hex::encode(rand_bytes());
        let instance = InstanceId::parse(&format!("test-{random}")).unwrap();
        let docker = Docker::connect_with_defaults().unwrap().negotiate_version().await.unwrap();
        Self { instance, docker, runs: AtomicU32::new(0) }
    }

    /// A run with the defaults of these tests, active, with an hour's lease.
    pub fn run(&self) -> RunOf {
        let number = self.runs.fetch_add(1, Ordering::Relaxed);
        let run = RunId::try_from(format!("{}-{number}", self.instance.as_str())).unwrap();
        let tree = MemoryTree::example();
        RunOf {
            host: None,
            settings: settings(),
            history: tree.history_now(),
            source: Arc::new(tree),
            active: Some(BTreeSet::from([run.clone()])),
            run,
            lease_until: Timestamp::now() + SignedDuration::from_hours(1),
            reap_every: REAP_EVERY,
        }
    }

    pub async fn start(&self, of: RunOf) -> Result<DockerSandboxes, SandboxError> {
        DockerSandboxes::start(DockerRun {
            engine: Engine::connect(of.host.as_deref()).await?,
            settings: of.settings,
            instance: self.instance.clone(),
            run: of.run,
            lease_until: of.lease_until,
            source: of.source,
            history: of.history,
            active: Arc::new(move || of.active.clone()),
            clock: Arc::new(WallClock),
            reap_every: of.reap_every,
        })
        .await
    }

    pub async fn containers(&self) -> Vec<ContainerSummary> {
        let options = ListContainersOptionsBuilder::new().all(true).filters(&self.filter()).build();
        self.docker.list_containers(Some(options)).await.unwrap()
    }

    pub async fn volumes(&self) -> Vec<Volume> {
        let options = ListVolumesOptionsBuilder::new().filters(&self.filter()).build();
        self.docker.list_volumes(Some(options)).await.unwrap().volumes.unwrap_or_default()
    }

    /// Ids of containers, then names of volumes, of this installation.
    pub async fn objects(&self) -> BTreeSet<String> {
        let containers = self.containers().await.into_iter().filter_map(|container| container.id);
        containers.chain(self.volumes().await.into_iter().map(|volume| volume.name)).collect()
    }

    /// The id of the container whose name has `role` in it.
    pub async fn container(&self, role: &str) -> String {
        let found = self.containers().await.into_iter().find(|container| {
            container.names.iter().flatten().any(|name| name.contains(&format!("-{role}-")))
        });
        found.and_then(|container| container.id).unwrap_or_else(|| panic!("no container for {role}"))
    }

    pub async fn kill(&self, container: &str) {
        let options = RemoveContainerOptionsBuilder::new().force(true).build();
        self.docker.remove_container(container, Some(options)).await.unwrap();
    }

    /// A child of the test image, as a Dockerfile with these lines would make it. The caller removes it.
    pub async fn image(&self, lines: &[&str]) -> String {
        let body = ContainerCreateBody {
            image: Some(settings().image),
            cmd: Some(vec!["true".to_owned()]),
            ..ContainerCreateBody::default()
        };
        let parent = self.docker.create_container(None::<CreateContainerOptions>, body).await.unwrap().id;
        let options = CommitContainerOptionsBuilder::new()
            .container(&parent)
            .repo(self.instance.as_str())
            .tag("1")
            .changes(&lines.join("\n"))
            .build();
        self.docker.commit_container(options, ContainerConfig::default()).await.unwrap();
        self.kill(&parent).await;
        format!("{}:1", self.instance.as_str())
    }

    fn filter(&self) -> std::collections::HashMap<&'static str, Vec<String>> {
        [("label", vec![format!("acquire.instance={}", self.instance.as_str())])].into()
    }

    /// Nothing may be left when all runs were closed. What a failed test leaves behind is reaped by later
    /// runs of any installation, when its lease is over.
    pub async fn nothing_is_left(&self) {
        assert_eq!(self.objects().await, BTreeSet::new());
    }
}

fn rand_bytes() -> [u8; 6] {
    let mut bytes = [0; 6];
    getrandom::fill(&mut bytes).unwrap();
    bytes
}

/// Small enough for many at once.
pub fn settings() -> DockerSettings {
    DockerSettings {
        image: std::env::var("ACQUIRE_TEST_IMAGE").unwrap_or_else(|_| DockerSettings::default().image),
        workspace_mib: Some(64),
        memory_mib: 1_024,
        ..DockerSettings::default()
    }
}

pub async fn resolver(sandboxes: &DockerSandboxes) -> Arc<dyn Sandbox> {
    sandboxes.open(&AgentName::resolver(), Access::ReadWrite, &TreeChanges::default()).await.unwrap()
}

pub async fn answerer(sandboxes: &DockerSandboxes, number: usize) -> Arc<dyn Sandbox> {
    sandboxes.open(&AgentName::answerer(number), Access::ReadOnly, &TreeChanges::default()).await.unwrap()
}

/// Runs a command that must succeed, and gives its output.
pub async fn output(sandbox: &Arc<dyn Sandbox>, command: &str) -> String {
    let outcome = sandbox.run(command, LIMITS).await.unwrap();
    let text = text(&outcome);
    assert_eq!(outcome.exit, CommandExit::Code(0), "{command}: {text}");
    text
}

pub fn text(outcome: &CommandOutcome) -> String {
    String::from_utf8_lossy(&[outcome.head.as_slice(), outcome.tail.as_slice()].concat()).into_owned()
}
