//! Docker sandboxes for a tree, made as a run makes them.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use acquire::{
    domain::RunId,
    method::ports::{Clock, History, SourceTree},
    sandbox::docker::{DockerRun, DockerSandboxes, DockerSettings, Engine, InstanceId, REAP_EVERY},
};

/// Bytes of packed history that a run takes by default.
pub const HISTORY_BYTES: u64 = 64 << 20;

/// Sandboxes of the run `run`, with the default settings.
pub async fn start(
    run: RunId,
    source: Arc<dyn SourceTree>,
    history: History,
    clock: Arc<dyn Clock>,
) -> anyhow::Result<DockerSandboxes> {
    let mut random = [0; 3];
    getrandom::fill(&mut random)?;
    let alive = Some([run.clone()].into());
    Ok(DockerSandboxes::start(DockerRun {
        engine: Engine::connect(None).await?,
        settings: DockerSettings::default(),
        instance: InstanceId::parse(&format!("bench-{}", hex::encode(random)))?,
        run,
        lease_until: clock.now() + jiff::SignedDuration::from_hours(1),
        history,
        source,
        active: Arc::new(move || alive.clone()),
        clock,
        reap_every: REAP_EVERY,
    })
    .await?)
}

/// An id that no other run has.
pub fn new_run(clock: &dyn Clock) -> anyhow::Result<RunId> {
    let mut random = [0; 3];
    getrandom::fill(&mut random)?;
    Ok(RunId::new(clock.now(), random))
}

/// The machine's clock.
pub struct SystemClock(Instant);

impl SystemClock {
    pub fn start() -> Arc<dyn Clock> {
        Arc::new(Self(Instant::now()))
    }
}

impl Clock for SystemClock {
    fn now(&self) -> jiff::Timestamp {
        jiff::Timestamp::now()
    }

    fn monotonic(&self) -> Duration {
        self.0.elapsed()
    }
}
