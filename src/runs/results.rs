//! From what a run came to, to the files it leaves and what is shown of it.

use std::{collections::BTreeMap, path::PathBuf};

use serde_json::Value;

use crate::{
    domain::{Account, AgentName, Knowledge, Money, Patch},
    gate::secrets::Scanner,
    method::{
        context::{AgentReport, Models, RunError, StageReport},
        ports::StoreError,
        run::{Resolved, RunReport},
    },
    report::{self, CommentInput, PullRequestInput},
    store::{
        AgentExit, AgentSummary, ErrorSummary, IssueSummary, Outcome, Results, RunFolder, RunSummary,
        StageSummary, Strategy, write_results, write_summary,
    },
};

use super::{
    earlier::Earlier,
    inputs::{Inputs, Request},
};

/// A run that has ended and whose files are written.
#[derive(Debug)]
pub struct Solved {
    pub summary: RunSummary,
    pub folder: PathBuf,
    /// Names of the results in there.
    pub files: Vec<&'static str>,
    pub knowledge: Option<Knowledge>,
    /// Markdown, as in `comment.md`.
    pub comment: Option<String>,
    pub patch: Option<Patch>,
    /// Whether the price of every model that was called is known.
    pub priced: bool,
    /// The command or the settings were at fault, not the run.
    pub usage: bool,
    /// Ended early, and may end otherwise when it is resumed.
    pub can_go_on: bool,
}

impl Solved {
    /// Without results but those in the folder.
    fn of(summary: RunSummary, folder: PathBuf, files: Vec<&'static str>) -> Self {
        let priced = !summary.unpriced;
        Self {
            summary,
            folder,
            files,
            knowledge: None,
            comment: None,
            patch: None,
            priced,
            usage: false,
            can_go_on: false,
        }
    }
}

/// What is known of a run apart from what its stages came to.
pub struct Frame<'a> {
    pub inputs: &'a Inputs,
    /// By role.
    pub models: BTreeMap<String, String>,
    pub sandbox: &'a str,
    /// Roles whose model has no known price.
    pub unpriced: Vec<&'static str>,
    pub notes: Vec<String>,
    /// Everything that this process knows to be spent, of agents that failed too.
    pub spent: Money,
    pub earlier: Earlier,
    /// Whether the run came to its first stage, or to what is stored of it.
    pub begun: bool,
}

impl<'a> Frame<'a> {
    pub fn of(
        inputs: &'a Inputs,
        models: &Models,
        sandbox: &'a str,
        notes: Vec<String>,
        spent: Money,
        earlier: Earlier,
        begun: bool,
    ) -> Self {
        let roles = [
            ("questioner", &models.questioner),
            ("answerer", &models.answerer),
            ("resolver", &models.resolver),
        ];
        let unpriced = roles.iter().filter(|(_, model)| model.price().is_none()).map(|(role, _)| *role);
        let mut frame = Self {
            inputs,
            models: roles.iter().map(|(role, model)| ((*role).into(), model.name().into())).collect(),
            sandbox,
            unpriced: unpriced.collect(),
            notes,
            spent,
            earlier,
            begun,
        };
        if let (false, Some(told)) = (begun, frame.earlier.told()) {
            // Nobody was asked, and no sandbox opened, but by the earlier processes.
            frame.models.clone_from(&told.models);
        }
        frame
    }

    fn is_unpriced(&self, stages: &[StageReport]) -> bool {
        let told = self.earlier.told().is_some_and(|told| told.unpriced);
        let mut agents = stages.iter().flat_map(|stage| &stage.agents);
        told || agents
            .any(|agent| agent.account.tokens.total() > 0 && self.unpriced.contains(&role(&agent.name)))
    }
}

/// The role whose model an agent asks.
fn role(agent: &str) -> &'static str {
    if agent == AgentName::questioner().as_str() {
        "questioner"
    } else if agent == AgentName::resolver().as_str() {
        "resolver"
    } else {
        "answerer"
    }
}

