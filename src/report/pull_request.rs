//! The pull request, and what is said when there is none.

use crate::{
    domain::{IssueNumber, Knowledge, LeftOut, PatchSummary},
    gate::{sanitize::is_invisible, shown},
};

use super::{
    comment::MAX_CHARS,
    inert::{inert, inert_line},
    markdown::{code_span, cut, details},
    run::RunFacts,
};

/// GitHub takes 256 characters; lists show far fewer.
const MAX_TITLE: usize = 100;
/// Files that are listed.
const MAX_FILES: usize = 50;

/// The issue that a pull request answers.
#[derive(Debug, Clone, Copy)]
pub struct IssueReference<'a> {
    /// Absent where the issue came from a file.
    pub number: Option<IssueNumber>,
    pub title: &'a str,
    /// Whether merging closes the issue.
    pub closes: bool,
}

/// A test command whose exit code the host saw after the last edit. What a model says of tests is none.
#[derive(Debug, Clone)]
pub struct TestReport<'a> {
    pub command: &'a str,
    pub exit_code: i32,
}

/// What a pull request is made of.
#[derive(Debug, Clone)]
pub struct PullRequestInput<'a> {
    pub issue: IssueReference<'a>,
    /// The Resolver's words: what was wrong, what was changed.
    pub summary: &'a str,
    /// Ids of the questions whose answers the Resolver says it used.
    pub used_answers: &'a [String],
    pub knowledge: &'a Knowledge,
    pub patch: &'a PatchSummary,
    /// What the Resolver asked to leave out, but which is part of the patch.
    pub kept: &'a [LeftOut],
    /// Empty where no environment to test in is known.
    pub tests: &'a [TestReport<'a>],
    pub run: RunFacts<'a>,
}

/// Title and body, as GitHub takes them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PullRequestText {
    /// One line of plain text.
    pub title: String,
    /// Markdown, at most 60,000 characters.
    pub body: String,
}

impl PullRequestText {
    /// `pull-request.md`: the title line, an empty line, the body.
    pub fn file(&self) -> String {
        format!("{}\n\n{}", self.title, self.body)
    }
}

/// The text of the pull request.
pub fn pull_request(input: &PullRequestInput<'_>) -> PullRequestText {
    let mut parts = Vec::new();
    if let Some(number) = input.issue.number {
        let word = if input.issue.closes { "Closes" } else { "For" };
        parts.push(format!("{word} #{number}"));
    }
    let summary = inert(input.summary.trim());
    parts.push(if summary.is_empty() { "*The Resolver gave no summary.*".to_owned() } else { summary });
    parts.push(tests(input.tests));
    parts.push(files(input.patch));
    parts.push(used(input));
    parts.push(left_out(&input.patch.left_out, input.kept));
    PullRequestText { title: title(&input.issue), body: finished(&parts, &input.run) }
}

/// The parts that say something, within GitHub's limit, over the footer.
fn finished(parts: &[String], run: &RunFacts<'_>) -> String {
    let parts: Vec<&str> = parts.iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
    let footer = run.footer();
    let limit = MAX_CHARS - footer.chars().count() - 2;
    let body = cut(&parts.join("\n\n"), limit, "*This text was too long for GitHub and was cut here.*");
    format!("{body}\n\n{footer}\n")
}

/// A title is plain text to GitHub, but becomes the message of a squashed commit, where references count.
fn title(issue: &IssueReference<'_>) -> String {
    let mut words = String::new();
    let mut letters = issue.title.chars().filter(|c| !is_invisible(*c)).peekable();
    while let Some(letter) = letters.next() {
        words.push(letter);
        let starts_reference = match letter {
            '#' => letters.peek().is_some_and(char::is_ascii_digit),
            '@' => letters.peek().is_some_and(|next| next.is_alphanumeric()),
            _ => false,
        };
        if starts_reference {
            words.push(' ');
        }
    }
    let number = issue.number.map(|number| format!(" (issue {number})")).unwrap_or_default();
    let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
    let room = MAX_TITLE - number.len() - "Fix: ".len();
    let words = match words.char_indices().nth(room) {
        Some(_) => {
            let kept: String = words.chars().take(room - 1).collect();
            format!("{}…", kept.trim_end())
        }
        None => words,
    };
    format!("Fix: {words}{number}")
}

