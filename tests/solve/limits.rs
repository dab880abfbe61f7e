//! Limits on steps, money and time: who reaches one ends, says which, and loses nothing.

use std::time::Duration;

use insta::assert_snapshot;
use serde_json::{Value, json};
use tokio::process::Command;

use crate::{
    project::Project,
    script::{Model, Reply, Script, bash, submit},
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
async fn s_09_a_limit_on_time_ends_what_is_under_way() {
    let mut slow = endless();
    let answer = json!({"answer": "", "citations": [], "gaps": ["The search was cut short."]});
    slow.answerers.insert(Q2.into(), vec![bash("sleep 300"), submit(answer)]);
    slow.resolver = vec![bash("echo more >> notes.txt; sleep 300")];
    let (project, model) = (Project::new(), Model::start(slow).await);
    let seconds = [("LIMITS__ANSWERER__SECONDS", "10"), ("LIMITS__RESOLVER__SECONDS", "2")];
    let run = run(&project, &model, &seconds).await;
    assert_eq!(exits(&run)[2..], ["answerer-2 submitted 2", "resolver time_limit 1"]);
    // A last call keeps what was found, and what was written is kept anyway.
    assert_eq!(project.knowledge()["pairs"][1]["answer"]["status"], "gap");
    assert!(project.read("patch.partial.diff").ends_with("+more\n"));
    let notes = run["notes"].as_array().unwrap();
    for note in [
        "question 2: its limit on time was reached; it submitted in its last call",
        "resolver: its limit on time was reached",
    ] {
        assert!(notes.contains(&json!(note)), "{notes:?}");
    }
}

#[tokio::test]
async fn s_09_the_runs_time_ends_the_questioner_and_does_not_begin_anew() {
    let mut slow = script();
    let late = Reply::After(Duration::from_secs(300), Box::new(slow.questioner[0].clone()));
    slow.questioner = vec![late];
    let (project, model) = (Project::new(), Model::start(slow).await);
    let mut command = project.acquire(&model);
    let ended =
        project.end(command.env("ACQUIRE_LIMITS__RUN__SECONDS", "5").args(["--sandbox", "namespaces"])).await;
    ended.assert_code(1);
    let first = project.run_json();
    assert_eq!(
        (&first["error"]["class"], &first["stages"][1]["agents"][0]["exit"]),
        (&json!("time_limit"), &json!("time_limit"))
    );
    assert_snapshot!(ended.line("Failed"), @"Failed (time_limit): the run's time was used up before it came to an end, that of earlier processes included. Raise `[limits.run] seconds`, then go on with --resume");

    // What a stage took is gone; with more time the run comes to its end.
    let prepare = first["stages"][0]["seconds"].as_f64().unwrap();
    let stage = project.path("out/stages/prepare.json");
    let longer = std::fs::read_to_string(&stage)
        .unwrap()
        .replace(&format!("\"seconds\": {prepare}"), "\"seconds\": 500.0");
    std::fs::write(&stage, longer).unwrap();
    let model = Model::start(script()).await;
    let resumed = |seconds: &str| {
        let mut command = project.resume(&model);
        command.env("ACQUIRE_LIMITS__RUN__SECONDS", seconds);
        command
    };
    project.end(&mut resumed("500")).await.assert_code(1);
    assert!(model.requests().is_empty(), "500 of 500 seconds were used");
    project.end(&mut resumed("900")).await.assert_code(0);
    assert_eq!(project.run_json()["outcome"], "patch");
}

#[tokio::test]
async fn s_09_money_can_be_limited_for_one_run_and_for_its_rest() {
    let (project, model) = (Project::new(), Model::start(script()).await);
    let priced = |mut command: Command, usd: &str| {
        for name in ["INPUT", "CACHED", "OUTPUT"] {
            command.env(format!("ACQUIRE_MODEL__PRICE__{name}"), if name == "OUTPUT" { "100" } else { "0" });
        }
        command.env("ACQUIRE_MODEL__MAX_TOKENS", "100").args(["--max-usd", usd]);
        command
    };
    // A call may cost $0.01, and costs half of that: there is not enough for the Questioner.
    let mut command = priced(project.acquire(&model), "0.01");
    command.env("ACQUIRE_MODEL__MAX_TOKENS", "200").args(["--sandbox", "namespaces"]);
    let ended = project.end(&mut command).await;
    ended.assert_code(1);
    assert!(
        ended.told.contains("/out --max-usd 0.01\n"),
        "the limit is part of what goes on: {}",
        ended.told
    );
    assert_eq!((&project.run_json()["error"]["class"], model.requests().len()), (&json!("over_budget"), 0));
    assert_snapshot!(ended.line("Failed"), @"Failed (over_budget): the budget ended before the first question: the run's limit is reached. Raise `[limits.run] usd`, or `--max-usd`");
    let mut command = priced(project.resume(&model), "1");
    let ended = project
        .end(command.env("ACQUIRE_LIMITS__ANSWERER__USD", "0.01").env("ACQUIRE_MODEL__MAX_TOKENS", "200"))
        .await;
    assert_snapshot!(ended.assert_code(1).line("Failed"), @"Failed (over_budget): the budget ended before the first question: the agent's limit is reached. Raise `usd` in `[limits.answerer]`, or `tokens` where the model's price is unknown");
    let mut command = priced(project.resume(&model), "1");
    project.end(&mut command).await.assert_code(0);
    assert_eq!(project.run_json()["outcome"], "patch");
}

#[tokio::test]
async fn s_09_a_limit_on_money_that_cannot_be_kept_is_refused() {
    let (project, model) = (Project::new(), Model::start(script()).await);
    for command in [&mut project.acquire(&model), &mut project.resume(&model)] {
        let ended = project.end(command.args(["--max-usd", "1"])).await;
        let told = &ended.assert_code(2).told;
        assert!(
            told.contains("--max-usd cannot be kept, since the price of scripted is not known"),
            "{told}"
        );
    }
    assert!(model.requests().is_empty() && !project.path("out").exists());
}
