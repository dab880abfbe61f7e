//! What `acquire solve`, `acquire ask` and `acquire demo` print when a run has ended.
//!
//! Plain text. What others wrote stands in it with its control characters spelled out, so that it cannot
//! steer a terminal.

use std::path::Path;

use serde_json::Value;

use crate::{
    domain::{Knowledge, PatchSummary},
    gate::{harvest::is_rubbish, shown},
    method::ports::{CommandExit, CommandOutcome},
    store::{Outcome, RunSummary},
};

use super::words::{Checks, answered, counted, duration, money, tokens};

/// What a run left, and how it can go on.
#[derive(Debug, Clone, Copy)]
pub struct Left<'a> {
    pub folder: &'a Path,
    /// Names of the results that were written.
    pub files: &'a [&'static str],
    /// Whether the price of every model is known.
    pub priced: bool,
    /// Whether `--resume` may end otherwise.
    pub can_go_on: bool,
    /// The settings file that was named by `--config`.
    pub config: Option<&'a Path>,
    /// US dollars that were named by `--max-usd`.
    pub max_usd: Option<f64>,
}

/// The end of a run: what came of it, where it lies, what to do next.
pub fn ending(run: &RunSummary, knowledge: Option<&Knowledge>, left: Left<'_>) -> String {
    let mut paragraphs = vec![outcome(run, knowledge)];
    if let Some(knowledge) = knowledge {
        paragraphs.push(format!("Citations looked up: {}.", Checks::of(knowledge.citations()).words()));
    }
    let total = run.total;
    if total.tokens.total() > 0 {
        let (money, time) = (money(total.usd, left.priced), duration(total.seconds));
        paragraphs.push(format!("Spent: {money}, {time}, {}.", tokens(total.tokens)));
    }
    paragraphs.push(files(run, left));
    paragraphs.extend(next(run, left));
    paragraphs.join("\n\n")
}

/// Whether a run answers a person's questions, and nothing else.
fn is_asked(run: &RunSummary) -> bool {
    run.strategy.knowledge == "asked"
}

fn outcome(run: &RunSummary, knowledge: Option<&Knowledge>) -> String {
    match (run.outcome, &run.patch) {
        (Outcome::Patch, Some(patch)) => patched(patch),
        (Outcome::Patch, None) => "A patch.".to_owned(),
        (Outcome::NoPatch, _) => "No patch; pull-request.md says why.".to_owned(),
        (Outcome::KnowledgeOnly, _) if is_asked(run) => {
            let answers = knowledge.map(|all| (counted(all.pairs.len(), "question"), answered(all)));
            answers.map_or_else(String::new, |(questions, answers)| format!("{questions}: {answers}."))
        }
        (Outcome::KnowledgeOnly, _) => "Knowledge; no patch was asked for.".to_owned(),
        (Outcome::Cancelled, _) => "Cancelled.".to_owned(),
        (Outcome::Failed, _) => match &run.error {
            Some(error) => format!("Failed ({}): {}", error.class, shown::text(&error.message)),
            None => "Failed.".to_owned(),
        },
    }
}

fn patched(patch: &PatchSummary) -> String {
    let PatchSummary { files, insertions, deletions, left_out } = patch;
    let mut text = format!("A patch: {}, +{insertions} -{deletions}.", counted(files.len(), "file"));
    let left_out = left_out.iter().filter(|entry| !is_rubbish(entry)).count();
    if left_out > 0 {
        let changes = counted(left_out, "change");
        text.push_str(&format!(" Left out: {changes}; pull-request.md says why."));
    }
    text
}

fn files(run: &RunSummary, left: Left<'_>) -> String {
    let all = [
        ("comment.md", "what was asked of the repository and found, as a comment"),
        ("knowledge.json", "the same for programs, quotes and all"),
        ("pull-request.md", "title and text of the pull request, or why there is none"),
        ("patch.diff", "the patch"),
        ("patch.partial.diff", "unfinished work, which is not proposed"),
        ("run.json", "what ran, what it cost, how it ended"),
        ("trajectories/", "what each agent did, turn by turn"),
    ];
    let there = |name: &str| left.files.contains(&name) || name == "trajectories/" && !run.stages.is_empty();
    let there: Vec<_> = all.iter().filter(|(name, _)| there(name)).collect();
    let width = there.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
    let lines: Vec<String> = there.iter().map(|(name, what)| format!("  {name:<width$}  {what}")).collect();
    format!("Files in {}:\n{}", shown_path(left.folder), lines.join("\n"))
}

