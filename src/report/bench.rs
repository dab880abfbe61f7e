//! What `acquire bench` says: lines while it goes on, and the table at its end.
//!
//! The figures of the table are also the serialised form of `table.json`. A figure that is not known is
//! absent there and `–` in the table, never 0.

mod table;

use serde::Serialize;

use crate::{
    gate::shown,
    store::{Outcome, RunSummary},
};

use super::words::{counted, duration, money};

pub use table::bench_table;

/// A whole bench in figures.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BenchFigures {
    /// Of this program.
    pub version: String,
    /// In the order asked for; the first is what the others are compared with.
    pub arms: Vec<ArmFigures>,
    /// A row for each instance.
    pub instances: Vec<InstanceFigures>,
    /// Runs (`ARM/INSTANCE`) with a patch that the scorer has not scored yet; none where no scorer is named.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unscored: Vec<String>,
    /// Runs whose questions the judge has not judged yet; none where nobody is to judge.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unjudged: Vec<String>,
}

/// One arm. Means are over its finished runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ArmFigures {
    pub arm: String,
    /// The Resolvers' models; several where the settings changed between runs.
    pub models: Vec<String>,
    /// Instances that were asked for.
    pub instances: usize,
    /// Of these, the runs that came to a result.
    pub finished: usize,
    /// Finished runs with a patch.
    pub patches: usize,
    /// Finished runs of which it is known whether they resolve their instance: a scorer said so, or there is
    /// no patch.
    pub scored: usize,
    pub resolved: usize,
    /// Model calls of the Resolver, where there was one.
    pub steps: Option<Spread>,
    pub tokens: Option<MeanTokens>,
    /// In the order run, then `total`, of which wall-clock seconds include what lies between the stages.
    pub stages: Vec<StageFigures>,
    /// Money of all finished runs together, US dollars.
    pub usd: Option<f64>,
    pub citations: CitationFigures,
    /// What a judge thinks of the questions; absent where none was judged.
    pub questions: Option<QuestionFigures>,
    /// Against the first arm; absent for itself.
    pub against_first: Option<Transitions>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    pub mean: f64,
    pub median: f64,
}

/// Tokens of a run, all agents together. `input` includes `cached`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct MeanTokens {
    pub input: f64,
    pub cached: f64,
    pub output: f64,
}

/// One stage of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StageFigures {
    pub name: String,
    /// Wall clock.
    pub seconds: f64,
    /// US dollars; absent where the price of a model is not known.
    pub usd: Option<f64>,
}

/// Citations of all answers, as the host found them, and statements that cite nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct CitationFigures {
    pub verified: usize,
    pub moved: usize,
    pub unverified: usize,
    /// Paragraphs and list items of answers without a citation.
    pub not_cited: usize,
}

/// Marks of questions from 1 to 10 (ACQUIRE, Table III): means over judged questions, and of coverage over
/// judged runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct QuestionFigures {
    pub judged_runs: usize,
    pub judged_questions: usize,
    pub relevance: f64,
    pub answerability: f64,
    pub diagnostic_utility: f64,
    pub reasoning_depth: f64,
    pub clarity: f64,
    pub coverage: f64,
    /// What judging cost, US dollars; in no other figure.
    pub judge_usd: Option<f64>,
}

/// An arm beside the first one, on instances that are scored in both.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Transitions {
    /// Resolved here and not in the first arm.
    pub recovered: usize,
    /// Resolved in the first arm and not here.
    pub regressed: usize,
    pub both: usize,
    pub neither: usize,
    /// Change of the Resolver's steps on instances that both arms finished, summed: 0.1 is a tenth more.
    pub steps_change: Option<f64>,
    /// The same on recovered instances alone.
    pub steps_change_recovered: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct InstanceFigures {
    pub instance: String,
    /// In the order of the arms.
    pub runs: Vec<RunFigures>,
}

