//! The pull request, or why there is none.

use std::sync::LazyLock;

use regex::{Captures, Regex};

use crate::{
    domain::{Issue, Knowledge, LeftOut, PatchSummary},
    gate::{harvest::is_rubbish, shown::number},
    method::{resolver::TestReport, run::Resolved},
};

use super::{
    fit::{MAX_CHARS, Piece, closed, fitting, join},
    inert::{Links, inert, inert_blocks, inert_line},
    markdown::{code_span, exact, visible},
    words::{Checks, counted, cut},
};

pub struct PullRequestInput<'a> {
    pub issue: &'a Issue,
    pub resolved: &'a Resolved,
    pub knowledge: Option<&'a Knowledge>,
    /// Whether merging closes the issue.
    pub closes: bool,
    /// Files of the patch in which secrets were found; the patch then stays where it is.
    pub secrets: &'a [String],
}

/// Longest title, in characters. GitHub takes 256; lists of pull requests show about this many.
const MAX_TITLE_CHARS: usize = 100;
/// Longest command that is shown, in characters.
const MAX_COMMAND_CHARS: usize = 300;
/// Longest path or reason that is shown, in characters.
const MAX_NAME_CHARS: usize = 300;
/// Most files, commands or other entries of a list.
const MAX_ENTRIES: usize = 50;

/// `pull-request.md`: the first line is the title, plain text; the body follows after an empty line.
pub fn pull_request(input: &PullRequestInput<'_>) -> String {
    let title = title(input);
    let pieces = match Proposal::of(input) {
        Proposal::Patch(patch) => proposed(input, patch),
        Proposal::Secrets => withheld(input),
        Proposal::Unfinished(patch) => unfinished(input, patch),
        Proposal::Nothing => nothing(input),
    };
    let room = MAX_CHARS - CUT.len() - title.len() - 4;
    let fits = fitting(&pieces, room);
    let mut kept = closed(&pieces[..fits]);
    if fits < pieces.len() {
        kept.push(Piece::Text(CUT.to_owned()));
    }
    format!("{title}\n\n{}\n", join(&kept))
}

const CUT: &str =
    "> **Cut to fit.** The rest is left out; `run.json` and `knowledge.json` of the run have everything.";

/// What a run has to propose.
enum Proposal<'a> {
    Patch(&'a PatchSummary),
    /// A patch that must not leave.
    Secrets,
    /// Work of a Resolver that did not come to an end.
    Unfinished(&'a PatchSummary),
    Nothing,
}

impl<'a> Proposal<'a> {
    fn of(input: &PullRequestInput<'a>) -> Self {
        match &input.resolved.patch {
            _ if !input.secrets.is_empty() => Self::Secrets,
            Some(patch) if input.resolved.submitted => Self::Patch(&patch.summary),
            Some(patch) => Self::Unfinished(&patch.summary),
            None => Self::Nothing,
        }
    }
}

fn title(input: &PullRequestInput<'_>) -> String {
    let prefix = match (Proposal::of(input), input.issue.number, input.closes) {
        // Merged by squashing, the title becomes a commit message, where these words close the issue.
        (Proposal::Patch(_), Some(number), true) => format!("Fix #{number}: "),
        (Proposal::Patch(_), ..) => "Fix: ".to_owned(),
        _ => "No patch: ".to_owned(),
    };
    let title = plain_title(&input.issue.title);
    let title = if title.is_empty() { "issue without a title".to_owned() } else { title };
    cut(&format!("{prefix}{title}"), MAX_TITLE_CHARS)
}

/// What acts on GitHub in plain text, in a commit message too.
static ACTING: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)(?<mark>[@\#]|\bgh-)(?<name>[a-z0-9])|[a-z]+://")
        .expect("the pattern is constant and a test uses it")
});