fn tests(reports: &[TestReport<'_>]) -> String {
    if reports.is_empty() {
        return "**Tests:** not tested: environment unknown.".to_owned();
    }
    let line = |report: &TestReport<'_>| {
        let mark = if report.exit_code == 0 { "✓" } else { "✗" };
        format!(
            "- {mark} {} ended with exit code {}",
            code_span(&shown::text(report.command)),
            report.exit_code
        )
    };
    let lines: Vec<String> = reports.iter().map(line).collect();
    format!("**Tests**, run after the last edit\n\n{}", lines.join("\n"))
}

fn files(patch: &PatchSummary) -> String {
    let count = patch.files.len();
    let word = if count == 1 { "file" } else { "files" };
    let head =
        format!("**{count} {word}**, {} added and {} removed lines", patch.insertions, patch.deletions);
    let mut lines: Vec<String> =
        patch.files.iter().take(MAX_FILES).map(|path| format!("- {}", code_span(path.as_str()))).collect();
    if count > MAX_FILES {
        lines.push(format!("- and {} more", count - MAX_FILES));
    }
    format!("{head}\n\n{}", lines.join("\n"))
}

fn used(input: &PullRequestInput<'_>) -> String {
    let pairs = &input.knowledge.pairs;
    let used: Vec<String> = (1..)
        .zip(pairs)
        .filter(|(_, pair)| input.used_answers.contains(&pair.question.id))
        .map(|(number, pair): (u32, _)| format!("- Question {number}: {}", inert_line(&pair.question.text)))
        .collect();
    match (used.is_empty(), pairs.is_empty()) {
        (_, true) => String::new(),
        (true, false) => "The Resolver used none of the answers in the comment on the issue.".to_owned(),
        (false, false) => {
            format!("**Answers used**, numbered as in the comment on the issue\n\n{}", used.join("\n"))
        }
    }
}

fn left_out(left_out: &[LeftOut], kept: &[LeftOut]) -> String {
    let line = |one: &LeftOut| format!("- {}: {}", code_span(&one.path), inert_line(&one.reason));
    let kept: Vec<String> = kept.iter().map(line).collect();
    let lines: Vec<String> = left_out.iter().map(line).collect();
    let mut parts = Vec::new();
    if !kept.is_empty() {
        parts.push(format!("**Kept against the Resolver's wish**\n\n{}", kept.join("\n")));
    }
    if !lines.is_empty() {
        let word = if lines.len() == 1 { "entry" } else { "entries" };
        let summary = format!("Left out of the patch: {} {word}", lines.len());
        parts.push(details(&summary, &lines.join("\n")));
    }
    parts.join("\n\n")
}

