//! One container with its supervisor.

use std::time::Duration;

use async_trait::async_trait;

use super::{engine::Engine, spec::MIB};
use crate::{
    method::ports::{CommandLimits, CommandOutcome, Listed, Sandbox, SandboxError, Since},
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

    /// Says why a session broke off, and ends the container where it still runs (R-EX-6).
    async fn explain(&self, error: SandboxError) -> SandboxError {
        let SandboxError::Lost(reason) = error else { return error };
        let exit_code = match self.engine.exit_code(&self.container, EXIT_CODE).await {
            Ok(exit_code) => exit_code,
            Err(error) if error.is_not_found() => {
                return SandboxError::Lost(format!("{reason}: its container was removed"));
            }
            Err(error) => {
                return SandboxError::Lost(format!(
                    "{reason}: {error}. Start the engine again, then resume the run"
                ));
            }
        };
        let what = match exit_code {
            Some(KILLED) => format!(
                "its container was killed ({KILLED}), most likely for want of memory (the limit is {} MiB, \
                 sandbox.memory_mib)",
                self.memory_bytes / MIB
            ),
            Some(code) => format!("its container ended with {code}"),
            None => match tokio::time::timeout(FAREWELL, self.engine.remove_container(&self.container)).await
            {
                Ok(Ok(())) => "its container was ended".to_owned(),
                Ok(Err(error)) => format!("its container could not be ended: {error}"),
                Err(_) => "its container could not be ended in time".to_owned(),
            },
        };
        SandboxError::Lost(format!("{reason}: {what}"))
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
        match self.session.run(command, limits).await {
            Ok(outcome) => Ok(outcome),
            Err(error) => Err(self.explain(error).await),
        }
    }

    async fn list_changes(&self, since: Since) -> Result<Vec<Listed>, SandboxError> {
        match self.session.list_changes(since).await {
            Ok(listed) => Ok(listed),
            Err(error) => Err(self.explain(error).await),
        }
    }

    async fn freeze(&self) -> Result<(), SandboxError> {
        match self.session.freeze().await {
            Ok(()) => Ok(()),
            Err(error) => Err(self.explain(error).await),
        }
    }

    async fn fetch(&self, path: &[u8], max_bytes: u64) -> Result<Vec<u8>, SandboxError> {
        match self.session.fetch(path, max_bytes).await {
            Ok(content) => Ok(content),
            Err(error) => Err(self.explain(error).await),
        }
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
        if tokio::time::timeout(FAREWELL, end).await.is_err() {
            tracing::warn!(container = self.container, "the engine is slow; the reaper removes what is left");
        }
    }
}