/// Writes everything that a run leaves. An error means that not even `run.json` could be written; the one of an
/// earlier process is then as it was.
pub fn finish(
    frame: Frame<'_>,
    report: RunReport,
    folder: &RunFolder,
    scanner: &Scanner,
) -> Result<Solved, StoreError> {
    let Inputs { request, issue, .. } = frame.inputs;
    let knowledge = report.knowledge.as_ref().filter(|k| !k.is_empty());
    let stages = frame.earlier.complete(report.stages.clone());
    // Agents that failed are in the ledger and may be missing in the reports.
    let unreported = frame.spent.saturating_sub(report.stages.iter().map(StageReport::usd).sum());
    let total = total(&stages, unreported + frame.earlier.unstored());
    let unpriced = frame.is_unpriced(&stages);
    let sandbox = match frame.earlier.told() {
        Some(told) if !frame.begun => &told.sandbox,
        _ => frame.sandbox,
    };
    let mut notes = frame.notes;
    notes.extend(report.notes.iter().cloned());
    for agent in stages.iter().flat_map(|stage| &stage.agents) {
        notes.extend(agent.notes.iter().map(|note| report::note_about(&agent.name, note)));
    }
    let verdict = Verdict::of(&report);
    let summary = RunSummary {
        run_id: frame.inputs.run_id.clone(),
        version: env!("CARGO_PKG_VERSION").into(),
        repo: request.repo.clone(),
        base: frame.inputs.commit.to_string(),
        issue: IssueSummary { number: issue.number, title: issue.title.clone() },
        strategy: strategy(request),
        models: frame.models,
        sandbox: sandbox.into(),
        outcome: verdict.outcome,
        error: report.error.as_ref().map(error_summary),
        stages: stages.iter().map(stage_summary).collect(),
        total: total.into(),
        unpriced,
        patch: verdict.patch.map(|patch| patch.summary.clone()),
        notes,
    };
    let models: Vec<(String, String)> = summary.models.clone().into_iter().collect();
    let comment = knowledge.map(|knowledge| {
        report::comment(&CommentInput {
            knowledge,
            issue,
            repo: &request.repo,
            run_id: &frame.inputs.run_id,
            version: env!("CARGO_PKG_VERSION"),
            models: &models,
            account: total,
            priced: !unpriced,
            notes: &summary.notes,
        })
    });
    let pull_request = report.resolved.as_ref().map(|resolved| {
        report::pull_request(&PullRequestInput {
            issue,
            resolved,
            knowledge: report.knowledge.as_ref(),
            // Only a bot that opens the pull request knows whether its base is the default branch.
            closes: false,
            secrets: &resolved.secrets,
        })
    });
    let redact = |text: String| scanner.redact_markdown(&text);
    let (comment, pull_request) = (comment.map(redact), pull_request.map(redact));
    let results = Results {
        run: &summary,
        knowledge,
        comment: comment.as_deref(),
        pull_request: pull_request.as_deref(),
        diff: verdict.patch.map(|patch| patch.diff.as_slice()),
        partial_diff: verdict.unfinished.map(|patch| patch.diff.as_slice()),
    };
    let earlier_results_stay = !frame.begun && frame.earlier.told().is_some();
    let written =
        if earlier_results_stay { write_summary(folder, &summary) } else { write_results(folder, &results) };
    let files = match written {
        Ok(files) => files,
        Err(error) => return finish_unwritten(summary, error, folder),
    };
    if report.error.is_none() {
        folder.forget_trees()?;
    }
    let patch = verdict.patch.cloned();
    // The stored replies of a Questioner that found no question would be read again.
    let can_go_on = report.error.as_ref().is_some_and(|error| !matches!(error, RunError::NoQuestions { .. }));
    let (folder, knowledge) = (folder.path().to_owned(), knowledge.cloned());
    Ok(Solved { knowledge, comment, patch, can_go_on, ..Solved::of(summary, folder, files) })
}

/// Where the results cannot be written, what they cost may still be.
fn finish_unwritten(
    mut summary: RunSummary,
    error: StoreError,
    folder: &RunFolder,
) -> Result<Solved, StoreError> {
    summary.outcome = Outcome::Failed;
    summary.patch = None;
    summary.error = Some(error_summary(&error.clone().into()));
    let Ok(files) = write_summary(folder, &summary) else { return Err(error) };
    Ok(Solved { can_go_on: true, ..Solved::of(summary, folder.path().to_owned(), files) })
}

/// Writes the `run.json` of a run that ended before its first stage.
pub fn finish_unstarted(
    mut summary: RunSummary,
    error: ErrorSummary,
    usage: bool,
    folder: &RunFolder,
) -> Result<Solved, StoreError> {
    summary.error = Some(error);
    let nothing = Results {
        run: &summary,
        knowledge: None,
        comment: None,
        pull_request: None,
        diff: None,
        partial_diff: None,
    };
    let files = write_results(folder, &nothing)?;
    Ok(Solved { usage, ..Solved::of(summary, folder.path().to_owned(), files) })
}

/// What becomes of the patch.
struct Verdict<'a> {
    outcome: Outcome,
    /// May leave.
    patch: Option<&'a Patch>,
    /// Of a Resolver that did not submit: kept, not proposed.
    unfinished: Option<&'a Patch>,
}

impl<'a> Verdict<'a> {
    fn of(report: &'a RunReport) -> Self {
        let mut verdict = Self { outcome: Outcome::NoPatch, patch: None, unfinished: None };
        match (&report.error, &report.resolved) {
            (Some(RunError::Cancelled), _) => verdict.outcome = Outcome::Cancelled,
            (Some(_), _) => verdict.outcome = Outcome::Failed,
            (None, None) => verdict.outcome = Outcome::KnowledgeOnly,
            (None, Some(Resolved { patch: Some(patch), submitted: true, .. })) => {
                verdict.outcome = Outcome::Patch;
                verdict.patch = Some(patch);
            }
            (None, Some(Resolved { patch: Some(patch), submitted: false, .. })) => {
                verdict.unfinished = Some(patch);
            }
            (None, Some(Resolved { patch: None, .. })) => {}
        }
        verdict
    }
}

pub fn strategy(request: &Request) -> Strategy {
    Strategy {
        knowledge: request.source().name().into(),
        answerer: request.answerer.name().into(),
        resolver: if request.patch { "agent" } else { "none" }.into(),
    }
}

pub fn error_summary(error: &RunError) -> ErrorSummary {
    ErrorSummary { class: error.class().into(), message: error.to_string() }
}

/// `unreported` is in no report of an agent.
fn total(stages: &[StageReport], unreported: Money) -> Account {
    let mut total = Account { usd: unreported, ..Account::default() };
    for stage in stages {
        total += stage.account();
    }
    total
}

fn stage_summary(stage: &StageReport) -> StageSummary {
    let account = stage.account();
    StageSummary {
        name: stage.name.clone(),
        seconds: account.seconds,
        usd: account.usd,
        tokens: account.tokens,
        agents: stage.agents.iter().map(agent_summary).collect(),
    }
}

fn agent_summary(agent: &AgentReport) -> AgentSummary {
    let Account { steps, seconds, usd, tokens } = agent.account;
    // The two enums have the same names; a name of another version is a failure.
    let exit = serde_json::from_value(Value::from(agent.exit.as_str())).unwrap_or(AgentExit::Failed);
    AgentSummary { name: agent.name.clone(), steps, seconds, usd, tokens, exit }
}