/// A title from outside as one line that mentions nobody, refers to nothing and links nowhere.
fn plain_title(title: &str) -> String {
    let line = visible(title).split_whitespace().collect::<Vec<_>>().join(" ");
    let apart = |found: &Captures<'_>| match (found.name("mark"), found.name("name")) {
        (Some(mark), Some(name)) => format!("{} {}", mark.as_str(), name.as_str()),
        _ => String::new(),
    };
    ACTING.replace_all(&line, apart).into_owned()
}

fn proposed(input: &PullRequestInput<'_>, patch: &PatchSummary) -> Vec<Piece> {
    let mut pieces = Vec::new();
    if let Some(number) = input.issue.number {
        let verb = if input.closes { "Closes" } else { "For" };
        pieces.push(Piece::Text(format!("{verb} #{number}.")));
    }
    pieces.extend(summary(input, "The agent gave no summary."));
    pieces.push(tests(&input.resolved.tests));
    pieces.extend(answers(input));
    pieces.push(files(patch));
    pieces.extend(left_out(input.resolved));
    pieces.push(Piece::Text(
        "<sub>Written by a language model. Read it as you would a stranger's patch.</sub>".to_owned(),
    ));
    pieces
}

fn withheld(input: &PullRequestInput<'_>) -> Vec<Piece> {
    let files: Vec<String> =
        input.secrets.iter().take(MAX_ENTRIES).map(|file| format!("- {}", name(file))).collect();
    let mut pieces = vec![Piece::Text(format!(
        "**The patch is kept back: there is a secret in it.** What looks like a key, a token or a password was \
         found in these files, and is not repeated here. If it is meant to be there, make that change by hand.\n{}",
        files.join("\n")
    ))];
    pieces.extend(summary(input, "The agent gave no summary."));
    pieces
}

fn unfinished(input: &PullRequestInput<'_>, patch: &PatchSummary) -> Vec<Piece> {
    let mut pieces = vec![Piece::Text(format!(
        "**Unfinished.** {STOPPED} What it had changed by then is kept in `patch.partial.diff`; it is not proposed.",
    ))];
    pieces.push(files(patch));
    pieces.push(tests(&input.resolved.tests));
    pieces.extend(left_out(input.resolved));
    pieces
}

const STOPPED: &str = "A limit on steps, money or time, or replies that could not be read, ended the agent before it \
                       submitted.";

fn nothing(input: &PullRequestInput<'_>) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let untouched = input.resolved.left_out.is_empty();
    if input.resolved.submitted {
        let lead = if untouched {
            "**The agent changed nothing.** Its reason:"
        } else {
            "**No patch.** Nothing that the agent changed can be part of one; what it is, stands under \
             \u{201c}Left out\u{201d}. Its summary:"
        };
        pieces.push(Piece::Text(lead.to_owned()));
        pieces.extend(summary(input, "It gave none."));
    } else {
        let then = if untouched {
            "By then it had changed nothing."
        } else {
            "What it had changed by then is left out."
        };
        pieces.push(Piece::Text(format!("**No patch.** {STOPPED} {then}")));
    }
    if !input.resolved.tests.is_empty() {
        pieces.push(tests(&input.resolved.tests));
    }
    pieces.extend(left_out(input.resolved));
    pieces
}

/// The agent's own words, block by block, so that a long summary can be cut between two.
fn summary(input: &PullRequestInput<'_>, otherwise: &str) -> Vec<Piece> {
    let links = Links::none();
    let blocks = inert_blocks(&inert(&input.resolved.summary, &links), &links);
    if blocks.is_empty() { vec![Piece::Text(otherwise.to_owned())] } else { blocks }
}

fn files(patch: &PatchSummary) -> Piece {
    let mut text = format!(
        "#### Changes\n{}, +{} −{}\n\n",
        counted(patch.files.len(), "file"),
        number(patch.insertions as u64),
        number(patch.deletions as u64)
    );
    text.push_str(&list(&patch.files, |file| name(file.as_str())));
    Piece::Text(text)
}

