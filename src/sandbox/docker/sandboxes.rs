//! All sandboxes of one run.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use jiff::Timestamp;
use tokio::{sync::Mutex, task::JoinSet};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    attach,
    engine::Engine,
    facts,
    fill::fill,
    labels::{InstanceId, Owner},
    opened::Opened,
    reaper::{self, ActiveRuns},
    sandbox::{DockerSandbox, FAREWELL},
    settings::DockerSettings,
    spec::{self, ContainerSpec, Image, MIB, SUPERVISOR_FILE},
    volumes::{self, Entry, Workspace},
};
use crate::{
    domain::{AgentName, RunId, TreeChanges},
    method::ports::{Access, Clock, History, Sandbox, SandboxError, Sandboxes, SourceTree},
    sandbox::{SUPERVISOR, session::Session},
};

/// Longest silence of a supervisor that is taken for life.
const PATIENCE: Duration = Duration::from_secs(60);
/// Of the time for ending a run's sandboxes, the part in which those on their way up are awaited. The rest
/// is for removing what is there.
const AWAIT_OPENING: Duration = Duration::from_secs(4);

/// What the sandboxes of a run are made from.
pub struct DockerRun {
    pub engine: Engine,
    pub settings: DockerSettings,
    pub instance: InstanceId,
    pub run: RunId,
    /// The start of the run and the longest that a run may take. Another instance's reaper removes what
    /// is left of this run after it, and not before.
    pub lease_until: Timestamp,
    pub source: Arc<dyn SourceTree>,
    pub history: History,
    /// Must hold this run by now.
    pub active: ActiveRuns,
    pub clock: Arc<dyn Clock>,
    /// Time between two rounds of the reaper: [`super::REAP_EVERY`].
    pub reap_every: Duration,
}

/// The sandboxes of one run in Docker.
pub struct DockerSandboxes {
    run: Arc<Run>,
    /// Sandboxes on their way up. What an engine was asked to make must be known to be there before it can be
    /// removed, so one that nobody waits for any more is not dropped: it ends itself, at the next step.
    opening: TaskTracker,
}

struct Run {
    engine: Engine,
    image: Image,
    settings: DockerSettings,
    owner: Owner,
    source: Arc<dyn SourceTree>,
    workspace: Workspace,
    supervisor_volume: String,
    history_volume: String,
    /// The tree of all read-only sandboxes, once the first of them was opened.
    shared: Mutex<Option<SharedTree>>,
    /// Numbers containers and volumes: an agent whose sandbox was lost gets another one.
    made: AtomicU32,
    /// Cancelled when the sandboxes are closed. Each opening has a token of its own below this one, which is
    /// cancelled also when nobody waits for it any more.
    closed: CancellationToken,
    /// Dropped with this, and then it ends.
    reaper: Mutex<JoinSet<()>>,
}

/// A workspace that a container of its own has filled and keeps: what a tmpfs holds vanishes when the last
/// container that uses it stops.
struct SharedTree {
    volume: String,
    holder: DockerSandbox,
}

impl DockerSandboxes {
    /// Finds the image, removes what an earlier process of this run and what dead runs left behind,
    /// and lays out the volumes that all sandboxes of the run share.
    ///
    /// The caller makes sure that no other process works on the same run.
    ///
    /// # Errors
    /// [`SandboxError::Unavailable`] when the engine, the image or a setting is at fault; says what to do.
    pub async fn start(run: DockerRun) -> Result<Self, SandboxError> {
        let DockerRun {
            engine,
            settings,
            instance,
            run: run_id,
            lease_until,
            source,
            history,
            active,
            clock,
            reap_every,
        } = run;
        settings.check()?;
        let owner = Owner { instance, run: run_id, lease_until };
        let supervisor_volume = format!("acquire-{}-supervisor", owner.run);
        let history_volume = format!("acquire-{}-history", owner.run);
        let engine_ready = async {
            let settings = settings.within_reach(&engine.info().await?)?;
            let image = engine.image(&settings.image).await?;
            reaper::remove_run(&engine, &owner.instance, &owner.run).await?;
            reaper::reap(&engine, &owner.instance, &active, clock.now()).await?;
            let supervisor = Entry::Program { path: SUPERVISOR_FILE.to_owned(), content: SUPERVISOR };
            let history = volumes::entries_below(history.objects).await?;
            let filled = |name, content| volumes::create_filled(&engine, &image, &owner, name, content);
            tokio::try_join!(filled(&supervisor_volume, vec![supervisor]), filled(&history_volume, history))?;
            Ok::<_, SandboxError>((settings, image))
        };
        // The tree is walked meanwhile: sizes of files stand in no tree object.
        let (ready, entries) = tokio::join!(engine_ready, source.entries());
        let unreadable = |error| SandboxError::Unavailable(format!("the repository cannot be read: {error}"));
        let ready = ready.and_then(|ready| Ok((ready, entries.map_err(unreadable)?)));
        let ((settings, image), entries) = match ready {
            Ok(ready) => ready,
            Err(error) => {
                if let Err(left) = reaper::remove_run(&engine, &owner.instance, &owner.run).await {
                    tracing::warn!(error = %left, "volumes of a run that could not begin are left to the reaper");
                }
                return Err(error);
            }
        };
        let workspace = Workspace::plan(settings.workspace_mib, entries.iter().map(|entry| entry.size));
        let mut reaper = JoinSet::new();
        reaper.spawn(reaper::keep_reaping(engine.clone(), owner.instance.clone(), active, clock, reap_every));
        let run = Run {
            supervisor_volume,
            history_volume,
            engine,
            image,
            settings,
            owner,
            source,
            workspace,
            shared: Mutex::new(None),
            made: AtomicU32::new(0),
            closed: CancellationToken::new(),
            reaper: Mutex::new(reaper),
        };
        Ok(Self { run: Arc::new(run), opening: TaskTracker::new() })
    }

