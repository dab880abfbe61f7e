//! Sandboxes made of Linux namespaces, for the demo and for one's own repositories.
//!
//! The walls are hakoniwa's ([`launcher`]), with its dangers shut; the supervisor inside is the same as in a
//! container. All read-only sandboxes of a run bind one exported tree; a read-write one has its workspace in
//! a tmpfs of its own. What this engine cannot hold to the same degree as a container is named in
//! `docs/security.md`: it shares the host's kernel settings, sees the names of the host's folders in its
//! mount table, and limits memory only where cgroups may be set.

mod cgroup;
mod folder;
mod host;
mod launcher;
mod process;
mod sandbox;

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicU32, Ordering},
    },
};

use async_trait::async_trait;
use nix::unistd::Uid;
use serde::Deserialize;
use tokio::sync::{OnceCell, mpsc};

pub use launcher::launched;

use self::{
    cgroup::Cgroups,
    folder::RunFolder,
    host::Host,
    launcher::{Bind, BindKind, Launch, Tmpfs},
    process::Process,
    sandbox::NamespacesSandbox,
};
use super::{
    SUPERVISOR,
    session::{CommandBudget, Fill, Filled},
};
use crate::{
    domain::{AgentName, Change, RepoPath, RunId, TreeChanges},
    method::ports::{Access, History, Sandbox, SandboxError, Sandboxes, SourceError, SourceTree},
};

const WORKSPACE: &str = "/workspace";
const HISTORY: &str = "/history";
const SUPERVISOR_INSIDE: &str = "/supervisor";
const HOME: &str = "/tmp/home";
/// Who runs the sandbox when root starts it: the user that owns nothing.
const NOBODY: u32 = 65_534;
const MIB: u64 = 1 << 20;
const SMALLEST_WORKSPACE: u64 = 512 * MIB;
const SHARED_MEMORY: u64 = 64 * MIB;
/// What is left for programs when every tmpfs is full. A tmpfs is memory that no kill gives back: where it
/// may take all, the kernel ends even the supervisor.
const MEMORY_FOR_PROGRAMS: u64 = 768 * MIB;
/// Entries waiting between the source tree and the sandbox.
const FILL_QUEUE: usize = 64;

/// Limits of each sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Memory, the content of every tmpfs included; raised where their sizes and 768 MiB for programs are
    /// more. Default 4 GiB.
    pub memory_bytes: u64,
    /// Processes and threads. Default 512.
    pub pids: u64,
    /// Size of a writable workspace. Default: three times the tree, and at least 512 MiB.
    pub workspace_bytes: Option<u64>,
    /// Size of `/tmp`. Default 256 MiB.
    pub tmp_bytes: u64,
    /// What the commands of one sandbox may use up together.
    pub budget: CommandBudget,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            memory_bytes: 4096 * MIB,
            pids: 512,
            workspace_bytes: None,
            tmp_bytes: 256 * MIB,
            budget: CommandBudget::default(),
        }
    }
}

/// The sandboxes of one run.
pub struct Namespaces {
    folder: RunFolder,
    run: RunId,
    tree: Arc<dyn SourceTree>,
    history: Option<History>,
    settings: Settings,
    launcher: PathBuf,
    host: Host,
    supervisor: PathBuf,
    /// Set when root runs this.
    become_user: Option<u32>,
    shared: OnceCell<Shared>,
    opened: AtomicU32,
    processes: Mutex<Vec<Weak<Process>>>,
    facts: Vec<String>,
    notes: Vec<String>,
}

/// The exported tree that read-only sandboxes bind.
struct Shared {
    /// Holds no `.git`: what tools of the host find there must not be a repository.
    tree: PathBuf,
    git: PathBuf,
}