fn next(run: &RunSummary, left: Left<'_>) -> Option<String> {
    let Left { folder, can_go_on, config, max_usd, .. } = left;
    let patch = shell_word(&shown_path(&folder.join("patch.diff")));
    match run.outcome {
        Outcome::Patch if run.repo.contains("://") => {
            Some(format!("To apply it in a clone at {}:\n  git apply {patch}", run.base))
        }
        Outcome::Patch => {
            Some(format!("To apply it:\n  git -C {} apply {patch}", shell_word(&shown::text(&run.repo))))
        }
        Outcome::Failed | Outcome::Cancelled if can_go_on => Some(format!(
            "To go on from where it stopped (what is finished is not paid again):\n  acquire {} --resume {}{}{}",
            if is_asked(run) { "ask" } else { "solve" },
            shell_word(&shown_path(folder)),
            config.map(|file| format!(" --config {}", shell_word(&shown_path(file)))).unwrap_or_default(),
            max_usd.map(|most| format!(" --max-usd {most}")).unwrap_or_default()
        )),
        _ => None,
    }
}

fn shown_path(path: &Path) -> String {
    shown::text(&path.to_string_lossy())
}

/// As a shell reads one word.
fn shell_word(text: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "/._-+:@,".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

pub struct DemoInput<'a> {
    pub knowledge: Option<&'a Knowledge>,
    pub summary: &'a RunSummary,
    pub left: Left<'a>,
    /// See [`recorded_with`].
    pub recorded: String,
    /// Markdown, as in `comment.md`.
    pub comment: Option<&'a str>,
    pub diff: Option<&'a [u8]>,
    pub test_command: &'a str,
    /// The test command on the base commit and on the patched tree; empty without a patch.
    pub trials: &'a [CommandOutcome],
}

/// The end of `acquire demo`: comment, patch, tests before and after, then as any run.
pub fn demo(input: &DemoInput<'_>) -> String {
    let mut parts = Vec::new();
    if let Some(comment) = input.comment {
        parts.push(part("The knowledge comment, as it would stand on the issue", &shown::text(comment)));
    }
    if let Some(diff) = input.diff {
        parts.push(part("The patch", &shown::text(&String::from_utf8_lossy(diff))));
    }
    if let [before, after] = input.trials {
        let lines = [("before", before), ("after", after)]
            .map(|(when, trial)| format!("{when:<6}  {}", tried(trial)));
        let title = "The tests, some of which no agent saw, before and after the patch";
        parts.push(part(title, &format!("{}\n\n{}", input.test_command, lines.join("\n"))));
    }
    let recorded = format!(
        "The model's replies, and the tokens that they took, were recorded in a real run with {}. Everything \
         else ran here and now: git, the sandbox, every check of a citation, the tests.",
        shown::text(&input.recorded)
    );
    parts.push(part(
        "The run",
        &format!("{}\n\n{recorded}", ending(input.summary, input.knowledge, input.left)),
    ));
    parts.join("\n\n")
}

pub(super) fn part(title: &str, text: &str) -> String {
    format!("━━ {title}\n\n{}", text.trim_end())
}

/// How a test command ended, and what it counted.
fn tried(trial: &CommandOutcome) -> String {
    let end = match trial.exit {
        CommandExit::Code(0) => "passed (exit code 0)".to_owned(),
        CommandExit::Code(code) => format!("failed (exit code {code})"),
        CommandExit::Signal(signal) => format!("ended by signal {signal}"),
        CommandExit::TimedOut => "ended by its time limit".to_owned(),
    };
    let output = [trial.head.as_slice(), trial.tail.as_slice()].map(String::from_utf8_lossy).concat();
    let counted = output.lines().filter_map(|line| line.strip_prefix("test result: "));
    let counted = counted.filter(|line| !line.contains(" 0 passed; 0 failed;"));
    let counted: Vec<String> = counted.map(|line| format!("\n        {}", shown::text(line))).collect();
    format!("{end}{}", counted.concat())
}

/// The model and the day of a recording, from its first line.
pub fn recorded_with(recording: &str) -> String {
    let header: Value =
        recording.lines().next().and_then(|line| serde_json::from_str(line).ok()).unwrap_or_default();
    let text = |field: &str| header[field].as_str().map(str::to_owned);
    match (text("recorded_with"), text("at")) {
        (Some(model), Some(at)) => format!("{model} on {}", at.split('T').next().unwrap_or(&at)),
        (Some(model), None) => model,
        (None, _) => "a model that it does not name".to_owned(),
    }
}

#[cfg(test)]
mod tests;
