use std::time::Duration;

use super::*;
use crate::{
    domain::{IssueNumber, LeftOut, Money, RepoPath, Tokens},
    report::fixture_tests::run_id,
    store::{ErrorSummary, IssueSummary, StageSummary, Strategy, Usage},
};

fn folder() -> &'static Path {
    Path::new("/home/me/.acquire/runs/20261130-153344-a1b2c3")
}

/// A run of all stages that proposes a patch.
fn run() -> RunSummary {
    let stage = |name: &str| StageSummary {
        name: name.into(),
        seconds: 1.0,
        usd: Money::ZERO,
        tokens: Tokens::default(),
        agents: vec![],
    };
    RunSummary {
        run_id: run_id(),
        version: "0.1.0".into(),
        repo: "/home/me/kettle".into(),
        base: "3f1c9a7be0d24458a1c6f0b92d7e5a4c8b6d1e2f".into(),
        issue: IssueSummary { number: Some(IssueNumber(7)), title: "It fails".into() },
        strategy: Strategy { knowledge: "qa".into(), answerer: "explore".into(), resolver: "agent".into() },
        models: [].into(),
        sandbox: "docker".into(),
        outcome: Outcome::Patch,
        error: None,
        stages: ["prepare", "question", "answer", "resolve"].map(stage).into(),
        total: Usage {
            seconds: 192.4,
            usd: Money::from_usd(0.0243),
            tokens: Tokens { input: 184_210, cached: 161_000, output: 6_103 },
        },
        unpriced: false,
        patch: Some(PatchSummary {
            files: vec![RepoPath::parse("src/units.rs").unwrap()],
            insertions: 14,
            deletions: 3,
            left_out: vec![
                LeftOut { path: "link".into(), reason: "a new symlink".into() },
                LeftOut {
                    path: "target/ (206 files)".into(),
                    reason: "ignored by the repository's .gitignore".into(),
                },
            ],
        }),
        notes: vec![],
    }
}

fn failed(class: &str, message: &str, stages: usize) -> RunSummary {
    let mut run = run();
    run.stages.truncate(stages);
    let error = Some(ErrorSummary { class: class.into(), message: message.into() });
    RunSummary { outcome: Outcome::Failed, error, patch: None, ..run }
}

const KNOWLEDGE: [&str; 3] = ["knowledge.json", "comment.md", "run.json"];
const NO_PATCH: [&str; 4] = ["knowledge.json", "comment.md", "pull-request.md", "run.json"];
const PATCH: [&str; 5] = ["knowledge.json", "comment.md", "pull-request.md", "patch.diff", "run.json"];