/// Why a run ended without a patch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoPatch<'a> {
    /// The run was asked for knowledge only.
    NotAsked,
    /// The Resolver submitted and had changed nothing; its words say why.
    NothingChanged { summary: &'a str },
    /// What it changed is all left out.
    AllLeftOut { summary: &'a str, left_out: &'a [LeftOut] },
    /// The Resolver ended before it submitted, for the reason given, such as `step_limit`.
    NotSubmitted { exit: &'a str },
    /// The host holds the patch back; `reasons` are its own words.
    HeldBack { reasons: &'a [String] },
}

/// Says that there is no patch, and why. An honest end of a run, not a failure.
pub fn no_patch(why: &NoPatch<'_>, run: &RunFacts<'_>) -> String {
    let (reason, rest) = match why {
        NoPatch::NotAsked => ("This run was asked for knowledge only.".to_owned(), String::new()),
        NoPatch::NothingChanged { summary } => {
            ("The Resolver finished without changing a file.".to_owned(), inert(summary.trim()))
        }
        NoPatch::AllLeftOut { summary, left_out } => {
            let rest = [inert(summary.trim()), self::left_out(left_out, &[])];
            ("Nothing of what the Resolver changed can be part of a patch.".to_owned(), rest.join("\n\n"))
        }
        NoPatch::NotSubmitted { exit } => (format!("The Resolver {}.", ended(exit)), String::new()),
        NoPatch::HeldBack { reasons } => {
            let lines: Vec<String> =
                reasons.iter().map(|reason| format!("- {}", inert_line(reason))).collect();
            ("The patch is held back:".to_owned(), lines.join("\n"))
        }
    };
    let parts = ["## No patch".to_owned(), reason, rest];
    finished(&parts, run)
}

/// How an agent ended, after its name. `exit` is as `run.json` has it.
fn ended(exit: &str) -> String {
    match exit {
        "step_limit" => "used up its steps before it submitted a patch".to_owned(),
        "cost_limit" => "used up its money before it submitted a patch".to_owned(),
        "time_limit" => "used up its time before it submitted a patch".to_owned(),
        "format_errors" => "kept replying in a form that is no tool call".to_owned(),
        "cancelled" => "was cancelled".to_owned(),
        other => format!("ended without a patch ({})", inert_line(other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{domain::RepoPath, report::sample::Sample};

    fn patch() -> PatchSummary {
        let left_out = |path: &str, reason: &str| LeftOut { path: path.into(), reason: reason.into() };
        PatchSummary {
            files: ["src/dates/parse.py", "tests/test_parse.py"]
                .map(|path| RepoPath::parse(path).unwrap())
                .to_vec(),
            insertions: 14,
            deletions: 3,
            left_out: vec![
                left_out("src/dates/__pycache__/ (4 files)", "a cache or left-over of a tool"),
                left_out("caf\\xE9.txt", "it is not UTF-8"),
            ],
        }
    }

    const SUMMARY: &str = "`parse_offset` split the offset at `:` and raised for `+0530`.\n\nIt now takes an offset with and without a colon; the tests cover both. See #9, cc @octocat.";

    fn input<'a>(sample: &'a Sample, patch: &'a PatchSummary) -> PullRequestInput<'a> {
        PullRequestInput {
            issue: IssueReference {
                number: Some(IssueNumber(12)),
                title: "parse_datetime refuses +0530",
                closes: true,
            },
            summary: SUMMARY,
            used_answers: &[],
            knowledge: &sample.knowledge,
            patch,
            kept: &[],
            tests: &[],
            run: sample.run(),
        }
    }

    #[test]
    fn a_pull_request_says_what_changed_and_what_it_rests_on() {
        let (sample, patch) = (Sample::new(), patch());
        let used = ["q1".to_owned(), "no-such".to_owned()];
        insta::assert_snapshot!(
            pull_request(&PullRequestInput { used_answers: &used, ..input(&sample, &patch) }).file()
        );
    }

    #[test]
    fn tests_are_told_with_their_exit_codes_only() {
        let (sample, patch) = (Sample::new(), patch());
        let tests = [
            TestReport { command: "python -m pytest -q tests", exit_code: 0 },
            TestReport { command: "flake8 `x`", exit_code: 1 },
        ];
        let kept = [LeftOut { path: "src".into(), reason: "only new files can be left out".into() }];
        let issue = IssueReference { number: None, title: "t", closes: false };
        let text =
            pull_request(&PullRequestInput { tests: &tests, kept: &kept, issue, ..input(&sample, &patch) });
        insta::assert_snapshot!(text.file());
    }

    #[test]
    fn s_34_titles_are_one_short_line_without_references() {
        let titled = |words: &str| {
            title(&IssueReference { number: Some(IssueNumber(12)), title: words, closes: true })
        };
        assert_eq!(titled("fixes #9\n for @octocat\u{200B}"), "Fix: fixes # 9 for @ octocat (issue 12)");
        let long = titled(&"word ".repeat(100));
        assert!((MAX_TITLE - 5..=MAX_TITLE).contains(&long.chars().count()), "{long}");
        assert!(long.ends_with("… (issue 12)"), "{long}");
    }

    #[test]
    fn a_long_summary_is_cut() {
        let (sample, patch) = (Sample::new(), patch());
        let summary = "A line of the summary.\n".repeat(5_000);
        let text = pull_request(&PullRequestInput { summary: &summary, ..input(&sample, &patch) });
        assert!(text.body.chars().count() <= MAX_CHARS);
        assert!(text.body.contains("was cut here") && text.body.contains("Run: `"));
    }

    #[test]
    fn no_patch_has_a_reason() {
        let sample = Sample::new();
        let patch = patch();
        let reasons = ["`src/a.py` line 3 adds a GitHub token".to_owned()];
        let all = [
            NoPatch::NotAsked,
            NoPatch::NothingChanged { summary: "The behaviour is as documented, see #3." },
            NoPatch::AllLeftOut { summary: "Done.", left_out: &patch.left_out },
            NoPatch::NotSubmitted { exit: "step_limit" },
            NoPatch::NotSubmitted { exit: "failed" },
            NoPatch::HeldBack { reasons: &reasons },
        ];
        let shown: Vec<String> = all
            .iter()
            .map(|why| no_patch(why, &sample.run()))
            .map(|text| text.split("\n\n---").next().unwrap().to_owned())
            .collect();
        insta::assert_snapshot!(shown.join("\n\n~~~~~~~~\n\n"));
    }
}
