use serde_json::{Value, json};

use super::*;

/// A run whose Resolver took so many steps, at `usd` a run.
fn run(steps: u32, usd: f64, resolved: Option<bool>) -> Run {
    let tokens = json!({"input": 1000, "cached": 400, "output": 50});
    let agent = |name: &str, steps: u32, usd: f64| json!({"name": name, "steps": steps, "seconds": 1.0, "usd": usd, "tokens": tokens, "exit": "submitted"});
    let stage = |name: &str, seconds: f64, agents: Value| json!({"name": name, "seconds": seconds, "usd": 0.0, "tokens": tokens, "agents": agents});
    let summary = json!({
        "run_id": "20261130-100000-a1b2c3", "version": "0.1.0", "repo": "r", "base": "b", "issue": {"title": "t"},
        "strategy": {"knowledge": "none", "answerer": "explore", "resolver": "agent"},
        "models": {"resolver": "m"}, "sandbox": "docker", "outcome": "patch",
        "stages": [
            stage("prepare", 2.0, json!([])),
            stage("resolve", 10.0, json!([agent("resolver", steps, usd)])),
        ],
        "total": {"seconds": 13.0, "usd": usd, "tokens": tokens},
        "unpriced": usd == 0.0,
    });
    let summary = serde_json::from_value(summary).unwrap();
    Run::Finished(Box::new(Finished { summary, knowledge: None, resolved, judgement: None }))
}

fn missing() -> Run {
    Run::Other(RunFigures::Missing { why: None })
}

fn table(runs: &[Vec<Run>]) -> BenchFigures {
    let arms: Vec<String> = (0..runs.len()).map(|arm| format!("arm-{arm}")).collect();
    let instances: Vec<String> = (0..runs[0].len()).map(|number| format!("i-{number}")).collect();
    figures("0.1.0", &arms, &instances, runs)
}

#[test]
fn means_are_over_finished_runs() {
    let figures = table(&[vec![run(10, 0.1, Some(true)), run(20, 0.3, Some(false)), missing()]]);
    let arm = &figures.arms[0];
    assert_eq!((arm.instances, arm.finished, arm.scored, arm.resolved), (3, 2, 2, 1));
    assert_eq!(arm.steps, Some(Spread { mean: 15.0, median: 15.0 }));
    let stages: Vec<_> = arm.stages.iter().map(|s| (s.name.as_str(), s.seconds, s.usd)).collect();
    assert_eq!(
        stages,
        [("prepare", 2.0, Some(0.0)), ("resolve", 10.0, Some(0.2)), ("total", 13.0, Some(0.2))]
    );
    assert_eq!((arm.usd, arm.models.as_slice()), (Some(0.4), ["m".to_owned()].as_slice()));
    assert_eq!(arm.against_first, None);
    assert_eq!(figures.instances[2].runs, [RunFigures::Missing { why: None }]);
}

#[test]
fn an_unknown_price_is_no_price_of_nothing() {
    let figures = table(&[vec![run(10, 0.1, None), run(10, 0.0, None)]]);
    let arm = &figures.arms[0];
    assert_eq!(arm.usd, None, "what one of two cost is not what both cost");
    assert_eq!(arm.stages[0].usd, Some(0.0), "no model was asked there");
    assert_eq!((arm.stages[1].usd, arm.stages[2].usd), (None, None));
}

#[test]
fn what_is_free_costs_nothing() {
    let Run::Finished(mut free) = run(10, 0.0, None) else { panic!() };
    free.summary.unpriced = false;
    let figures = table(&[vec![run(10, 0.1, None), Run::Finished(free)]]);
    assert_eq!((figures.arms[0].usd, figures.arms[0].stages[1].usd), (Some(0.1), Some(0.05)));
}

#[test]
fn an_arm_without_results_has_no_figures() {
    let arm = table(&[vec![missing(), missing()]]).arms.remove(0);
    assert_eq!((arm.steps, arm.tokens, arm.usd, arm.stages.len()), (None, None, None, 0));
}

#[test]
fn transitions_count_what_is_scored_in_both_arms() {
    let first = vec![
        run(10, 0.1, Some(false)),
        run(10, 0.1, Some(true)),
        run(10, 0.1, Some(true)),
        run(10, 0.1, Some(false)),
        run(10, 0.1, None),
        run(50, 0.1, Some(true)),
    ];
    let second = vec![
        run(5, 0.1, Some(true)),
        run(10, 0.1, Some(false)),
        run(10, 0.1, Some(true)),
        run(10, 0.1, Some(false)),
        run(10, 0.1, Some(true)),
        missing(),
    ];
    let against = table(&[first, second]).arms[1].against_first.unwrap();
    assert_eq!((against.recovered, against.regressed, against.both, against.neither), (1, 1, 1, 1));
    assert!((against.steps_change.unwrap() - -0.1).abs() < 1e-9, "45 steps after 50");
    assert!((against.steps_change_recovered.unwrap() - -0.5).abs() < 1e-9);
}

#[test]
fn the_median_lies_in_the_middle() {
    assert_eq!(spread(vec![]), None);
    assert_eq!(spread(vec![3.0, 1.0, 2.0]).unwrap().median, 2.0);
    assert_eq!(spread(vec![4.0, 1.0, 2.0, 3.0]).unwrap().median, 2.5);
}

#[test]
fn marks_are_means_over_questions_and_coverage_over_runs() {
    let mark = |relevance| Marks {
        relevance,
        answerability: 8,
        diagnostic_utility: 8,
        reasoning_depth: 7,
        clarity: 9,
    };
    let judged = |relevance: &[u8], coverage, usd| Judgement {
        asked_sha256: String::new(),
        model: "j".into(),
        questions: relevance.iter().copied().map(mark).collect(),
        coverage: Some(coverage),
        usd,
        tokens: crate::domain::Tokens::default(),
        seconds: 1.0,
    };
    let (one, two) =
        (judged(&[10, 7, 7], 4, Some(Money::from_usd(0.1))), judged(&[4], 8, Some(Money::from_usd(0.2))));
    let figures = questions(&[&one, &two]).unwrap();
    assert_eq!((figures.judged_runs, figures.judged_questions), (2, 4));
    assert_eq!((figures.relevance, figures.coverage), (7.0, 6.0));
    assert!((figures.judge_usd.unwrap() - 0.3).abs() < 1e-9);
    assert_eq!(questions(&[&one, &judged(&[1], 1, None)]).unwrap().judge_usd, None);
    assert_eq!(questions(&[]), None);
}
