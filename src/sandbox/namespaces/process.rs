//! A launched sandbox: the launcher's process, its cgroups, and the conversation with the supervisor.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    io::AsyncReadExt as _,
    process::{Child, Command},
    time::timeout,
};

use super::{
    cgroup::Cgroups,
    launcher::{self, Launch},
};
use crate::{
    method::ports::SandboxError,
    sandbox::session::{CommandBudget, Session},
};

/// Longest silence of a supervisor outside of commands; a listing of a large tree takes some seconds.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long a sandbox may take to go away by itself.
const FAREWELL: Duration = Duration::from_secs(2);
/// What a launcher says when it fails fits into this many bytes.
const MAX_COMPLAINT: u64 = 4_096;

/// Ends when dropped: the launcher is killed, and with it everything that it started.
pub(super) struct Process {
    pub(super) session: Session,
    child: Mutex<Option<Child>>,
    /// After `child`: cgroups can only be removed when they are empty.
    _cgroups: Cgroups,
    /// The folder that mount points were made in.
    root: PathBuf,
}

impl Process {
    pub(super) async fn launch(
        program: &Path,
        launch: &Launch,
        cgroups: Cgroups,
        budget: CommandBudget,
    ) -> Result<Self, SandboxError> {
        let json = serde_json::to_string(launch)
            .map_err(|error| SandboxError::Unavailable(format!("a path of the sandbox: {error}")))?;
        let mut child = Command::new(program)
            .args([launcher::COMMAND, &json])
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| {
                SandboxError::Unavailable(format!("{} cannot be started: {error}", program.display()))
            })?;
        let (Some(to), Some(from), Some(complaints)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            unreachable!("all three were asked for as pipes")
        };
        let complaint = tokio::spawn(async move {
            let mut said = Vec::new();
            // Read to its end, so that the writer never stops; an error is an end as well.
            let mut complaints = complaints;
            let _ = (&mut complaints).take(MAX_COMPLAINT).read_to_end(&mut said).await;
            let _ = tokio::io::copy(&mut complaints, &mut tokio::io::sink()).await;
            said
        });
        match Session::start(from, to, PATIENCE).await {
            Ok(session) => Ok(Self {
                session: session.with_budget(budget),
                child: Mutex::new(Some(child)),
                _cgroups: cgroups,
                root: launch.root.clone(),
            }),
            Err(error) => {
                let _ = child.kill().await;
                let said = timeout(FAREWELL, complaint).await.ok().and_then(Result::ok).unwrap_or_default();
                let said = String::from_utf8_lossy(&said);
                let said = said.trim();
                let reason = if said.is_empty() { error.to_string() } else { said.replace('\n', "; ") };
                Err(SandboxError::Unavailable(not_permitted(&reason)))
            }
        }
    }

    /// Ends a sandbox that does not answer any more.
    pub(super) fn kill(&self) {
        if let Some(child) = self.child().as_mut() {
            // An error means that it has ended.
            let _ = child.start_kill();
        }
    }

    /// Ends the sandbox in good order, else by force; returns when it is gone.
    pub(super) async fn close(&self) {
        self.session.hang_up().await;
        let Some(mut child) = self.child().take() else { return };
        if timeout(FAREWELL, child.wait()).await.is_err() {
            let _ = child.kill().await;
        }
        let _ = std::fs::remove_dir_all(&self.root);
    }

    fn child(&self) -> MutexGuard<'_, Option<Child>> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why namespaces could not be had, and what to do.
fn not_permitted(reason: &str) -> String {
    let setting = |path: &str| {
        std::fs::read_to_string(Path::new("/proc/sys").join(path)).map(|value| value.trim().to_owned())
    };
    let is = |path, value| setting(path).is_ok_and(|found| found == value);
    let advice = if is("kernel/unprivileged_userns_clone", "0") {
        "this kernel forbids them to ordinary users: `sysctl kernel.unprivileged_userns_clone=1` allows them"
    } else if is("kernel/apparmor_restrict_unprivileged_userns", "1") {
        "AppArmor restricts them: `sysctl kernel.apparmor_restrict_unprivileged_userns=0` lifts that"
    } else if is("user/max_user_namespaces", "0") {
        "their number is limited to none: `sysctl user.max_user_namespaces=10000` allows them"
    } else {
        "inside of a container they are often forbidden; run on the host itself"
    };
    format!(
        "the namespaces sandbox cannot be started ({reason}). It needs user namespaces; {advice}. \
         Or use Docker with `--sandbox docker`"
    )
}
