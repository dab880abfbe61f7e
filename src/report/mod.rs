//! Every word that users read.
//!
//! Values in, values out; one function a text. Invariants
//! - Text from models, issues and providers is made inert before it stands in markdown: it notifies nobody,
//!   closes nothing, commands no bot, links nowhere but into the repository, and cannot leave its place.
//! - What was not verified is never shown as if it were, and what was left out is said.

mod answers;
mod bench;
mod comment;
pub mod doctor;
mod fit;
#[cfg(test)]
mod fixture_tests;
#[cfg(test)]
mod hostile_tests;
mod inert;
mod markdown;
pub mod preparing;
mod pull_request;
mod terminal;
mod words;

pub use answers::answers;
pub use bench::{
    ArmFigures, BenchFigures, CitationFigures, InstanceFigures, MeanTokens, OVER_BUDGET, QuestionFigures,
    RunFigures, Spread, StageFigures, Transitions, bench_begins, bench_over_budget, bench_table, left_out,
    run_broken_off, run_elsewhere, run_ended, run_judged, run_marked_elsewhere, run_not_started, run_scored,
    run_started, run_unjudged, run_unmarked, run_unscored, unpriced,
};
pub use comment::{CommentInput, comment};
pub use pull_request::{PullRequestInput, pull_request};
pub use terminal::{DemoInput, Left, demo, ending, recorded_with};
pub use words::{counted, duration, money, note_about, tokens};

use crate::domain::{Check, Citation, CommitId, RepoId, RepoPath};

/// Longest name that the host repeats, in characters.
const MAX_NAME_CHARS: usize = 200;

const NAMED: &str = "The answer names ";
const MISSING: &str = ", which does not exist at this commit.";

/// The host's gap for something that an answer names and the commit does not have.
pub fn named_but_missing(name: &str) -> String {
    format!("{NAMED}{}{MISSING}", markdown::code_span(&words::cut(name, MAX_NAME_CHARS)))
}

/// The name, in its code span, if a gap is one of [`named_but_missing`].
fn missing_name(gap: &str) -> Option<&str> {
    gap.strip_prefix(NAMED)?.strip_suffix(MISSING)
}

/// What hidden parts were taken out of the issue before a model read it.
pub fn removed_from_issue(removed: &impl std::fmt::Display) -> String {
    format!("Taken out of the issue before a model read it, since people do not see it: {removed}.")
}

/// The same of a question that a person asked; `number` counts from 1.
pub fn removed_from_question(number: usize, removed: &impl std::fmt::Display) -> String {
    format!("Taken out of question {number} before a model read it, since people do not see it: {removed}.")
}

/// What the history that agents see holds, as the end of a sentence about the repository.
pub fn history_fact(note: Option<&str>) -> String {
    match note {
        Some(note) => format!("{note}."),
        None => "its whole history is there (`git log`, `git blame`).".to_owned(),
    }
}

/// Where a citation can be looked up on the web: the cited lines at that very commit. `None` for a citation
/// that does not hold.
pub fn permalink(repo: &RepoId, commit: &CommitId, citation: &Citation) -> Option<String> {
    if citation.check == Check::Unverified {
        return None;
    }
    let path = RepoPath::parse(&citation.path).ok()?;
    // Files that GitHub renders have no lines to link to unless their source is asked for.
    const RENDERED: [&str; 8] = ["adoc", "asciidoc", "markdown", "md", "org", "rdoc", "rst", "textile"];
    let extension = path.as_str().rsplit_once('.').map_or("", |(_, extension)| extension);
    let plain = if RENDERED.contains(&extension.to_ascii_lowercase().as_str()) { "?plain=1" } else { "" };
    let Citation { start, end, .. } = citation;
    let lines = if start == end { format!("L{start}") } else { format!("L{start}-L{end}") };
    Some(format!("{repo}/blob/{commit}/{}{plain}#{lines}", percent_encoded(path.as_str())))
}

/// A path as it can stand in a URL and in markdown: everything is encoded that either could read as its own.
fn percent_encoded(path: &str) -> String {
    let mut encoded = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                encoded.push(byte as char)
            }
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    fn citation(path: &str, lines: (u32, u32), check: Check) -> Citation {
        let (start, end) = lines;
        Citation { path: path.into(), start, end, quote: None, symbol: None, check, permalink: None }
    }

    #[test]
    fn a_missing_name_cannot_leave_its_code_span() {
        assert_eq!(
            named_but_missing("Parser.reset"),
            "The answer names `Parser.reset`, which does not exist at this commit."
        );
        assert_eq!(
            named_but_missing("a`b``\n@c\u{202e}"),
            "The answer names ```a`b`` @c```, which does not exist at this commit."
        );
        assert_eq!(missing_name(&named_but_missing("Parser.reset")), Some("`Parser.reset`"));
        assert_eq!(missing_name("Nothing names `Parser.reset`."), None);
    }

    #[test]
    fn permalinks_name_the_commit_and_the_lines() {
        let repo = RepoId::from_url("https://github.com/o/r").unwrap();
        let commit = CommitId::parse(&"a".repeat(40)).unwrap();
        let link = |path, lines, check| permalink(&repo, &commit, &citation(path, lines, check));
        let base = format!("https://github.com/o/r/blob/{}", "a".repeat(40));
        assert_eq!(link("src/a.rs", (3, 9), Check::Verified), Some(format!("{base}/src/a.rs#L3-L9")));
        assert_eq!(
            link("a (b)/ü?#.rs", (3, 3), Check::Moved),
            Some(format!("{base}/a%20%28b%29/%C3%BC%3F%23.rs#L3"))
        );
        assert_eq!(
            link("README.md", (1, 2), Check::Verified),
            Some(format!("{base}/README.md?plain=1#L1-L2"))
        );
        assert_eq!(link("src/a.rs", (3, 9), Check::Unverified), None);
        assert_eq!(link("../a.rs", (3, 9), Check::Verified), None);
    }

    #[test]
    fn the_history_fact_says_where_it_was_cut() {
        assert_eq!(history_fact(Some("git history is cut off")), "git history is cut off.");
        assert!(history_fact(None).contains("whole"));
    }
}
