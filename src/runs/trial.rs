//! Tries a command out before and after a patch, each time in a fresh sandbox.

use crate::{
    domain::{AgentName, Patch, RunId, TreeChanges},
    method::{
        context::RunError,
        ports::{Access, CommandLimits, CommandOutcome, Sandboxes, SourceTree},
    },
    repo::{Mirror, Source},
};

use super::{
    Host, Request, active,
    parts::{self, Folders},
};

/// What is tried.
pub struct Trial<'a> {
    pub request: Request,
    pub patch: &'a Patch,
    /// Laid over the tree both times, such as tests that no agent saw.
    pub beside: TreeChanges,
    pub command: &'static str,
}

/// Runs the command on the base commit, then on the patched tree.
pub async fn try_out(trial: Trial<'_>, host: &Host) -> anyhow::Result<Vec<CommandOutcome>> {
    let mut random = host.random.run_id;
    random.reverse();
    let run_id = RunId::new(host.clock.now(), random);
    let folders = Folders::below(&host.settings.cache(&host.environment)?, &run_id);
    let alive = active::register(&folders.alive, &run_id)?;
    let mirror = Mirror::open(
        Source::parse(&trial.request.repo)?,
        parts::mirror_settings(host, &folders, &Source::parse(&trial.request.repo)?)?,
    )
    .await?;
    let tree = std::sync::Arc::new(mirror.at(trial.request.base.as_deref()).await?);
    let mut patched = tree.changes_of(trial.patch).await?;
    patched.extend(trial.beside.clone());
    let history = tree.history(folders.work.join("history"), host.settings.git.history_mib << 20).await?;
    let (sandboxes, _) =
        parts::open_sandboxes(&trial.request, &run_id, tree.clone(), history, host, &folders).await?;
    let mut outcomes = Vec::new();
    for changes in [&trial.beside, &patched] {
        match one(&*sandboxes, changes, trial.command, host).await {
            Ok(outcome) => outcomes.push(outcome),
            Err(error) => {
                sandboxes.close().await;
                return Err(error.into());
            }
        }
    }
    sandboxes.close().await;
    parts::remove_folder(&folders.work);
    drop(alive);
    Ok(outcomes)
}

async fn one(
    sandboxes: &dyn Sandboxes,
    changes: &TreeChanges,
    command: &str,
    host: &Host,
) -> Result<CommandOutcome, RunError> {
    let limits = CommandLimits {
        timeout: std::time::Duration::from_secs(host.settings.limits.resolver.command_seconds),
        keep_bytes: 16 * 1024,
    };
    let sandbox = sandboxes.open(&AgentName::probe(), Access::ReadWrite, changes).await?;
    let outcome = sandbox.run(command, limits).await;
    sandbox.close().await;
    Ok(outcome?)
}