    /// The image's id, `sha256:…`: what its name meant when the run started.
    pub fn image_id(&self) -> &str {
        &self.run.image.id
    }

    /// What the people who started the run should know about its sandboxes.
    pub fn notes(&self) -> Vec<String> {
        facts::for_people(&self.run.settings, self.run.workspace)
    }
}

impl Run {
    /// A name for an object of this run that no other has had.
    fn name(&self, role: &str) -> String {
        let number = self.made.fetch_add(1, Ordering::Relaxed) + 1;
        format!("acquire-{}-{role}-{number}", self.owner.run)
    }

    /// A running container with an attached supervisor and this workspace. Leaves nothing behind when it
    /// fails.
    async fn start_container(
        &self,
        role: &str,
        workspace_volume: &str,
        access: Access,
        given_up: &CancellationToken,
    ) -> Result<DockerSandbox, SandboxError> {
        still_wanted(given_up)?;
        let spec = ContainerSpec {
            image: self.image.clone(),
            cpus: self.settings.cpus,
            pids: self.settings.pids,
            memory_bytes: spec::memory_limit(&self.settings, self.workspace),
            tmp_bytes: self.settings.tmp_mib.saturating_mul(MIB),
            workspace_volume: workspace_volume.to_owned(),
            access,
            supervisor_volume: self.supervisor_volume.clone(),
            history_volume: self.history_volume.clone(),
        };
        let name = self.name(role);
        let container = self.engine.create_container(&name, spec.body(&self.owner)).await?;
        match self.start_session(&container, name, given_up).await {
            Ok(session) => Ok(DockerSandbox {
                engine: self.engine.clone(),
                container,
                access,
                memory_bytes: spec.memory_bytes,
                own_volume: None,
                session,
            }),
            Err(error) => {
                if let Err(error) = self.engine.remove_container(&container).await {
                    tracing::warn!(container, %error, "a container is left to the reaper");
                }
                Err(error)
            }
        }
    }

    async fn start_session(
        &self,
        container: &str,
        name: String,
        given_up: &CancellationToken,
    ) -> Result<Session, SandboxError> {
        // Again, because this container may have come too late for the closing to see it.
        still_wanted(given_up)?;
        // Attached before it starts, so that not a byte is lost.
        let attached = self.engine.attach(container).await?;
        self.engine.start_container(container).await?;
        let (from_supervisor, to_supervisor) = attach::split(attached, name);
        // Nothing is lost that had not yet begun, and the next one would fail in the same way.
        let unavailable = |error| match error {
            SandboxError::Lost(reason) => {
                SandboxError::Unavailable(format!("the sandbox's supervisor did not start: {reason}"))
            }
            other => other,
        };
        let session = Session::start(from_supervisor, to_supervisor, PATIENCE);
        unless(given_up, async { session.await.map_err(unavailable) }).await
    }

    /// A running container with a fresh workspace of its own, filled.
    async fn start_filled(
        &self,
        role: &str,
        volume: &str,
        changes: &TreeChanges,
        given_up: &CancellationToken,
    ) -> Result<DockerSandbox, SandboxError> {
        volumes::create_workspace(&self.engine, &self.image, &self.owner, volume, self.workspace).await?;
        let sandbox = match self.start_container(role, volume, Access::ReadWrite, given_up).await {
            Ok(sandbox) => DockerSandbox { own_volume: Some(volume.to_owned()), ..sandbox },
            Err(error) => {
                if let Err(error) = self.engine.remove_volume(volume).await {
                    tracing::warn!(volume, %error, "a volume is left to the reaper");
                }
                return Err(error);
            }
        };
        match unless(given_up, fill(&sandbox.session, &*self.source, changes)).await {
            Ok(()) => Ok(sandbox),
            Err(error) => {
                sandbox.close().await;
                Err(match error {
                    SandboxError::Limit(reason) => SandboxError::Limit(format!(
                        "{reason}. The setting sandbox.workspace_mib says how much the workspace holds"
                    )),
                    other => other,
                })
            }
        }
    }

