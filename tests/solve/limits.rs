//! Limits on steps, money and time: who reaches one ends, says which, and loses nothing.

use insta::assert_snapshot;
use serde_json::{Value, json};
use tokio::process::Command;

use crate::{
    project::Project,
    script::{Model, Script, bash, text},
    story::{Q2, script},
};

async fn run(project: &Project, model: &Model, settings: &[(&str, &str)]) -> Value {
    let mut command: Command = project.acquire(model);
    for (name, value) in settings {
        command.env(format!("ACQUIRE_{name}"), value);
    }
    project.end(command.args(["--sandbox", "namespaces"])).await.assert_code(0);
    project.run_json()
}

/// Exit and steps of all agents.
fn exits(run: &Value) -> Vec<String> {
    let agents = run["stages"].as_array().unwrap().iter().flat_map(|s| s["agents"].as_array().unwrap());
    agents.map(|a| format!("{} {} {}", a["name"], a["exit"], a["steps"]).replace('"', "")).collect()
}

/// A Resolver that edits at every turn and never submits.
fn endless() -> Script {
    Script { resolver: vec![bash("echo more >> notes.txt")], ..script() }
}

#[tokio::test]
async fn a_limit_on_steps_ends_an_agent_and_keeps_its_work() {
    let mut script = endless();
    script.answerers.insert(Q2.into(), vec![bash("true")]);
    let (project, model) = (Project::new(), Model::start(script).await);
    let steps = [("LIMITS__ANSWERER__STEPS", "2"), ("LIMITS__RESOLVER__STEPS", "3")];
    let run = run(&project, &model, &steps).await;
    assert_eq!(
        exits(&run),
        [
            "questioner submitted 1",
            "answerer-1 submitted 2",
            "answerer-2 step_limit 2",
            "resolver step_limit 3"
        ]
    );
    assert_eq!(project.knowledge()["pairs"][1]["answer"]["status"], "budget");
    assert_eq!((&run["outcome"], run.get("patch")), (&json!("no_patch"), None));
    assert!(!project.path("out/patch.diff").exists(), "unfinished work is not proposed");
    assert!(project.read("patch.partial.diff").ends_with("+more\n+more\n+more\n"));
    assert_snapshot!(project.read("pull-request.md"), @"
    No patch: total fails on an item without a price

    **Unfinished.** A limit on steps, money or time, or replies that could not be read, ended the agent before it submitted. What it had changed by then is kept in `patch.partial.diff`; it is not proposed.

    #### Changes
    1 file, +3 −0

    - `notes.txt`

    #### Tests
    Not tested: no test command ran after the last edit.
    ");
}

#[tokio::test]
async fn a_limit_on_money_is_never_overshot() {
    let (project, model) = (Project::new(), Model::start(endless()).await);
    // 50 tokens a reply, at $100 for a million: $0.005. What may come at worst is 100 tokens: $0.01.
    let money = [
        ("MODEL__PRICE__INPUT", "0"),
        ("MODEL__PRICE__CACHED", "0"),
        ("MODEL__PRICE__OUTPUT", "100"),
        ("MODEL__MAX_TOKENS", "100"),
        ("LIMITS__RESOLVER__USD", "0.02"),
    ];
    let run = run(&project, &model, &money).await;
    let exits = exits(&run);
    // Before the fourth call $0.015 were spent, and $0.01 more would have been over the limit.
    assert_eq!(exits[3], "resolver cost_limit 3");
    assert_eq!((&run["stages"][3]["usd"], &run["total"]["usd"]), (&json!(0.015), &json!(0.04)));
    assert!(project.read("patch.partial.diff").ends_with("+more\n+more\n+more\n"));
}

#[tokio::test]
async fn a_limit_on_the_money_of_the_whole_run_ends_whoever_asks_next() {
    let (project, model) = (Project::new(), Model::start(script()).await);
    let money = [
        ("MODEL__PRICE__INPUT", "0"),
        ("MODEL__PRICE__CACHED", "0"),
        ("MODEL__PRICE__OUTPUT", "100"),
        ("MODEL__MAX_TOKENS", "100"),
        ("LIMITS__RUN__USD", "0.03"),
    ];
    let run = run(&project, &model, &money).await;
    assert!(run["total"]["usd"].as_f64().unwrap() <= 0.03, "{run:#}");
    // Where both Answerers reserve at once, one of them meets the limit first and leaves money for one step.
    assert!(exits(&run)[3].starts_with("resolver cost_limit "), "{:?}", exits(&run));
    assert_eq!(run["outcome"], "no_patch");
}

#[tokio::test]
async fn where_no_price_is_known_tokens_stand_in_for_money() {
    let (project, model) = (Project::new(), Model::start(endless()).await);
    let tokens = [("LIMITS__RESOLVER__TOKENS", "12000"), ("MODEL__MAX_TOKENS", "100")];
    let run = run(&project, &model, &tokens).await;
    let resolver = &run["stages"][3]["agents"][0];
    assert_eq!(resolver["exit"], "cost_limit");
    let spent =
        resolver["tokens"]["input"].as_u64().unwrap() + resolver["tokens"]["output"].as_u64().unwrap();
    assert!((5_000..=12_000).contains(&spent), "{spent}");
    assert!(project.read("comment.md").contains("price unknown"), "{}", project.read("comment.md"));
}

#[tokio::test]
async fn a_limit_on_time_ends_an_agent_between_two_turns() {
    let mut slow = endless();
    slow.answerers.insert(Q2.into(), vec![bash("sleep 1.1"), text("never asked")]);
    slow.resolver = vec![bash("echo more >> notes.txt; sleep 1.1")];
    let (project, model) = (Project::new(), Model::start(slow).await);
    let seconds = [("LIMITS__ANSWERER__SECONDS", "1"), ("LIMITS__RESOLVER__SECONDS", "1")];
    let run = run(&project, &model, &seconds).await;
    assert_eq!(exits(&run)[2..], ["answerer-2 time_limit 1", "resolver time_limit 1"]);
    assert!(project.read("patch.partial.diff").ends_with("+more\n"));
}