impl Namespaces {
    /// Prepares the sandboxes of a run, and starts one to see that it can be done.
    ///
    /// Folders are made below `base`, where the leftovers of killed runs are removed first. `launcher` is
    /// this program, whose `main` must ask [`launched`] first.
    pub async fn start(
        run: RunId,
        tree: Arc<dyn SourceTree>,
        history: Option<History>,
        settings: Settings,
        base: &Path,
        launcher: PathBuf,
    ) -> Result<Self, SandboxError> {
        let made = tokio::task::spawn_blocking({
            let (base, run) = (base.to_owned(), run.clone());
            move || {
                let (folder, supervisor) = make_folder(&base, &run)?;
                Ok((folder, supervisor, Host::survey()))
            }
        });
        let (folder, supervisor, host) =
            made.await.map_err(std::io::Error::other).flatten().map_err(|error| {
                SandboxError::Unavailable(format!("the sandbox folder {}: {error}", base.display()))
            })?;
        let mut namespaces = Self {
            folder,
            run,
            tree,
            history,
            settings,
            launcher,
            host,
            supervisor,
            become_user: Uid::effective().is_root().then_some(NOBODY),
            shared: OnceCell::new(),
            opened: AtomicU32::new(0),
            processes: Mutex::default(),
            facts: Vec::new(),
            notes: Vec::new(),
        };
        (namespaces.facts, namespaces.notes) = namespaces.probe().await?;
        Ok(namespaces)
    }

