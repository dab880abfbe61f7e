//! A run: prepare, acquire knowledge, resolve. Reads like the paper's Figure 1.

use std::{collections::BTreeSet, sync::Arc};

use futures_util::{
    FutureExt,
    future::{Either, ready, select},
};
use serde::{Deserialize, Serialize};

use crate::{
    domain::{AgentName, Knowledge, LeftOut, Patch, RepoPath, TreeChanges},
    gate::shown,
    method::{
        baseline,
        checkpoint::checkpoint,
        context::{RunContext, RunError, StageReport},
        facts::{self, Facts, Probed},
        instructions,
        ports::{Access, Ended, KnowledgeSource, Resolver, SourceError},
        resolver::{Resolution, TestReport},
    },
};

/// Which strategies a run uses.
pub struct Strategy {
    pub knowledge: Arc<dyn KnowledgeSource>,
    /// `None`: knowledge only.
    pub resolver: Option<Arc<dyn Resolver>>,
}

/// What the Resolver came to, as stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Resolved {
    pub summary: String,
    pub used_answers: Vec<String>,
    /// `None` when nothing changed that may leave the workspace.
    pub patch: Option<Patch>,
    pub left_out: Vec<LeftOut>,
    /// What the Resolver asked to leave out but may not: it belongs to the repository.
    pub kept: Vec<LeftOut>,
    /// False when a limit ended the Resolver: the patch is unfinished work.
    pub submitted: bool,
    pub tests: Vec<TestReport>,
    /// Files that bring a secret, in their content or in their names; then there is no patch.
    pub secrets: Vec<String>,
}

/// What a run came to: as far as it got, and the error that ended it, if one did.
#[derive(Debug, Default)]
pub struct RunReport {
    pub knowledge: Option<Knowledge>,
    pub resolved: Option<Resolved>,
    pub stages: Vec<StageReport>,
    /// What people should know of how the stages went.
    pub notes: Vec<String>,
    pub error: Option<RunError>,
}

/// Runs all stages in order. Sandboxes are closed at the end, whatever happened.
pub async fn run(mut context: RunContext, strategy: &Strategy) -> RunReport {
    let mut report = RunReport::default();
    report.error = stages(&mut context, strategy, &mut report).await.err();
    context.sandboxes.close().await;
    report
}

async fn stages(
    context: &mut RunContext,
    strategy: &Strategy,
    report: &mut RunReport,
) -> Result<(), RunError> {
    let facts =
        checkpoint(context, "prepare", &mut report.stages, async { (Vec::new(), prepare(context).await) })
            .await?;
    report.notes.clone_from(&facts.notes);
    context.set_environment(&facts, None);
    let context = &*context;

    let Some(resolver) = &strategy.resolver else {
        report.knowledge = Some(strategy.knowledge.acquire(context, &mut report.stages).await?);
        return Ok(());
    };
    // The tests are tried meanwhile. Should knowledge be there first, the rest of the wait is the Resolver's time.
    let acquire = strategy.knowledge.acquire(context, &mut report.stages);
    let (knowledge, baseline) = match select(acquire, baseline::measure(context, &facts).boxed()).await {
        Either::Left((knowledge, measuring)) => (knowledge?, measuring),
        Either::Right((baseline, acquire)) => (acquire.await?, ready(baseline).boxed()),
    };
    let knowledge = report.knowledge.insert(knowledge);
    let resolved = checkpoint(context, "resolve", &mut report.stages, async {
        let mut context = context.clone();
        context.set_environment(&facts, baseline.await.as_ref());
        let Ended { report, result } = resolver.resolve(&context, knowledge).await;
        let resolved = match result {
            Ok(resolution) => build(&context, resolution).await,
            Err(error) => Err(error),
        };
        (vec![report], resolved)
    })
    .await?;
    report.resolved = Some(resolved);
    Ok(())
}

/// Finds the facts out that every agent is told.
async fn prepare(context: &RunContext) -> Result<Facts, RunError> {
    let entries = context.tree.entries().await?;
    let probe = AgentName::probe();
    let unchanged = TreeChanges::default();
    let sandbox = tokio::select! {
        biased;
        stop = context.services.stop() => return Err(stop.into()),
        opened = context.sandboxes.open(&probe, Access::ReadOnly, &unchanged) => opened?,
    };
    let probed = facts::probe(&*sandbox).await;
    sandbox.close().await;
    let Probed { tools, absent, packages } = probed?;
    let instructions::Found { instructions, notes } = instructions::find(&*context.tree, &entries).await?;
    let test_command = facts::test_command(&entries).map(|command| facts::with_python(command, &absent));
    Ok(Facts {
        files: entries.len(),
        languages: facts::languages(&entries),
        tools,
        absent,
        packages,
        test_command,
        history: context.history.clone(),
        posture: context.sandboxes.facts(),
        instructions,
        notes,
    })
}

async fn build(context: &RunContext, resolution: Resolution) -> Result<Resolved, RunError> {
    let mut left_out = resolution.left_out;
    let mut secrets = secrets_in_binaries(context, &resolution.changes).await?;
    let mut patch = None;
    if !resolution.changes.is_empty() {
        match context.tree.build_patch(resolution.changes).await {
            Ok(mut built) => {
                left_out.extend(built.summary.left_out);
                built.summary.left_out = left_out.clone();
                // Files that were written back as they were are no change.
                patch = (!built.diff.is_empty()).then_some(built);
            }
            // A tree that git would not have written cannot be changed: no patch, and no failure of the run.
            Err(SourceError::Input(reason)) => left_out.push(LeftOut { path: ".".into(), reason }),
            Err(other) => return Err(other.into()),
        }
    }
    if let Some(built) = &patch {
        secrets.extend(context.scanner.scan_patch(&built.diff).into_iter().map(|found| found.path));
    }
    if !secrets.is_empty() {
        // Not even stored: what is stored can leave.
        patch = None;
    }
    Ok(Resolved {
        summary: resolution.summary,
        used_answers: resolution.used_answers,
        patch,
        left_out,
        kept: resolution.kept,
        submitted: resolution.submitted,
        tests: resolution.tests,
        secrets: secrets.into_iter().collect(),
    })
}

/// Binary files that bring a secret (S-33): the diff holds them encoded, so they are looked at as they are.
async fn secrets_in_binaries(
    context: &RunContext,
    changes: &TreeChanges,
) -> Result<BTreeSet<String>, RunError> {
    let mut found = BTreeSet::new();
    for change in &changes.changed {
        let base = match RepoPath::from_bytes(&change.path) {
            // However large: the diff reads it whole as well.
            Ok(path) => context.tree.read(&path, u64::MAX).await?.unwrap_or_default(),
            Err(_) => Vec::new(),
        };
        if context.scanner.adds_in_binary(&change.content, &base) {
            found.insert(context.scanner.redact(&shown::path(&change.path)).into_owned());
        }
    }
    Ok(found)
}
