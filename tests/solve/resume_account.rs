//! What a run has cost stays told, however a resume of it ends.

use std::{path::Path, time::Duration};

use serde_json::{Value, json};
use tokio::process::Command;

use crate::{
    bench::PRICE,
    project::{Project, assert_valid},
    resume::until_there,
    script::{Model, Reply, Script, Who, bash, http},
    story::script,
};

/// What a call of the scripted model costs.
const CALL: f64 = 0.0012;

fn priced(mut command: Command) -> Command {
    command.env("ACQUIRE_MODEL__PRICE", PRICE).env("ACQUIRE_MODEL__RETRIES", "0");
    command
}

fn fresh(project: &Project, model: &Model) -> Command {
    let mut command = priced(project.acquire(model));
    command.args(["--sandbox", "namespaces"]);
    command
}

/// No sandbox can be opened while a file stands where their folder belongs.
fn break_sandboxes(project: &Project) {
    let folder = project.path("cache/namespaces");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::write(folder, "").unwrap();
}

fn mend_sandboxes(project: &Project) {
    std::fs::remove_file(project.path("cache/namespaces")).unwrap();
}

/// What must not get lost.
fn account(run: &Value) -> Value {
    let stages = run["stages"].as_array().unwrap().iter().map(|stage| {
        json!([stage["name"], stage["usd"], stage["tokens"], stage["agents"].as_array().unwrap().len()])
    });
    let of = |field: &str| run[field].clone();
    json!({
        "stages": stages.collect::<Vec<_>>(), "usd": run["total"]["usd"], "tokens": run["total"]["tokens"],
        "models": of("models"), "issue": of("issue"), "base": of("base"), "sandbox": of("sandbox"),
    })
}

/// A model that gives the Resolver one reply, and then refuses.
fn broken() -> Script {
    let mut script = script();
    script.resolver = vec![bash("echo first > notes.txt"), http(401, "{}")];
    script
}

#[tokio::test]
async fn s_09_a_resume_that_cannot_begin_takes_nothing_from_what_was_paid() {
    let project = Project::new();
    let model = Model::start(broken()).await;
    project.end(&mut fresh(&project, &model)).await.assert_code(1);
    let paid = account(&project.run_json());
    assert_eq!(paid["usd"], json!(6.0 * CALL), "a question, two answers of two calls, one of the Resolver");

    break_sandboxes(&project);
    for _ in 0..2 {
        let ended = project.end(&mut priced(project.resume(&model))).await;
        assert!(ended.assert_code(1).told.contains("--resume"), "{}", ended.told);
        let run = project.run_json();
        assert_eq!(
            (&run["outcome"], &run["error"]["class"]),
            (&json!("failed"), &json!("sandbox_unavailable"))
        );
        assert_eq!(account(&run), paid);
        assert_eq!(run["stages"][3]["agents"][0]["exit"], "failed", "as it ended when it was run");
        assert_eq!(project.knowledge()["pairs"].as_array().unwrap().len(), 2, "what was learned stays");
    }

    mend_sandboxes(&project);
    let model = Model::start(script()).await;
    project.end(&mut priced(project.resume(&model))).await.assert_code(0);
    let run = project.run_json();
    assert_eq!((&run["outcome"], &run["total"]["usd"]), (&json!("patch"), &json!(7.0 * CALL)));

    // It has come to its end: that stays, whatever the next resume comes to.
    break_sandboxes(&project);
    let [kept, patch] = ["run.json", "patch.diff"].map(|file| project.read(file));
    let ended = project.end(&mut priced(project.resume(&model))).await;
    assert!(ended.assert_code(1).told.contains("namespaces"), "{}", ended.told);
    assert_eq!((project.read("run.json"), project.read("patch.diff")), (kept, patch));
}

#[tokio::test]
async fn s_09_of_a_killed_run_that_cannot_go_on_it_is_told_what_it_paid() {
    let mut slow = script();
    slow.resolver[1] = Reply::After(Duration::from_secs(300), Box::new(slow.resolver[1].clone()));
    let project = Project::new();
    let model = Model::start(slow).await;
    let mut child = fresh(&project, &model).spawn().unwrap();
    until_there(&project.path("out/trees/resolver/000001.delta")).await;
    child.kill().await.unwrap();
    assert!(!project.path("out/run.json").exists());

    let away = project.path("away");
    std::fs::rename(project.path("repo"), &away).unwrap();
    let ended = project.end(&mut priced(project.resume(&model))).await;
    assert!(ended.assert_code(1).told.contains("repository_input"), "{}", ended.told);
    assert_eq!(account(&project.run_json())["usd"], json!(6.0 * CALL), "without its repository too");
    std::fs::rename(away, project.path("repo")).unwrap();

    break_sandboxes(&project);
    project.end(&mut priced(project.resume(&model))).await.assert_code(1);
    let run = project.run_json();
    assert_eq!(account(&run)["usd"], json!(6.0 * CALL));
    let names: Vec<&Value> = run["stages"].as_array().unwrap().iter().map(|stage| &stage["name"]).collect();
    assert_eq!(names, ["prepare", "question", "answer", "resolve"]);
    assert_eq!(run["issue"]["title"], "total fails on an item without a price");
    assert_eq!(run["stages"][3]["agents"][0]["exit"], "cancelled");
    assert!(project.path("out/account.open").exists(), "the killed process had a call under way");

    mend_sandboxes(&project);
    let model = Model::start(script()).await;
    project.end(&mut priced(project.resume(&model))).await.assert_code(0);
    assert!(!project.path("out/account.open").exists());
}

/// Nothing can be renamed to the name of a folder that holds something.
fn block(path: &Path) {
    std::fs::create_dir_all(path.join("x")).unwrap();
}

#[tokio::test]
async fn s_09_results_that_cannot_be_written_cost_what_they_cost() {
    let project = Project::new();
    let mut slow = script();
    slow.resolver[1] = Reply::After(Duration::from_secs(1), Box::new(slow.resolver[1].clone()));
    let model = Model::start(slow).await;
    let child = fresh(&project, &model).spawn().unwrap();
    until_there(&project.path("out/trajectories/resolver.jsonl")).await;
    block(&project.path("out/comment.md"));
    let output = child.wait_with_output().await.unwrap();
    crate::project::assert_exit(&output, 1);
    let run = project.run_json();
    assert_valid(&run);
    assert_eq!((&run["outcome"], &run["error"]["class"]), (&json!("failed"), &json!("run_state")));
    assert_eq!((&run["total"]["usd"], &run["patch"]), (&json!(7.0 * CALL), &Value::Null));
    assert_eq!(run["models"]["resolver"], "scripted");

    // As on a disk that takes nothing at all.
    let kept = project.read("run.json");
    std::fs::rename(project.path("out/run.json"), project.path("kept")).unwrap();
    block(&project.path("out/run.json"));
    let output = priced(project.resume(&model)).output().await.unwrap();
    crate::project::assert_exit(&output, 1);
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains("out/comment.md: cannot be written"), "{told}");
    assert!(project.path("out/account.open").exists(), "nobody could say what it has cost");
    std::fs::remove_dir_all(project.path("out/run.json")).unwrap();
    std::fs::write(project.path("out/run.json"), kept).unwrap();

    std::fs::remove_dir_all(project.path("out/comment.md")).unwrap();
    project.end(&mut priced(project.resume(&model))).await.assert_code(0);
    let run = project.run_json();
    assert_eq!((&run["outcome"], &run["total"]["usd"]), (&json!("patch"), &json!(7.0 * CALL)));
    assert_eq!(model.requests_of(&Who::Resolver).len(), 2, "nothing is paid twice");
}