/// The end of a run without knowledge; one that failed could go on.
fn end(run: &RunSummary, folder: &Path, files: &[&'static str]) -> String {
    ending(
        run,
        None,
        Left { folder, files, priced: true, can_go_on: run.error.is_some(), config: None, max_usd: None },
    )
}

#[test]
fn a_patch_comes_with_the_way_to_apply_it() {
    insta::assert_snapshot!(end(&run(), folder(), &PATCH), @"
    A patch: 1 file, +14 -3. Left out: 1 change; pull-request.md says why.

    Spent: $0.024, 3 min 12 s, 184,210 tokens in (161,000 cached), 6,103 out.

    Files in /home/me/.acquire/runs/20261130-153344-a1b2c3:
      comment.md       what was asked of the repository and found, as a comment
      knowledge.json   the same for programs, quotes and all
      pull-request.md  title and text of the pull request, or why there is none
      patch.diff       the patch
      run.json         what ran, what it cost, how it ended
      trajectories/    what each agent did, turn by turn

    To apply it:
      git -C /home/me/kettle apply /home/me/.acquire/runs/20261130-153344-a1b2c3/patch.diff
    ");
    let remote = RunSummary { repo: "https://github.com/example/kettle".into(), ..run() };
    let shown = end(&remote, Path::new("/tmp/it's here"), &PATCH);
    insta::assert_snapshot!(shown.lines().last().unwrap(), @r"  git apply '/tmp/it'\''s here/patch.diff'");
}

#[test]
fn runs_without_a_patch_say_what_there_is() {
    let no_patch = RunSummary { outcome: Outcome::NoPatch, patch: None, ..run() };
    insta::assert_snapshot!(end(&no_patch, folder(), &NO_PATCH), @"
    No patch; pull-request.md says why.

    Spent: $0.024, 3 min 12 s, 184,210 tokens in (161,000 cached), 6,103 out.

    Files in /home/me/.acquire/runs/20261130-153344-a1b2c3:
      comment.md       what was asked of the repository and found, as a comment
      knowledge.json   the same for programs, quotes and all
      pull-request.md  title and text of the pull request, or why there is none
      run.json         what ran, what it cost, how it ended
      trajectories/    what each agent did, turn by turn
    ");
    let mut knowledge = RunSummary { outcome: Outcome::KnowledgeOnly, ..no_patch };
    knowledge.stages.pop();
    knowledge.total.usd = Money::ZERO;
    let left = Left {
        folder: folder(),
        files: &KNOWLEDGE,
        priced: false,
        can_go_on: false,
        config: None,
        max_usd: None,
    };
    insta::assert_snapshot!(ending(&knowledge, None, left), @"
    Knowledge; no patch was asked for.

    Spent: price unknown, 3 min 12 s, 184,210 tokens in (161,000 cached), 6,103 out.

    Files in /home/me/.acquire/runs/20261130-153344-a1b2c3:
      comment.md      what was asked of the repository and found, as a comment
      knowledge.json  the same for programs, quotes and all
      run.json        what ran, what it cost, how it ended
      trajectories/   what each agent did, turn by turn
    ");
}

#[test]
fn a_part_of_the_price_is_not_shown_as_the_whole() {
    let left = Left {
        folder: folder(),
        files: &PATCH,
        priced: false,
        can_go_on: false,
        config: None,
        max_usd: None,
    };
    let shown = ending(&run(), None, left);
    assert!(shown.contains("Spent: at least $0.024 (a price is unknown), 3 min 12 s"), "{shown}");
}

#[test]
fn a_failure_says_what_to_do_and_how_to_go_on() {
    let message = "the model's endpoint refused the key (401). Set ACQUIRE_MODEL__API_KEY\u{1b}[2J";
    insta::assert_snapshot!(end(&failed("model_unauthorized", message, 4), folder(), &KNOWLEDGE), @r"
    Failed (model_unauthorized): the model's endpoint refused the key (401). Set ACQUIRE_MODEL__API_KEY\u{1b}[2J

    Spent: $0.024, 3 min 12 s, 184,210 tokens in (161,000 cached), 6,103 out.

    Files in /home/me/.acquire/runs/20261130-153344-a1b2c3:
      comment.md      what was asked of the repository and found, as a comment
      knowledge.json  the same for programs, quotes and all
      run.json        what ran, what it cost, how it ended
      trajectories/   what each agent did, turn by turn

    To go on from where it stopped (what is finished is not paid again):
      acquire solve --resume /home/me/.acquire/runs/20261130-153344-a1b2c3
    ");
}

#[test]
fn files_are_told_as_they_were_written() {
    let no_patch = RunSummary { outcome: Outcome::NoPatch, patch: None, ..run() };
    let shown = end(&no_patch, folder(), &["patch.partial.diff", "run.json"]);
    insta::assert_snapshot!(shown.split_once("Files").unwrap().1, @"
     in /home/me/.acquire/runs/20261130-153344-a1b2c3:
      patch.partial.diff  unfinished work, which is not proposed
      run.json            what ran, what it cost, how it ended
      trajectories/       what each agent did, turn by turn
    ");
}

#[test]
fn going_on_is_offered_where_it_can_help() {
    let shown = |run: &RunSummary, can_go_on, config| {
        let left =
            Left { folder: Path::new("/runs/1"), files: &[], priced: true, can_go_on, config, max_usd: None };
        ending(run, None, left)
    };
    let offers = |run: &RunSummary, can_go_on| shown(run, can_go_on, None).contains("--resume");
    let cancelled = RunSummary { outcome: Outcome::Cancelled, ..failed("cancelled", "cancelled", 2) };
    for ended in [&failed("sandbox_lost", "", 2), &cancelled] {
        assert!(offers(ended, true));
        assert!(!offers(ended, false));
    }
    assert!(!offers(&run(), true));
    // Without it, other settings would be found.
    let named = shown(&cancelled, true, Some(Path::new("/home/me/my own.toml")));
    assert!(named.ends_with("\n  acquire solve --resume /runs/1 --config '/home/me/my own.toml'"), "{named}");
}

#[test]
fn the_demo_shows_comment_patch_and_tests() {
    let trial = |exit, output: &str| CommandOutcome {
        exit,
        head: output.into(),
        tail: vec![],
        omitted: 0,
        background_ended: 0,
        duration: Duration::ZERO,
    };
    let trials = [
        trial(
            CommandExit::Code(101),
            "running 2 tests\n.F\ntest result: FAILED. 1 passed; 1 failed\u{1b}[0m\n",
        ),
        trial(
            CommandExit::Code(0),
            "test result: ok. 2 passed; 0 failed\ntest result: ok. 3 passed; 0 failed\n",
        ),
    ];
    let recording = r#"{"recorded_with":"gpt-5-mini","at":"2026-11-30T15:33:44Z"}"#;
    let input = DemoInput {
        knowledge: None,
        left: Left {
            folder: folder(),
            files: &PATCH,
            priced: true,
            can_go_on: false,
            config: None,
            max_usd: None,
        },
        summary: &run(),
        recorded: recorded_with(recording),
        comment: Some("### Comment\n"),
        diff: Some(b"--- a/caf\xe9\n+\x1b[31mred\n"),
        test_command: "cargo test --offline",
        trials: &trials,
    };
    insta::assert_snapshot!(demo(&input), @r"
    ━━ The knowledge comment, as it would stand on the issue

    ### Comment

    ━━ The patch

    --- a/caf�
    +\u{1b}[31mred

    ━━ The tests, some of which no agent saw, before and after the patch

    cargo test --offline

    before  failed (exit code 101)
            FAILED. 1 passed; 1 failed\u{1b}[0m
    after   passed (exit code 0)
            ok. 2 passed; 0 failed
            ok. 3 passed; 0 failed

    ━━ The run

    A patch: 1 file, +14 -3. Left out: 1 change; pull-request.md says why.

    Spent: $0.024, 3 min 12 s, 184,210 tokens in (161,000 cached), 6,103 out.

    Files in /home/me/.acquire/runs/20261130-153344-a1b2c3:
      comment.md       what was asked of the repository and found, as a comment
      knowledge.json   the same for programs, quotes and all
      pull-request.md  title and text of the pull request, or why there is none
      patch.diff       the patch
      run.json         what ran, what it cost, how it ended
      trajectories/    what each agent did, turn by turn

    To apply it:
      git -C /home/me/kettle apply /home/me/.acquire/runs/20261130-153344-a1b2c3/patch.diff

    The model's replies, and the tokens that they took, were recorded in a real run with gpt-5-mini on 2026-11-30. Everything else ran here and now: git, the sandbox, every check of a citation, the tests.
    ");
    let nothing = DemoInput { comment: None, diff: None, trials: &[], recorded: recorded_with(""), ..input };
    let shown = demo(&nothing);
    assert!(
        !shown.contains("tests, some of which") && shown.contains("a model that it does not name"),
        "{shown}"
    );
}