    /// The volume with the base tree, filled by the first caller while the others wait. A holder that died
    /// took the tree with it and is replaced.
    async fn shared_volume(&self, given_up: &CancellationToken) -> Result<String, SandboxError> {
        let mut shared = unless(given_up, async { Ok(self.shared.lock().await) }).await?;
        if let Some(tree) = &*shared {
            if tree.holder.is_running().await {
                return Ok(tree.volume.clone());
            }
            tree.holder.close().await;
        }
        *shared = None;
        let volume = self.name("tree");
        let holder = self.start_filled("holder", &volume, &TreeChanges::default(), given_up).await?;
        *shared = Some(SharedTree { volume: volume.clone(), holder });
        Ok(volume)
    }

    async fn open_read_only(
        &self,
        agent: &AgentName,
        given_up: &CancellationToken,
    ) -> Result<DockerSandbox, SandboxError> {
        let volume = self.shared_volume(given_up).await?;
        let sandbox = self.start_container(agent.as_str(), &volume, Access::ReadOnly, given_up).await?;
        // From here on the sandbox itself keeps the tree alive; had the holder died before that, the tree
        // would be empty.
        let error = match self.shared_volume(given_up).await {
            Ok(still) if still == volume => return Ok(sandbox),
            Ok(_) => SandboxError::Lost("the container that holds the tree ended".to_owned()),
            Err(error) => error,
        };
        sandbox.close().await;
        Err(error)
    }

    async fn open(
        &self,
        agent: &AgentName,
        access: Access,
        changes: &TreeChanges,
        given_up: &CancellationToken,
    ) -> Result<DockerSandbox, SandboxError> {
        match access {
            Access::ReadWrite => {
                let volume = self.name("workspace");
                self.start_filled(agent.as_str(), &volume, changes, given_up).await
            }
            Access::ReadOnly if changes.is_empty() => self.open_read_only(agent, given_up).await,
            Access::ReadOnly => Err(SandboxError::Unavailable(
                "read-only sandboxes share the base tree and cannot take changes".to_owned(),
            )),
        }
    }
}

fn still_wanted(given_up: &CancellationToken) -> Result<(), SandboxError> {
    if given_up.is_cancelled() { Err(closed()) } else { Ok(()) }
}

/// Read only where a run's sandboxes were closed: of one opening that is given up, nobody is left to read it.
fn closed() -> SandboxError {
    SandboxError::Lost("the run's sandboxes are closed".to_owned())
}

/// A step of an opening, which is dropped when nobody wants its end any more.
async fn unless<T>(
    given_up: &CancellationToken,
    step: impl Future<Output = Result<T, SandboxError>>,
) -> Result<T, SandboxError> {
    tokio::select! {
        biased;
        () = given_up.cancelled() => Err(closed()),
        done = step => done,
    }
}

#[async_trait]
impl Sandboxes for DockerSandboxes {
    fn kind(&self) -> &'static str {
        "docker"
    }

    fn facts(&self) -> Vec<String> {
        facts::for_agents(&self.run.settings, self.run.workspace, &self.run.image)
    }

    async fn open(
        &self,
        agent: &AgentName,
        access: Access,
        changes: &TreeChanges,
    ) -> Result<Arc<dyn Sandbox>, SandboxError> {
        let (run, agent, changes) = (self.run.clone(), agent.clone(), changes.clone());
        let (given_up, tasks) = (self.run.closed.child_token(), self.opening.clone());
        let _gives_up_on_drop = given_up.clone().drop_guard();
        let opening = self.opening.spawn(async move {
            let sandbox = run.open(&agent, access, &changes, &given_up).await?;
            Ok(Opened::new(sandbox, tasks))
        });
        match opening.await {
            Ok(opened) => opened.map(|opened| Arc::new(opened.take()) as _),
            Err(failed) => Err(SandboxError::Lost(format!("opening a sandbox ended: {failed}"))),
        }
    }

    async fn close(&self) {
        self.run.closed.cancel();
        self.opening.close();
        let end = async {
            self.run.reaper.lock().await.abort_all();
            if tokio::time::timeout(AWAIT_OPENING, self.opening.wait()).await.is_err() {
                tracing::warn!("the engine is slow; the reaper removes a sandbox that is still being made");
            }
            reaper::remove_run(&self.run.engine, &self.run.owner.instance, &self.run.owner.run).await
        };
        match tokio::time::timeout(FAREWELL, end).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "the run's containers are left to the reaper"),
            Err(_) => tracing::warn!("the engine is slow; the reaper removes what is left of the run"),
        }
    }
}
