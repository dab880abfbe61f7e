//! `--max-usd` of a bench is kept, whatever happens to its runs and whoever works beside it.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::process::Command;

use crate::{
    bench::{Bench, PRICE},
    project::Ended,
    script::{Model, Reply, Who, bash, http},
    story::script,
};

/// One run may cost $1, and costs $0.0024.
fn priced(bench: &Bench, model: &Model, usd: &str) -> Command {
    let mut command = bench.command(model, &["--knowledge", "none", "--max-usd", usd]);
    command.env("ACQUIRE_MODEL__PRICE", PRICE).env("ACQUIRE_LIMITS__RUN__USD", "1.0");
    command
}

async fn end(bench: &Bench, model: &Model, usd: &str) -> Ended {
    bench.project.end(&mut priced(bench, model, usd)).await
}

/// A model that is at the Resolver's second reply for as long as a test needs.
async fn slow_model() -> Model {
    let mut slow = script();
    slow.resolver.insert(1, Reply::After(Duration::from_secs(300), Box::new(bash("true"))));
    Model::start(slow).await
}

async fn until_asked_twice(model: &Model) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while model.requests_of(&Who::Resolver).len() < 2 {
        assert!(Instant::now() < deadline);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn states(table: &Value) -> Vec<&str> {
    let rows = table["instances"].as_array().unwrap();
    rows.iter().map(|row| row["runs"][0]["state"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn s_09_a_killed_run_that_cannot_be_opened_keeps_its_whole_cap() {
    let bench = Bench::of(&["a-1", "a-2"]);
    let slow = slow_model().await;
    let mut child = priced(&bench, &slow, "1.5").spawn().unwrap();
    until_asked_twice(&slow).await;
    child.kill().await.unwrap();

    let lock = bench.project.path("bench/none/a-1/run.lock");
    std::fs::remove_file(&lock).unwrap();
    nix::unistd::mkfifo(&lock, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let quick = Model::start(script()).await;
    let ended = end(&bench, &quick, "1.5").await;
    assert!(ended.assert_code(1).told.contains("none/a-1: broken off: "), "{}", ended.told);
    assert!(ended.told.contains("DIR/bench/none/a-1/run.lock: cannot be opened"), "{}", ended.told);
    assert!(!ended.told.contains("none/a-1: not started"), "it had been: {}", ended.told);
    assert_eq!(quick.requests().len(), 0, "$1 may be gone, and a-2 may cost $1");
    assert_eq!(states(&bench.table()), ["unfinished", "missing"]);
    assert!(ended.printed.contains("| unfinished: "), "{}", ended.printed);

    std::fs::remove_file(&lock).unwrap();
    end(&bench, &quick, "1.5").await.assert_code(0);
    assert_eq!(states(&bench.table()), ["finished", "finished"]);
}

#[tokio::test]
async fn s_09_what_an_older_account_leaves_out_is_not_free() {
    let bench = Bench::of(&["a-1", "a-2"]);
    let broken = Model::start(crate::script::Script { resolver: vec![http(401, "{}")], ..script() }).await;
    let mut one = priced(&bench, &broken, "1.5");
    bench.project.end(one.args(["--only", "a-1"])).await.assert_code(1);
    let slow = slow_model().await;
    let mut again = priced(&bench, &slow, "1.5");
    let mut child = again.args(["--only", "a-1", "--again", "failed"]).spawn().unwrap();
    until_asked_twice(&slow).await;
    child.kill().await.unwrap();

    // run.json is the first process's, and says $0.
    let run: Value = serde_json::from_str(&bench.read("none/a-1/run.json")).unwrap();
    assert_eq!((&run["outcome"], &run["total"]["usd"]), (&json!("failed"), &json!(0.0)));
    let quick = Model::start(script()).await;
    end(&bench, &quick, "1.5").await.assert_code(1);
    assert_eq!((quick.requests().len(), states(&bench.table())), (0, vec!["failed", "missing"]));
    end(&bench, &quick, "2").await.assert_code(1);
    assert_eq!(states(&bench.table()), ["failed", "finished"]);
}

#[tokio::test]
async fn s_09_two_benches_cannot_spend_the_same_money() {
    let bench = Bench::of(&["a-1", "a-2"]);
    let slow = slow_model().await;
    let mut child = priced(&bench, &slow, "1.5").spawn().unwrap();
    until_asked_twice(&slow).await;

    let quick = Model::start(script()).await;
    let ended = end(&bench, &quick, "1.5").await;
    assert!(
        ended.assert_code(2).told.contains(
            "DIR/bench: another bench works in this folder, and --max-usd is kept by one alone; wait for it"
        ),
        "{}",
        ended.told
    );
    let ended = bench.run(&quick, &["--knowledge", "none"]).await;
    assert!(
        ended.assert_code(2).told.contains("DIR/bench: a bench with --max-usd works in this folder"),
        "{}",
        ended.told
    );
    assert_eq!(quick.requests().len(), 0);
    child.kill().await.unwrap();
    end(&bench, &quick, "2.5").await.assert_code(0);
}

#[tokio::test]
async fn what_asked_no_model_or_a_free_one_costs_nothing() {
    let bench = Bench::of(&["a-1", "a-2"]);
    let lines = std::fs::read_to_string(bench.project.path("data.jsonl")).unwrap();
    let commit = bench.project.git(&["rev-parse", "HEAD"]);
    let lines = lines.replacen(commit.trim(), &"0".repeat(40), 1);
    std::fs::write(bench.project.path("data.jsonl"), lines).unwrap();
    let model = Model::start(script()).await;
    let free = "{input=0.0,cached=0.0,output=0.0}";
    let mut command = bench.command(&model, &["--knowledge", "none"]);
    let ended = bench.project.end(command.env("ACQUIRE_MODEL__PRICE", free)).await;
    ended.assert_code(1);
    for run in ["none/a-1: failed (", "none/a-2: patch; "] {
        let line = ended.line(run);
        assert!(line.ends_with(", $0.000"), "{line}");
    }
    assert_eq!(bench.table()["arms"][0]["usd"], json!(0.0));
}
