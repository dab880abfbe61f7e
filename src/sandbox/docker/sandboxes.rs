//! All sandboxes of one run.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use bollard::models::SystemInfo;
use jiff::Timestamp;
use tokio::{sync::Mutex, task::JoinSet};

use super::{
    attach,
    engine::Engine,
    fill::fill,
    labels::{InstanceId, Owner},
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

/// What the sandboxes of a run are made from.
pub struct DockerRun {
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
    engine: Engine,
    image: Image,
    settings: DockerSettings,
    owner: Owner,
    source: Arc<dyn SourceTree>,
    history_note: Option<String>,
    workspace: Workspace,
    supervisor_volume: String,
    history_volume: String,
    /// The tree of all read-only sandboxes, once the first of them was opened.
    shared: Mutex<Option<SharedTree>>,
    /// Numbers containers and volumes: an agent whose sandbox was lost gets another one.
    made: AtomicU32,
    closed: AtomicBool,
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
    /// Finds engine and image, removes what an earlier process of this run and what dead runs left behind,
    /// and lays out the volumes that all sandboxes of the run share.
    ///
    /// The caller makes sure that no other process works on the same run.
    ///
    /// # Errors
    /// [`SandboxError::Unavailable`] when the engine, the image or a setting is at fault; says what to do.
    pub async fn start(run: DockerRun) -> Result<Self, SandboxError> {
        let DockerRun { settings, instance, run, lease_until, source, history, active, clock, reap_every } =
            run;
        settings.check()?;
        let engine = Engine::connect(settings.host.as_deref()).await?;
        let settings = within_reach(settings, &engine.info().await?)?;
        let image = engine.image(&settings.image).await?;

        reaper::remove_run(&engine, &instance, &run).await?;
        reaper::reap(&engine, &instance, active().as_ref(), clock.now()).await?;

        let entries = source
            .entries()
            .await
            .map_err(|error| SandboxError::Unavailable(format!("the repository cannot be read: {error}")))?;
        let workspace = Workspace::plan(settings.workspace_mib, entries.iter().map(|entry| entry.size));
        let mut reaper = JoinSet::new();
        reaper.spawn(reaper::keep_reaping(engine.clone(), instance.clone(), active, clock, reap_every));
        let sandboxes = Self {
            supervisor_volume: format!("acquire-{run}-supervisor"),
            history_volume: format!("acquire-{run}-history"),
            engine,
            image,
            settings,
            owner: Owner { instance, run, lease_until },
            source,
            history_note: history.note,
            workspace,
            shared: Mutex::new(None),
            made: AtomicU32::new(0),
            closed: AtomicBool::new(false),
            reaper: Mutex::new(reaper),
        };
        let history = volumes::entries_below(history.objects).await?;
        if let Err(error) = sandboxes.fill_common_volumes(history).await {
            sandboxes.close().await;
            return Err(error);
        }
        Ok(sandboxes)
    }

    /// The image's id, `sha256:…`: what its name meant when the run started.
    pub fn image_id(&self) -> &str {
        &self.image.id
    }

    /// What the people who started the run should know about its sandboxes.
    pub fn notes(&self) -> Vec<String> {
        notes(&self.settings, self.workspace)
    }

    async fn fill_common_volumes(&self, history: Vec<Entry>) -> Result<(), SandboxError> {
        let supervisor = Entry::Program { path: SUPERVISOR_FILE.to_owned(), content: SUPERVISOR };
        let filled =
            |name, content| volumes::create_filled(&self.engine, &self.image, &self.owner, name, content);
        tokio::try_join!(
            filled(&self.supervisor_volume, vec![supervisor]),
            filled(&self.history_volume, history)
        )?;
        Ok(())
    }

    /// A name for an object of this run that no other has had.
    fn name(&self, role: &str) -> String {
        let number = self.made.fetch_add(1, Ordering::Relaxed) + 1;
        format!("acquire-{}-{role}-{number}", self.owner.run)
    }

    fn memory_bytes(&self) -> u64 {
        memory_bytes(&self.settings, self.workspace)
    }

    /// A running container with an attached supervisor and this workspace. Leaves nothing behind when it
    /// fails.
    async fn start_container(
        &self,
        role: &str,
        workspace_volume: &str,
        workspace_writable: bool,
    ) -> Result<DockerSandbox, SandboxError> {
        if self.closed.load(Ordering::Acquire) {
            return Err(SandboxError::Lost("the run's sandboxes are closed".to_owned()));
        }
        let spec = ContainerSpec {
            image: self.image.clone(),
            cpus: self.settings.cpus,
            pids: self.settings.pids,
            memory_bytes: self.memory_bytes(),
            tmp_bytes: self.settings.tmp_mib * MIB,
            workspace_volume: workspace_volume.to_owned(),
            workspace_writable,
            supervisor_volume: self.supervisor_volume.clone(),
            history_volume: self.history_volume.clone(),
        };
        let name = self.name(role);
        let container = self.engine.create_container(&name, spec.body(&self.owner)).await?;
        match self.start_session(&container, name).await {
            Ok(session) => Ok(DockerSandbox {
                engine: self.engine.clone(),
                container,
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

    async fn start_session(&self, container: &str, name: String) -> Result<Session, SandboxError> {
        // Attached before it starts, so that not a byte is lost.
        let attached = self.engine.attach(container).await?;
        self.engine.start_container(container).await?;
        let (from_supervisor, to_supervisor) = attach::split(attached, name);
        match Session::start(from_supervisor, to_supervisor, PATIENCE).await {
            // Nothing is lost that had not yet begun, and the next one would fail in the same way.
            Err(SandboxError::Lost(reason)) => {
                Err(SandboxError::Unavailable(format!("the sandbox's supervisor did not start: {reason}")))
            }
            other => other,
        }
    }

    /// A running container with a fresh workspace of its own, filled.
    async fn start_filled(
        &self,
        role: &str,
        volume: &str,
        changes: &TreeChanges,
    ) -> Result<DockerSandbox, SandboxError> {
        volumes::create_workspace(&self.engine, &self.image, &self.owner, volume, self.workspace).await?;
        let sandbox = match self.start_container(role, volume, true).await {
            Ok(sandbox) => DockerSandbox { own_volume: Some(volume.to_owned()), ..sandbox },
            Err(error) => {
                if let Err(error) = self.engine.remove_volume(volume).await {
                    tracing::warn!(volume, %error, "a volume is left to the reaper");
                }
                return Err(error);
            }
        };
        match fill(&sandbox.session, &*self.source, changes).await {
            Ok(()) => Ok(sandbox),
            Err(error) => {
                sandbox.close().await;
                Err(match error {
                    SandboxError::Limit(reason) => SandboxError::Limit(format!(
                        "the workspace cannot be filled: {reason}. Where room is short, raise \
                         sandbox.workspace_mib"
                    )),
                    other => other,
                })
            }
        }
    }

    /// The volume with the base tree, filled by the first caller while the others wait. A holder that died
    /// took the tree with it and is replaced.
    async fn shared_volume(&self) -> Result<String, SandboxError> {
        let mut shared = self.shared.lock().await;
        if let Some(tree) = &*shared {
            if tree.holder.is_running().await {
                return Ok(tree.volume.clone());
            }
            tree.holder.close().await;
        }
        *shared = None;
        let volume = self.name("tree");
        let holder = self.start_filled("holder", &volume, &TreeChanges::default()).await?;
        *shared = Some(SharedTree { volume: volume.clone(), holder });
        Ok(volume)
    }

    async fn open_read_only(&self, agent: &AgentName) -> Result<DockerSandbox, SandboxError> {
        let volume = self.shared_volume().await?;
        let sandbox = self.start_container(agent.as_str(), &volume, false).await?;
        // From here on the sandbox itself keeps the tree alive; had the holder died before that, the tree
        // would be empty.
        if self.shared_volume().await? != volume {
            sandbox.close().await;
            return Err(SandboxError::Lost("the container that holds the tree ended".to_owned()));
        }
        Ok(sandbox)
    }
}

#[async_trait]
impl Sandboxes for DockerSandboxes {
    fn kind(&self) -> &'static str {
        "docker"
    }

    fn facts(&self) -> Vec<String> {
        facts(&self.settings, self.memory_bytes(), self.workspace, &self.image, self.history_note.as_deref())
    }

    async fn open(
        &self,
        agent: &AgentName,
        access: Access,
        changes: &TreeChanges,
    ) -> Result<Arc<dyn Sandbox>, SandboxError> {
        let sandbox = match access {
            Access::ReadWrite => {
                let volume = self.name("workspace");
                self.start_filled(agent.as_str(), &volume, changes).await?
            }
            Access::ReadOnly if changes.is_empty() => self.open_read_only(agent).await?,
            Access::ReadOnly => {
                return Err(SandboxError::Unavailable(
                    "read-only sandboxes share the base tree and cannot take changes".to_owned(),
                ));
            }
        };
        Ok(Arc::new(sandbox))
    }

    async fn close(&self) {
        self.closed.store(true, Ordering::Release);
        let end = async {
            self.reaper.lock().await.abort_all();
            reaper::remove_run(&self.engine, &self.owner.instance, &self.owner.run).await
        };
        match tokio::time::timeout(FAREWELL, end).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "the run's containers are left to the reaper"),
            Err(_) => tracing::warn!("the engine is slow; the reaper removes what is left of the run"),
        }
    }
}

/// Refuses an engine that cannot hold the limits, and asks it for no more than it has.
fn within_reach(settings: DockerSettings, info: &SystemInfo) -> Result<DockerSettings, SandboxError> {
    for (holds, what) in [(info.memory_limit, "memory"), (info.pids_limit, "the number of processes")] {
        if holds == Some(false) {
            return Err(SandboxError::Unavailable(format!(
                "the Docker engine cannot limit {what}: cgroups are missing, or not delegated to a rootless \
                 engine. Repair that, or use `--sandbox namespaces` for a repository of your own"
            )));
        }
    }
    let cpus =
        info.ncpu.filter(|cpus| *cpus > 0).map_or(settings.cpus, |cpus| settings.cpus.min(cpus as f64));
    Ok(DockerSettings { cpus, ..settings })
}

fn memory_bytes(settings: &DockerSettings, workspace: Workspace) -> u64 {
    spec::memory_limit(settings.memory_mib * MIB, workspace.bytes_in_memory())
}

/// Where the sandboxes are not what the settings say.
fn notes(settings: &DockerSettings, workspace: Workspace) -> Vec<String> {
    let mut notes = Vec::new();
    if let Workspace::Disk { wanted_bytes } = workspace {
        notes.push(format!(
            "The workspace of {} MiB is too large for memory: it is a plain volume, and nothing limits its size.",
            wanted_bytes / MIB
        ));
    }
    let memory_mib = memory_bytes(settings, workspace) / MIB;
    if memory_mib > settings.memory_mib {
        notes.push(format!(
            "A sandbox may use {memory_mib} MiB of memory instead of {}: its workspace counts as memory.",
            settings.memory_mib
        ));
    }
    notes
}

/// What agents are told, so that they waste no step on finding it out.
fn facts(
    settings: &DockerSettings,
    memory_bytes: u64,
    workspace: Workspace,
    image: &Image,
    history_note: Option<&str>,
) -> Vec<String> {
    let mut facts = vec![
        "The network is off: no name resolves, nothing can be downloaded or installed from it.".to_owned(),
        "Commands run as user 1000 without any privilege; `sudo` does not work.".to_owned(),
        format!(
            "The root file system is read-only. /tmp can be written ({} MiB, programs may run from it), and so \
             can /workspace where your task is to change it.",
            settings.tmp_mib
        ),
        format!(
            "Limits: {} MiB of memory including /tmp, {} CPUs, {} processes. A command that ends with 137 was \
             most likely killed for want of memory.",
            memory_bytes / MIB,
            settings.cpus,
            settings.pids
        ),
        "ptrace is refused: strace, gdb and LeakSanitizer do not work (ASAN_OPTIONS=detect_leaks=0 helps)."
            .to_owned(),
    ];
    if let Workspace::Memory { bytes, .. } = workspace {
        facts.push(format!("/workspace holds at most {} MiB and counts as memory.", bytes / MIB));
    }
    if !image.volumes.is_empty() {
        facts.push(format!("Empty in this sandbox: {}.", image.volumes.join(", ")));
    }
    facts.extend(history_note.map(str::to_owned));
    facts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engine_that_cannot_hold_the_limits_is_refused() {
        for info in [
            SystemInfo { memory_limit: Some(false), ..SystemInfo::default() },
            SystemInfo { pids_limit: Some(false), ..SystemInfo::default() },
        ] {
            let error = within_reach(DockerSettings::default(), &info).unwrap_err().to_string();
            assert!(error.contains("cannot limit"), "{error}");
        }
    }

    #[test]
    fn no_more_cpus_are_asked_for_than_there_are() {
        let info = SystemInfo { ncpu: Some(1), ..SystemInfo::default() };
        assert_eq!(within_reach(DockerSettings::default(), &info).unwrap().cpus, 1.0);
        assert_eq!(within_reach(DockerSettings::default(), &SystemInfo::default()).unwrap().cpus, 2.0);
    }

    #[test]
    fn decision_3_a_plain_volume_and_a_raised_memory_limit_are_said() {
        let settings = |memory_mib| DockerSettings { memory_mib, ..DockerSettings::default() };
        let in_memory = Workspace::Memory { bytes: 512 * MIB, inodes: 1 };
        assert!(notes(&settings(4096), in_memory).is_empty());
        insta::assert_snapshot!(notes(&settings(1024), in_memory).concat(), @"A sandbox may use 1536 MiB of memory instead of 1024: its workspace counts as memory.");
        let on_disk = Workspace::Disk { wanted_bytes: 3000 * MIB };
        insta::assert_snapshot!(notes(&settings(4096), on_disk).concat(), @"The workspace of 3000 MiB is too large for memory: it is a plain volume, and nothing limits its size.");
    }

    #[test]
    fn agents_are_told_what_they_would_otherwise_try() {
        let image = Image { id: "i".into(), volumes: vec!["/data".into()] };
        let workspace = Workspace::Memory { bytes: 512 * MIB, inodes: 1 };
        let note = Some("History goes back to 2024-01-01 only.");
        insta::assert_snapshot!(
            facts(&DockerSettings::default(), 4096 * MIB, workspace, &image, note).join("\n")
        );
    }
}
