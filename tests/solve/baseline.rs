//! Tests before any change: what the Resolver is told of them.

use std::time::{Duration, Instant};

use crate::{
    project::Project,
    script::{Model, Script, Who, all_text, http},
    story::{Q1, script},
};

/// A project whose tests, `make test`, do this.
fn project(recipe: &str) -> Project {
    let makefile = format!("test:\n\t@{recipe}\n");
    let project = Project::new();
    project.write(&[("Makefile", makefile.as_bytes())]);
    project.git(&["add", "-A"]);
    project.git(&["commit", "-q", "-m", "Tests"]);
    project
}

fn first(model: &Model, who: Who) -> String {
    all_text(&model.requests_of(&who)[0])
}

#[tokio::test]
async fn the_resolver_alone_is_told_which_tests_fail_before_any_change() {
    // It writes, and its writing is in nobody's workspace.
    let project = project("echo 'FAILED test_total'; echo left > left-behind; exit 3");
    let model = Model::start(script()).await;
    project.end(project.acquire(&model).args(["--sandbox", "namespaces"])).await.assert_code(0);
    let resolver = first(&model, Who::Resolver);
    let fact = "- Tests are probably run with `make test`. On the untouched repository, before any change: \
                exit code 2 after 0 s; the lines of its output that tell of \
                failures, and its end:\n\n----- begin output ";
    assert!(resolver.contains(fact), "{resolver}");
    assert!(resolver.contains("\nFAILED test_total\n"), "{resolver}");
    let answerer = first(&model, Who::Answerer(Q1.into()));
    assert!(answerer.contains("(a guess from the files; it has not been tried)"), "{answerer}");
    assert!(!answerer.contains("FAILED"), "{answerer}");
    assert_eq!(project.run_json()["patch"]["files"], serde_json::json!(["store.py"]));
}

#[tokio::test]
async fn tests_that_do_not_end_cost_no_more_than_their_limit() {
    let project = project("echo begun; sleep 300");
    let model = Model::start(script()).await;
    let mut command = project.acquire(&model);
    command.env("ACQUIRE_METHOD__BASELINE_SECONDS", "1").args([
        "--questions",
        "0",
        "--sandbox",
        "namespaces",
    ]);
    let begun = Instant::now();
    project.end(&mut command).await.assert_code(0);
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    let resolver = first(&model, Who::Resolver);
    assert!(
        resolver.contains("before any change: did not end within 1 s; the lines of its output"),
        "{resolver}"
    );
    // The wait is part of the stage that waited.
    let stages = project.run_json()["stages"].clone();
    assert_eq!(stages[1]["name"], "resolve");
    assert!(stages[1]["seconds"].as_f64().unwrap() >= 0.9, "{stages:#}");
}

#[tokio::test]
async fn a_resumed_run_is_told_what_the_first_one_saw() {
    let project = project("exit 1");
    let failing = Script { resolver: vec![http(401, "")], ..script() };
    let model = Model::start(failing).await;
    project.end(project.acquire(&model).args(["--sandbox", "namespaces"])).await.assert_code(1);
    let stored = project.read("stages/baseline.json").replace("\"output\": \"", "\"output\": \"AS STORED ");
    std::fs::write(project.path("out/stages/baseline.json"), stored).unwrap();
    std::fs::remove_file(project.path("out/trajectories/resolver.jsonl")).unwrap();
    let model = Model::start(script()).await;
    project.end(&mut project.resume(&model)).await.assert_code(0);
    let resolver = first(&model, Who::Resolver);
    assert!(resolver.contains("AS STORED"), "{resolver}");
}

#[tokio::test]
async fn nothing_is_tried_where_that_is_switched_off() {
    let project = project("exit 1");
    let model = Model::start(script()).await;
    let mut command = project.acquire(&model);
    command.env("ACQUIRE_METHOD__BASELINE_SECONDS", "0").args([
        "--questions",
        "0",
        "--sandbox",
        "namespaces",
    ]);
    project.end(&mut command).await.assert_code(0);
    let resolver = first(&model, Who::Resolver);
    assert!(resolver.contains("it has not been tried"), "{resolver}");
    assert!(!project.path("out/stages/baseline.json").exists());
}
