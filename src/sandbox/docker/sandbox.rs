//! One container with its supervisor.

use std::time::Duration;

use async_trait::async_trait;
use tokio::time::timeout;

use super::{engine::Engine, spec::MIB};
use crate::{
    method::ports::{Access, CommandLimits, CommandOutcome, Listed, Sandbox, SandboxError, Since},
    sandbox::session::Session,
};

/// Longest that ending a sandbox may hold a run up, which itself has ten seconds to end; what is left
/// then is the reaper's.
pub(super) const FAREWELL: Duration = Duration::from_secs(8);
/// A stream that broke off is a moment ahead of the exit code that says why.
const EXIT_CODE: Duration = Duration::from_millis(500);
/// Exit code of a process that was killed: by the kernel for want of memory, or from outside. An engine
/// on version 1 of cgroups never sets its own "out of memory" mark.
const KILLED: i64 = 137;

/// A container under way, its supervisor ready.
pub(super) struct DockerSandbox {
    pub engine: Engine,
    pub container: String,
    pub access: Access,
    pub memory_bytes: u64,
    /// The workspace's volume where no other sandbox uses it.
    pub own_volume: Option<String>,
    pub session: Session,
}

impl DockerSandbox {
    /// Whether the container runs, as far as the engine says.
    pub async fn is_running(&self) -> bool {
        let state = self.engine.state(&self.container).await;
        state.is_ok_and(|state| state.and_then(|state| state.running) == Some(true))
    }

    async fn checked<T>(&self, answer: Result<T, SandboxError>) -> Result<T, SandboxError> {
        match answer {
            Err(SandboxError::Lost(reason)) => Err(SandboxError::Lost(self.explain(reason).await)),
            other => other,
        }
    }

    /// Says why a session broke off, and ends the container where it still runs (R-EX-6).
    async fn explain(&self, reason: String) -> String {
        let what = match self.engine.exit_code(&self.container, EXIT_CODE).await {
            Ok(Some(KILLED)) => format!(
                "its container was killed ({KILLED}), most likely for want of memory (the limit is {} MiB, \
                 sandbox.memory_mib)",
                self.memory_bytes / MIB
            ),
            Ok(Some(code)) => format!("its container ended with {code}"),
            Ok(None) => match timeout(FAREWELL, self.engine.remove_container(&self.container)).await {
                Ok(Ok(())) => "its container was ended".to_owned(),
                Ok(Err(error)) => format!("its container could not be ended: {error}"),
                Err(_) => "its container could not be ended in time".to_owned(),
            },
            Err(error) if error.is_not_found() => "its container was removed".to_owned(),
            Err(error) => format!("{error}. Start the engine again, then resume the run"),
        };
        format!("{reason}: {what}")
    }

    async fn remove(&self) {
        if let Err(error) = self.engine.remove_container(&self.container).await {
            tracing::warn!(container = self.container, %error, "a container is left to the reaper");
        }
    }
}

#[async_trait]
impl Sandbox for DockerSandbox {
    async fn run(&self, command: &str, limits: CommandLimits) -> Result<CommandOutcome, SandboxError> {
        self.checked(self.session.run(command, limits).await).await
    }

    async fn list_changes(&self, since: Since) -> Result<Vec<Listed>, SandboxError> {
        if self.access == Access::ReadOnly {
            // The kernel lets nothing change.
            return Ok(Vec::new());
        }
        self.checked(self.session.list_changes(since).await).await
    }

    async fn freeze(&self) -> Result<(), SandboxError> {
        self.checked(self.session.freeze().await).await
    }

    async fn fetch(&self, path: &[u8], max_bytes: u64) -> Result<Vec<u8>, SandboxError> {
        self.checked(self.session.fetch(path, max_bytes).await).await
    }

    async fn close(&self) {
        let end = async {
            // Removing the container ends the supervisor, for which hanging up would wait.
            tokio::join!(self.session.hang_up(), self.remove());
            if let Some(volume) = &self.own_volume
                && let Err(error) = self.engine.remove_volume(volume).await
            {
                tracing::warn!(volume, %error, "a volume is left to the reaper");
            }
        };
        if timeout(FAREWELL, end).await.is_err() {
            tracing::warn!(container = self.container, "the engine is slow; the reaper removes what is left");
        }
    }
}