/// One run of one arm.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum RunFigures {
    Finished {
        /// As `run.json` has it.
        outcome: Outcome,
        /// Absent where nobody scored the patch.
        resolved: Option<bool>,
        steps: Option<u32>,
        seconds: f64,
        usd: Option<f64>,
    },
    /// By the endpoint, the engine, the network, …
    Failed { class: String },
    /// Cancelled or killed; it goes on when the bench does. `why` it did not go on now, where that is known.
    Unfinished { why: Option<String> },
    /// Another process works on it.
    Elsewhere,
    /// Not begun, and why where that is known.
    Missing { why: Option<String> },
}

impl RunFigures {
    pub fn is_finished(&self) -> bool {
        matches!(self, Self::Finished { .. })
    }
}

/// Why a run was not begun for want of money.
/// Why a limit on money is refused.
pub fn unpriced(model: &str) -> String {
    format!("--max-usd cannot be kept, since the price of {model} is not known: set `[model.price]`")
}

pub const OVER_BUDGET: &str = "--max-usd is reached";

/// A run begins.
pub fn run_started(run: &str, goes_on: bool, log: &str) -> String {
    format!("{run}: {} (log: {log})", if goes_on { "goes on" } else { "started" })
}

/// A run has ended.
pub fn run_ended(run: &str, summary: &RunSummary) -> String {
    let total = summary.total;
    let outcome = match (summary.outcome, &summary.error) {
        (Outcome::Patch, _) => "patch".to_owned(),
        (Outcome::NoPatch, _) => "no patch".to_owned(),
        (Outcome::KnowledgeOnly, _) => "knowledge only".to_owned(),
        (Outcome::Cancelled, _) => "cancelled".to_owned(),
        (Outcome::Failed, Some(error)) => {
            format!("failed ({}): {}", error.class, shown::text(&error.message))
        }
        (Outcome::Failed, None) => "failed".to_owned(),
    };
    format!("{run}: {outcome}; {}, {}", duration(total.seconds), money(total.usd, !summary.unpriced))
}

/// A run that could not begin.
pub fn run_not_started(run: &str, why: &str) -> String {
    format!("{run}: not started: {}", shown::text(why))
}

/// A run that had begun, and got no further.
pub fn run_broken_off(run: &str, why: &str) -> String {
    format!("{run}: broken off: {}", shown::text(why))
}

/// A run that is left to another process.
pub fn run_elsewhere(run: &str) -> String {
    format!("{run}: left out: another process works on it")
}

pub fn run_scored(run: &str, resolved: bool) -> String {
    format!("{run}: {}", if resolved { "resolved" } else { "not resolved" })
}

pub fn run_unscored(run: &str, why: &str, log: &str) -> String {
    format!("{run}: unscored: {} (what it said: {log})", shown::text(why))
}

/// A finished run that another process scores or judges.
pub fn run_marked_elsewhere(run: &str) -> String {
    format!("{run}: not scored or judged: another process does that now")
}

pub fn run_unmarked(run: &str, why: &str) -> String {
    format!("{run}: not scored or judged: {}", shown::text(why))
}

/// Stands in front of the end of an output.
pub fn left_out(bytes: u64) -> String {
    format!("[the first {} are left out]\n", shown::size(bytes))
}

pub fn run_judged(run: &str, questions: usize) -> String {
    format!("{run}: {} judged", counted(questions, "question"))
}

pub fn run_unjudged(run: &str, why: &str) -> String {
    format!("{run}: not judged: {}", shown::text(why))
}

/// What the bench is about to do.
pub fn bench_begins(runs: usize, finished: usize, jobs: usize, folder: &str) -> String {
    format!("{} in {folder}, {finished} finished earlier; {jobs} at once", counted(runs, "run"))
}

/// No further run is begun, since it might cost more than is left.
pub fn bench_over_budget(left: usize) -> String {
    let runs = counted(left, "run");
    format!("--max-usd is reached: {runs} not begun; give more, and the same command goes on")
}