    /// What people should know of the limits that this host does not hold.
    pub fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }

    /// Starts a sandbox with nothing in it; what agents are told of its limits, and people of those it lacks.
    async fn probe(&self) -> Result<(Vec<String>, Vec<String>), SandboxError> {
        let mut notes = Vec::new();
        let cgroups = self.cgroups(0);
        let mut facts = vec![
            "The network is off; only localhost answers.".to_owned(),
            format!(
                "outside of /workspace, only /tmp ({} MiB) can be written to; you are an ordinary user",
                self.settings.tmp_bytes / MIB
            ),
            "ptrace is refused: strace, gdb and LeakSanitizer do not work.".to_owned(),
        ];
        if cgroups.holds_processes || self.own_process_limit().is_some() {
            facts.push(format!("At most {} processes at a time.", self.settings.pids));
        } else {
            notes.push(
                "The number of processes is not limited: no cgroup may be set on this host.".to_owned(),
            );
        }
        if cgroups.holds_memory {
            facts.push(format!("Memory is limited to {} MiB.", self.memory(0) / MIB));
        } else {
            notes.push("Memory is not limited: no cgroup may be set on this host.".to_owned());
            facts.push("Memory is not limited: be careful with it.".to_owned());
        }
        let tmpfs = self.tmpfs(WORKSPACE, MIB, "755");
        self.launch(vec![], vec![tmpfs], cgroups).await?.close().await;
        Ok((facts, notes))
    }

    /// The limit on memory of a sandbox whose workspace takes this much of it.
    fn memory(&self, workspace_bytes: u64) -> u64 {
        let tmpfs = workspace_bytes.saturating_add(self.settings.tmp_bytes).saturating_add(SHARED_MEMORY);
        self.settings.memory_bytes.max(tmpfs.saturating_add(MEMORY_FOR_PROGRAMS))
    }

    fn cgroups(&self, workspace_bytes: u64) -> Cgroups {
        let number = self.opened.fetch_add(1, Ordering::Relaxed);
        let name = format!("{}{number}", cgroup_prefix(&self.run));
        Cgroups::create(&name, self.memory(workspace_bytes), self.settings.pids)
    }

    /// The limit by `RLIMIT_NPROC`. Since Linux 5.14 it counts the processes of one user namespace, before
    /// that all of the user's, which is nobody's only if root started this.
    fn own_process_limit(&self) -> Option<u64> {
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let mut numbers = release.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
        let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
        (version >= (5, 14) || self.become_user.is_some()).then_some(self.settings.pids)
    }

    fn tmpfs(&self, target: &str, bytes: u64, mode: &str) -> Tmpfs {
        // An empty file takes a kilobyte of kernel memory, so their number is limited as well.
        let files = (bytes / 4_096).max(1_024);
        Tmpfs { target: target.into(), bytes, files, mode: mode.into() }
    }

    /// A sandbox with these binds and tmpfs on top of what all have.
    async fn launch(
        &self,
        binds: Vec<Bind>,
        tmpfs: Vec<Tmpfs>,
        cgroups: Cgroups,
    ) -> Result<Arc<Process>, SandboxError> {
        let number = self.opened.fetch_add(1, Ordering::Relaxed);
        let root = self
            .folder
            .folder(&format!("root-{number}"), self.become_user)
            .map_err(|error| SandboxError::Unavailable(format!("the sandbox folder: {error}")))?;
        let bind = |source: &Path, target: &str| Bind {
            source: source.into(),
            target: target.into(),
            kind: BindKind::ReadOnly,
        };
        let mut all_binds = [self.host.binds.clone(), binds].concat();
        all_binds.push(bind(&self.supervisor, SUPERVISOR_INSIDE));
        if let Some(history) = &self.history {
            all_binds.push(bind(&history.objects, HISTORY));
        }
        let mut all_tmpfs = tmpfs;
        all_tmpfs.push(self.tmpfs("/tmp", self.settings.tmp_bytes, "1777"));
        all_tmpfs.push(self.tmpfs("/dev/shm", SHARED_MEMORY, "1777"));
        let environment =
            [("HOME", HOME), ("TMPDIR", "/tmp"), ("CI", "true"), ("PAGER", "cat"), ("PATH", &self.host.path)];
        let launch = Launch {
            root,
            become_user: self.become_user,
            cgroups: cgroups.entrances(),
            binds: all_binds,
            tmpfs: all_tmpfs,
            links: self.host.links.clone(),
            files: host::made_files(),
            environment: environment.map(|(key, value)| (key.into(), value.into())).into(),
            processes: self.own_process_limit(),
            program: SUPERVISOR_INSIDE.into(),
            arguments: vec![WORKSPACE.into()],
        };
        let process =
            Arc::new(Process::launch(&self.launcher, &launch, cgroups, self.settings.budget.clone()).await?);
        let mut processes = self.processes.lock().unwrap_or_else(PoisonError::into_inner);
        processes.retain(|process| process.strong_count() > 0);
        processes.push(Arc::downgrade(&process));
        Ok(process)
    }

    /// Exports the tree once, through a sandbox of its own: its supervisor checks every path and follows no
    /// symlink, and what it may write to are these two folders.
    async fn export(&self) -> Result<Shared, SandboxError> {
        // A first attempt may have failed half way.
        let number = self.opened.fetch_add(1, Ordering::Relaxed);
        let folder = |name| {
            self.folder
                .folder(&format!("{name}-{number}"), self.become_user)
                .map_err(|error| SandboxError::Unavailable(format!("the sandbox folder: {error}")))
        };
        let shared = Shared { tree: folder("tree")?, git: folder("git")? };
        let cgroups = self.cgroups(0);
        let process = self.launch(shared.binds(BindKind::Writable), vec![], cgroups).await?;
        let filled = self.fill(&process, &TreeChanges::default()).await;
        process.close().await;
        filled.map(|_| shared)
    }

    /// Sends the base tree, git files and saved changes into a sandbox.
    async fn fill(&self, process: &Process, changes: &TreeChanges) -> Result<Filled, SandboxError> {
        let (to_filter, mut files) = mpsc::channel::<Change>(FILL_QUEUE);
        let (to_sandbox, entries) = mpsc::channel(FILL_QUEUE);
        let filter = async move {
            while let Some(change) = files.recv().await {
                // S-59: a name that no file system should see stays in git; it is carried over unchanged.
                if let Err(error) = RepoPath::check_writable(&change.path) {
                    tracing::warn!("not written into the workspace: {error}");
                    continue;
                }
                if to_sandbox.send(Fill::Base(change)).await.is_err() {
                    return Ok(());
                }
            }
            if self.history.is_some() {
                for file in self.tree.git_files(HISTORY).await? {
                    let _ = to_sandbox.send(Fill::Git(file)).await;
                }
            }
            for change in &changes.changed {
                let _ = to_sandbox.send(Fill::Saved(change.clone())).await;
            }
            for path in &changes.removed {
                let _ = to_sandbox.send(Fill::Removed(path.clone())).await;
            }
            Ok(())
        };
        let (streamed, filtered, filled) =
            tokio::join!(self.tree.stream_files(to_filter), filter, process.session.fill(entries));
        // A fill that failed closes the channel, so its error is the cause of the others.
        let filled = filled?;
        let source = |error: SourceError| SandboxError::Unavailable(format!("the source tree: {error}"));
        streamed.map_err(source)?;
        filtered.map_err(source)?;
        Ok(filled)
    }

    async fn open_read_only(&self) -> Result<NamespacesSandbox, SandboxError> {
        let shared = self.shared.get_or_try_init(|| self.export()).await?;
        let cgroups = self.cgroups(0);
        let process = self.launch(shared.binds(BindKind::ReadOnly), vec![], cgroups).await?;
        Ok(NamespacesSandbox { process, access: Access::ReadOnly })
    }

    async fn open_read_write(&self, changes: &TreeChanges) -> Result<NamespacesSandbox, SandboxError> {
        let size = match self.settings.workspace_bytes {
            Some(size) => size,
            None => {
                let entries = self.tree.entries().await;
                let entries = entries.map_err(|error| SandboxError::Unavailable(error.to_string()))?;
                let tree: u64 = entries.iter().map(|entry| entry.size).sum();
                SMALLEST_WORKSPACE.max(tree.saturating_mul(3))
            }
        };
        let workspace = self.tmpfs(WORKSPACE, size, "755");
        let process = self.launch(vec![], vec![workspace], self.cgroups(size)).await?;
        if let Err(error) = self.fill(&process, changes).await {
            process.close().await;
            return Err(error);
        }
        Ok(NamespacesSandbox { process, access: Access::ReadWrite })
    }
}