fn tests(tests: &[TestReport]) -> Piece {
    let mut text = "#### Tests\n".to_owned();
    if tests.is_empty() {
        text.push_str("Not tested: no test command ran after the last edit.");
    } else {
        text.push_str(
            "Run by the agent after its last edit, with exit codes as seen from outside the sandbox. The agent \
             chose these commands and could change what they run:\n\n",
        );
        text.push_str(&list(tests, |test| {
            let command = code_span(&cut(&test.command, MAX_COMMAND_CHARS));
            match test.exit_code {
                Some(code) if sets_exit_code_late(&test.command) => {
                    format!(
                        "{command} · exit code {code}, of its last part: a failure before it would not show"
                    )
                }
                Some(code) => format!("{command} · exit code {code}"),
                None => format!("{command} · killed, or ended by its time limit"),
            }
        }));
    }
    Piece::Text(text)
}

/// Whether a command may end well although a part of it failed: in a pipe, or before what comes last.
fn sets_exit_code_late(command: &str) -> bool {
    command.replace("\\\n", " ").trim().contains(['|', ';', '\n'])
}

/// With the numbers that the answers have in the comment, and the names that a summary calls them by.
fn answers(input: &PullRequestInput<'_>) -> Option<Piece> {
    let knowledge = input.knowledge?;
    let line = |text: &str| inert_line(text, &Links::none());
    let used = |id: &String| input.resolved.used_answers.contains(id);
    let named = |id: &str| {
        let is_named = input.resolved.summary.contains(id);
        if is_named { format!(", {} above", line(id)) } else { String::new() }
    };
    let pairs = (1..).zip(&knowledge.pairs).filter(|(_, pair)| used(&pair.question.id));
    let pairs = pairs.map(|(number, pair)| {
        let (question, checks) = (&pair.question, Checks::of(&pair.answer.citations));
        let (id, text) = (named(&question.id), line(&question.text));
        format!("**Answer {number}**{id}: {text} · citations: {}", checks.words())
    });
    let blocks = knowledge.blocks.iter().filter(|block| used(&block.kind));
    let blocks = blocks.map(|block| {
        format!("**The {}** · citations: {}", line(&block.kind), Checks::of(&block.citations).words())
    });
    let used: Vec<String> = pairs.chain(blocks).collect();
    if knowledge.is_empty() {
        return None;
    }
    let text = if used.is_empty() {
        let what = match knowledge.pairs.as_slice() {
            [] => "did not rely on the proposal",
            [..] => "relied on none of the answers",
        };
        format!("The agent says that it {what}.")
    } else {
        list(&used, String::clone)
    };
    Some(Piece::Text(format!("#### Answers relied on\n{text}")))
}

/// What is no part of the patch, and what is against the agent's wish. Beside a patch nobody asks for build
/// folders and caches; without one they may be all that there is to tell.
fn left_out(resolved: &Resolved) -> Vec<Piece> {
    let with_patch = resolved.patch.is_some();
    let told = |entry: &&LeftOut| !(with_patch && is_rubbish(entry));
    let lists = [
        ("#### Left out", resolved.left_out.iter().filter(told).collect::<Vec<_>>()),
        ("#### Kept, though asked to be left out", resolved.kept.iter().collect()),
    ];
    let filled = lists.into_iter().filter(|(_, entries)| !entries.is_empty());
    let entry = |entry: &&LeftOut| {
        format!("{}: {}", name(&entry.path), inert_line(&cut(&entry.reason, MAX_NAME_CHARS), &Links::none()))
    };
    filled.map(|(title, entries)| Piece::Text(format!("{title}\n{}", list(&entries, entry)))).collect()
}

fn name(path: &str) -> String {
    code_span(&cut(&exact(path), MAX_NAME_CHARS))
}

fn list<T>(entries: &[T], line: impl Fn(&T) -> String) -> String {
    let mut lines: Vec<String> =
        entries.iter().take(MAX_ENTRIES).map(|entry| format!("- {}", line(entry))).collect();
    if entries.len() > MAX_ENTRIES {
        lines.push(format!("- … and {} more", number((entries.len() - MAX_ENTRIES) as u64)));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests;
