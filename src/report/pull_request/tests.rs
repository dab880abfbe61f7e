use super::*;
use crate::{
    domain::{IssueNumber, Patch, RepoPath},
    report::fixture_tests::{issue, knowledge},
};

fn patch(files: &[&str]) -> Patch {
    Patch {
        diff: b"diff".to_vec(),
        tree: "0".repeat(40),
        summary: PatchSummary {
            files: files.iter().map(|file| RepoPath::parse(file).unwrap()).collect(),
            insertions: 41,
            deletions: 6,
            left_out: vec![],
        },
    }
}

fn resolved() -> Resolved {
    Resolved {
        secrets: Vec::new(),
        summary:
            "`take_unit` took the first name that the text begins with, so `ms` was read as `m` [q1].\n\n\
                  It now takes the longest name, and `ms` is a name of its own. I did not touch `format`.\n\n\
                  Checked: `cargo test` and a round trip of every unit that `format` writes."
                .into(),
        used_answers: vec!["q1".into(), "q2".into()],
        patch: Some(patch(&["src/units.rs", "tests/durations.rs"])),
        left_out: vec![
            LeftOut { path: "repro.rs".into(), reason: "the agent left it out".into() },
            LeftOut {
                path: "target/ (206 files)".into(),
                reason: "ignored by the repository's .gitignore".into(),
            },
            LeftOut { path: "notes`\n@x.txt".into(), reason: "a new symlink".into() },
        ],
        kept: vec![LeftOut { path: "Cargo.lock".into(), reason: "only new files can be left out".into() }],
        submitted: true,
        tests: vec![
            TestReport { command: "cd kettle && cargo test --offline".into(), exit_code: Some(0) },
            TestReport { command: "cargo test 2>&1 | tail -20".into(), exit_code: Some(0) },
            TestReport { command: "cargo test \\\n  --doc # `x`".into(), exit_code: Some(101) },
            TestReport { command: "cargo nextest run".into(), exit_code: None },
        ],
    }
}

fn written(resolved: &Resolved, closes: bool, secrets: &[&str]) -> String {
    let secrets: Vec<String> = secrets.iter().map(|file| (*file).to_owned()).collect();
    let knowledge = knowledge();
    pull_request(&PullRequestInput {
        issue: &issue(),
        resolved,
        knowledge: Some(&knowledge),
        closes,
        secrets: &secrets,
    })
}

#[test]
fn a_patch_is_told_with_its_evidence() {
    insta::assert_snapshot!(written(&resolved(), true, &[]));
}

#[test]
fn case_45_nothing_closes_the_issue_unless_it_may() {
    let closing = regex::Regex::new(r"(?i)\b(close|fix|resolve)(s|d|es|ed)?\b:?\s+\S*#\d").unwrap();
    assert_eq!(closing.find_iter(&written(&resolved(), true, &[])).count(), 2);
    let text = written(&resolved(), false, &[]);
    assert!(!closing.is_match(&text), "{text}");
    assert!(text.contains("\nFor #7."), "{text}");
}

#[test]
fn a_patch_without_tests_or_answers_says_so() {
    let bare = Resolved {
        summary: " ".into(),
        used_answers: vec![],
        left_out: vec![],
        kept: vec![],
        tests: vec![],
        ..resolved()
    };
    insta::assert_snapshot!(written(&bare, false, &[]));
}

#[test]
fn case_4_no_change_comes_with_the_reason() {
    let none = Resolved {
        summary:
            "The behaviour is documented in `README.md` and a test asserts it: there is nothing to repair."
                .into(),
        patch: None,
        left_out: vec![],
        kept: vec![],
        tests: vec![],
        ..resolved()
    };
    insta::assert_snapshot!(written(&none, true, &[]));
    let stopped = Resolved { submitted: false, summary: String::new(), ..none };
    insta::assert_snapshot!(written(&stopped, true, &[]));
    // Without a patch, what is ignored may be all that there is.
    let ignored = Resolved { left_out: resolved().left_out, ..stopped };
    assert!(written(&ignored, true, &[]).contains("target/ (206 files)"));
}

#[test]
fn case_5_unfinished_work_is_kept_and_not_proposed() {
    let stopped = Resolved { submitted: false, summary: String::new(), used_answers: vec![], ..resolved() };
    insta::assert_snapshot!(written(&stopped, true, &[]));
}

#[test]
fn s_33_a_secret_keeps_the_patch_back_and_is_not_repeated() {
    insta::assert_snapshot!(written(&resolved(), true, &["config/`prod`.env", "src/units.rs"]));
}

#[test]
fn s_35_the_title_is_one_tame_line() {
    let title = |text: &str, number| {
        let issue = Issue { number, title: text.into(), body: String::new() };
        let resolved = resolved();
        let input = PullRequestInput {
            issue: &issue,
            resolved: &resolved,
            knowledge: None,
            closes: true,
            secrets: &[],
        };
        pull_request(&input).lines().next().unwrap().to_owned()
    };
    let seven = Some(IssueNumber(7));
    assert_eq!(title("`parse` fails", seven), "Fix #7: `parse` fails");
    assert_eq!(title("`parse` fails", None), "Fix: `parse` fails");
    assert_eq!(title(" a\r\nb\u{202e}\tc ", seven), "Fix #7: a b c");
    assert_eq!(
        title("fixes #9 for @octocat, see https://e.org/o/r#3 and GH-4", seven),
        "Fix #7: fixes # 9 for @ octocat, see e.org/o/r# 3 and GH- 4"
    );
    assert_eq!(title("\u{200b}", None), "Fix: issue without a title");
    let long = title(&"🦀 long ".repeat(60), seven);
    assert!(long.chars().count() <= MAX_TITLE_CHARS && long.ends_with('…'), "{long}");
}

#[test]
fn case_16_a_pull_request_that_is_too_long_is_cut_between_parts() {
    let many: Vec<String> = (0..2_000).map(|n| format!("src/{n}/{}.rs", "long".repeat(60))).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let text = written(
        &Resolved { summary: "x [q1].\n\n".repeat(20_000), patch: Some(patch(&many)), ..resolved() },
        true,
        &[],
    );
    assert!(crate::report::fit::length(&text) <= MAX_CHARS);
    assert!(text.trim_end().ends_with(CUT), "{}", &text[text.len() - 300..]);
}