/// The run's folder and the supervisor in it. What killed processes left goes first, of this run and of all
/// others.
fn make_folder(base: &Path, run: &RunId) -> std::io::Result<(RunFolder, PathBuf)> {
    let remove_cgroups = |run: &RunId| cgroup::reap(&cgroup_prefix(run));
    for dead in folder::reap(base, remove_cgroups) {
        tracing::info!("removed what was left of run {}", dead.as_str());
    }
    let folder = RunFolder::create(base, run, remove_cgroups)?;
    let supervisor = folder.program("supervisor", SUPERVISOR)?;
    Ok((folder, supervisor))
}

/// What the names of a run's cgroups begin with.
fn cgroup_prefix(run: &RunId) -> String {
    format!("acquire-{}-", run.as_str())
}

impl Shared {
    fn binds(&self, kind: BindKind) -> Vec<Bind> {
        let bind = |source: &Path, target: String| Bind { source: source.into(), target, kind };
        vec![bind(&self.tree, WORKSPACE.into()), bind(&self.git, format!("{WORKSPACE}/.git"))]
    }
}

#[async_trait]
impl Sandboxes for Namespaces {
    fn kind(&self) -> &'static str {
        "namespaces"
    }

    fn facts(&self) -> Vec<String> {
        self.facts.clone()
    }

    async fn open(
        &self,
        _agent: &AgentName,
        access: Access,
        changes: &TreeChanges,
    ) -> Result<Arc<dyn Sandbox>, SandboxError> {
        let sandbox = match access {
            Access::ReadWrite => self.open_read_write(changes).await?,
            Access::ReadOnly if changes.is_empty() => self.open_read_only().await?,
            Access::ReadOnly => {
                let why = "read-only sandboxes share the base tree; changes cannot be laid over it";
                return Err(SandboxError::Limit(why.into()));
            }
        };
        Ok(Arc::new(sandbox))
    }

    async fn close(&self) {
        let processes = std::mem::take(&mut *self.processes.lock().unwrap_or_else(PoisonError::into_inner));
        let living = processes.iter().filter_map(Weak::upgrade).collect::<Vec<_>>();
        futures_util::future::join_all(living.iter().map(|process| process.close())).await;
    }
}
