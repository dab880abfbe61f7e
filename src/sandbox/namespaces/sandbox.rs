//! One agent's sandbox.

use std::sync::Arc;

use async_trait::async_trait;

use super::process::Process;
use crate::method::ports::{Access, CommandLimits, CommandOutcome, Listed, Sandbox, SandboxError, Since};

pub(super) struct NamespacesSandbox {
    pub(super) process: Arc<Process>,
    pub(super) access: Access,
}

impl NamespacesSandbox {
    /// A sandbox that is lost must not go on running.
    fn checked<T>(&self, result: Result<T, SandboxError>) -> Result<T, SandboxError> {
        if let Err(SandboxError::Lost(_)) = result {
            self.process.kill();
        }
        result
    }
}

#[async_trait]
impl Sandbox for NamespacesSandbox {
    async fn run(&self, command: &str, limits: CommandLimits) -> Result<CommandOutcome, SandboxError> {
        self.checked(self.process.session.run(command, limits).await)
    }

    async fn list_changes(&self, since: Since) -> Result<Vec<Listed>, SandboxError> {
        match self.access {
            // The kernel lets nothing change.
            Access::ReadOnly => Ok(Vec::new()),
            Access::ReadWrite => self.checked(self.process.session.list_changes(since).await),
        }
    }

    async fn freeze(&self) -> Result<(), SandboxError> {
        self.checked(self.process.session.freeze().await)
    }

    async fn fetch(&self, path: &[u8], max_bytes: u64) -> Result<Vec<u8>, SandboxError> {
        self.checked(self.process.session.fetch(path, max_bytes).await)
    }

    async fn close(&self) {
        self.process.close().await;
    }
}
