//! Tries a command out before and after a patch, each time in a fresh sandbox.

use std::{sync::Arc, time::Duration};

use crate::{
    domain::{AgentName, Patch, RunId, TreeChanges},
    method::{
        context::RunError,
        ports::{Access, CommandLimits, CommandOutcome, Sandboxes, SourceTree},
    },
};

use super::{
    Host, Request, StartError, active,
    parts::{self, Folders},
};

/// Bytes kept of each end of the output.
const KEEP_BYTES: usize = 16 * 1024;

/// What is tried.
pub struct Trial<'a> {
    /// Of the trial, which is no run of its own but needs a name for what it makes.
    pub id: RunId,
    pub request: Request,
    pub patch: &'a Patch,
    /// Laid over the tree both times, such as tests that no agent saw.
    pub beside: TreeChanges,
    pub command: &'static str,
}

/// Runs the command on the base commit, then on the patched tree.
pub async fn try_out(trial: Trial<'_>, host: &Host) -> Result<[CommandOutcome; 2], StartError> {
    let folders = Folders::below(&host.settings.cache(&host.environment)?, &trial.id);
    let alive = active::register(&folders.alive, &trial.id)
        .map_err(|e| StartError::failed("run_folder", format!("{}: {e}", folders.alive.display())))?;
    let outcomes = both(trial, host, &folders).await;
    parts::remove_folder(&folders.work);
    drop(alive);
    outcomes
}

async fn both(trial: Trial<'_>, host: &Host, folders: &Folders) -> Result<[CommandOutcome; 2], StartError> {
    let mirror = parts::open_mirror(&trial.request, host, folders).await?;
    let tree = Arc::new(mirror.at(trial.request.base.as_deref()).await?);
    let mut patched = tree.changes_of(trial.patch).await?;
    patched.extend(trial.beside.clone());
    let history = tree.history(folders.work.join("history"), host.settings.git.history_mib << 20).await?;
    let (sandboxes, _) =
        parts::open_sandboxes(&trial.request, &trial.id, tree, history, host, folders).await?;
    let before = one(&*sandboxes, &trial.beside, trial.command, host).await;
    let after = one(&*sandboxes, &patched, trial.command, host).await;
    sandboxes.close().await;
    Ok([before?, after?])
}

async fn one(
    sandboxes: &dyn Sandboxes,
    changes: &TreeChanges,
    command: &str,
    host: &Host,
) -> Result<CommandOutcome, RunError> {
    let limits = CommandLimits {
        timeout: Duration::from_secs(host.settings.limits.resolver.command_seconds),
        keep_bytes: KEEP_BYTES,
    };
    let sandbox = sandboxes.open(&AgentName::probe(), Access::ReadWrite, changes).await?;
    let outcome = sandbox.run(command, limits).await;
    sandbox.close().await;
    Ok(outcome?)
}
