use super::*;
use crate::report::{CitationFigures, InstanceFigures, MeanTokens, Spread, StageFigures};

fn arm(name: &str, resolved: usize) -> ArmFigures {
    let stage = |name: &str, seconds, usd| StageFigures { name: name.into(), seconds, usd };
    ArmFigures {
        arm: name.into(),
        models: vec!["gpt|5\u{1b}[2J".into()],
        instances: 3,
        finished: 2,
        patches: 2,
        scored: 2,
        resolved,
        steps: Some(Spread { mean: 12.5, median: 12.0 }),
        tokens: Some(MeanTokens { input: 84_210.4, cached: 61_000.0, output: 3_100.0 }),
        stages: vec![stage("prepare", 2.0, Some(0.0)), stage("total", 302.0, Some(0.0541))],
        usd: Some(0.1082),
        citations: CitationFigures::default(),
        questions: None,
        against_first: None,
    }
}

fn finished(resolved: Option<bool>) -> RunFigures {
    RunFigures::Finished { outcome: Outcome::Patch, resolved, steps: Some(1), seconds: 60.0, usd: None }
}

fn figures() -> BenchFigures {
    let mut qa = arm("qa-2", 2);
    qa.stages.insert(1, StageFigures { name: "answer".into(), seconds: 125.0, usd: None });
    (qa.finished, qa.usd) = (3, None);
    qa.citations = CitationFigures { verified: 9, moved: 1, unverified: 0, not_cited: 2 };
    qa.against_first = Some(Transitions {
        recovered: 1,
        regressed: 0,
        both: 1,
        neither: 0,
        steps_change: Some(-0.071),
        steps_change_recovered: None,
    });
    let row = |instance: &str, runs: [RunFigures; 2]| InstanceFigures {
        instance: instance.into(),
        runs: runs.into(),
    };
    BenchFigures {
        version: "0.1.0".into(),
        arms: vec![arm("none", 1), qa],
        instances: vec![
            row("a-1", [finished(Some(false)), finished(Some(true))]),
            row("a-2", [finished(Some(true)), finished(None)]),
            row(
                "a-3",
                [RunFigures::Failed { class: "model_timeout".into() }, RunFigures::Missing { why: None }],
            ),
        ],
        unscored: vec!["qa-2/a-2".into()],
        unjudged: vec![],
    }
}

#[test]
fn the_table_sets_arms_side_by_side_and_shows_what_is_unknown() {
    insta::assert_snapshot!(bench_table(&figures()), @r"
    |                               | none                    | qa-2                    |
    | ----------------------------- | ----------------------- | ----------------------- |
    | model                         | gpt\|5\u{1b}[2J         | gpt\|5\u{1b}[2J         |
    | runs finished                 | 2 of 3                  | 3 of 3                  |
    | resolved                      | 1 (50.0 %)              | 2 of 2 scored (100.0 %) |
    | patches                       | 2                       | 2                       |
    | Resolver steps, mean / median | 12.5 / 12.0             | 12.5 / 12.0             |
    | tokens in / cached / out      | 84,210 / 61,000 / 3,100 | 84,210 / 61,000 / 3,100 |
    | prepare: time, money          | 2 s, $0.000             | 2 s, $0.000             |
    | answer: time, money           | –                       | 2 min 5 s, –            |
    | total: time, money            | 5 min 2 s, $0.054       | 5 min 2 s, $0.054       |
    | money, all runs               | $0.108                  | –                       |
    | citations ✓ / ↪ / ⚠           | –                       | 9 / 1 / 0               |
    | statements not cited          | –                       | 2                       |
    | recovered / regressed         | –                       | 1 / 0                   |
    | both / neither                | –                       | 1 / 0                   |
    | steps, change                 | –                       | -7.1 %                  |
    | steps, change on recovered    | –                       | –                       |

    1 of 6 runs have no result yet. The same command goes on with what is not finished; with `--again failed` also with what failed.

    No score yet: qa-2/a-2. The same command tries again.

    - Steps, tokens, time and money of a stage are means over finished runs; time is wall clock.
    - resolved: what the scorer said; a run without a patch is not resolved. – is not known: no scorer, or no price.
    - ✓ the quote or symbol stands at the cited place, ↪ it stood elsewhere in the file, ⚠ not found.
    - Against none, on instances scored in both: recovered, resolved here alone; regressed, resolved there alone. Steps are compared on instances that both finished.

    | instance | none                               | qa-2                                  |
    | -------- | ---------------------------------- | ------------------------------------- |
    | a-1      | not resolved: 1 step, 1 min 0 s, – | resolved: 1 step, 1 min 0 s, –        |
    | a-2      | resolved: 1 step, 1 min 0 s, –     | patch, unscored: 1 step, 1 min 0 s, – |
    | a-3      | failed (model_timeout)             | missing                               |
    ");
}

#[test]
fn of_many_runs_without_a_mark_some_are_named_and_all_are_counted() {
    let runs: Vec<String> = (1..=12).map(|number| format!("none/a-{number}")).collect();
    insta::assert_snapshot!(without("No score yet", &runs).unwrap(), @"No score yet: none/a-1, none/a-2, none/a-3, none/a-4, none/a-5, none/a-6, none/a-7, none/a-8, none/a-9, none/a-10 and 2 more. The same command tries again.");
    assert_eq!(without("No score yet", &[]), None);
}

#[test]
fn without_a_scorer_nothing_counts_as_not_resolved() {
    let mut one = arm("none", 0);
    (one.finished, one.patches, one.scored) = (3, 2, 1);
    assert_eq!(resolved(&one), UNKNOWN, "a run without a patch is known, the two patches are not");
    one.scored = 2;
    assert_eq!(resolved(&one), "0 of 2 scored (0.0 %)");
    (one.scored, one.resolved) = (3, 1);
    assert_eq!(resolved(&one), "1 (33.3 %)");
}
