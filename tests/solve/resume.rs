//! Runs that are interrupted: by Ctrl-C, by SIGKILL at any moment, and how they go on.

use std::{
    path::Path,
    process::Stdio,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::json;
use tokio::{io::AsyncBufReadExt as _, process::Child};

use crate::{
    engine_proxy::EngineProxy,
    project::{Project, assert_exit},
    script::{Model, Reply, Script, Who, all_text, bash, http, submit},
    story::{Q1, Q2, script},
};

fn after(milliseconds: u64, reply: Reply) -> Reply {
    Reply::After(Duration::from_millis(milliseconds), Box::new(reply))
}

fn pid(child: &Child) -> Pid {
    Pid::from_raw(child.id().expect("it runs").try_into().unwrap())
}

/// As Ctrl-C does.
pub fn interrupt(child: &Child) {
    kill(pid(child), Signal::SIGINT).unwrap();
}

/// Waits until a file is there. Bounded, so that a test ends.
pub async fn until_there(path: &Path) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !path.exists() {
        assert!(Instant::now() < deadline, "{} did not appear", path.display());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Names of containers and volumes of a run.
async fn left_in_docker(run_id: &str) -> String {
    let mut all = String::new();
    for what in [&["ps", "--all"][..], &["volume", "ls"][..]] {
        let output = tokio::process::Command::new("docker")
            .args(what)
            .args(["--quiet", "--filter", &format!("label=acquire.run={run_id}")])
            .output()
            .await
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        all.push_str(&String::from_utf8_lossy(&output.stdout));
    }
    all
}

fn run_id(project: &Project) -> String {
    let inputs: serde_json::Value = serde_json::from_str(&project.read("stages/inputs.json")).unwrap();
    inputs["run_id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn ctrl_c_ends_a_run_within_ten_seconds_and_leaves_nothing_running() {
    let mut slow = script();
    slow.answerers.insert(Q2.into(), vec![bash("sleep 300")]);
    slow.answerers.insert(Q1.into(), vec![after(300_000, bash("true"))]);
    let project = Project::new();
    let model = Model::start(slow).await;
    let child = project.acquire(&model).spawn().unwrap();
    let id = pid(&child);
    until_there(&project.path("out/trajectories/answerer-2.jsonl")).await;
    let deadline = Instant::now() + Duration::from_secs(60);
    while model.requests_of(&Who::Answerer(Q1.into())).is_empty()
        || model.requests_of(&Who::Answerer(Q2.into())).is_empty()
    {
        assert!(Instant::now() < deadline);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let asked = Instant::now();
    kill(id, Signal::SIGINT).unwrap();
    let output = child.wait_with_output().await.unwrap();
    assert_exit(&output, 130);
    assert!(asked.elapsed() < Duration::from_secs(10), "{:?}", asked.elapsed());
    let run = project.run_json();
    assert_eq!(run["outcome"], "cancelled");
    assert_eq!(run["stages"][2]["agents"][0]["exit"], "cancelled");
    assert_eq!(left_in_docker(run["run_id"].as_str().unwrap()).await, "");
}

/// Nobody ever writes to the pipe that stands for an object of git, and no read of it can be cancelled.
#[tokio::test]
async fn ctrl_c_ends_a_run_that_waits_for_a_pipe() {
    let project = Project::new();
    let model = Model::start(Script::default()).await;
    let commit = project.git(&["rev-parse", "HEAD"]).trim().to_owned();
    let object = project.path("repo/.git/objects").join(&commit[..2]).join(&commit[2..]);
    std::fs::remove_file(&object).unwrap();
    nix::unistd::mkfifo(&object, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let mut child = project.acquire(&model).spawn().unwrap();
    let id = pid(&child);
    let mut told = tokio::io::BufReader::new(child.stderr.take().unwrap()).lines();
    while let Some(line) = told.next_line().await.unwrap() {
        if line.contains("Reading the repository") {
            break;
        }
    }
    let asked = Instant::now();
    kill(id, Signal::SIGINT).unwrap();
    let status = child.wait().await.unwrap();
    assert_eq!(status.code(), Some(130));
    assert!(asked.elapsed() < Duration::from_secs(20), "{:?}", asked.elapsed());
}

#[tokio::test]
async fn a_pipe_in_the_folder_of_a_run_is_refused_and_not_waited_for() {
    let project = Project::new();
    let broken = Script { resolver: vec![http(401, "")], ..script() };
    let model = Model::start(broken).await;
    project.end(project.acquire(&model).args(["--sandbox", "namespaces"])).await.assert_code(1);
    for name in ["stages/inputs.json", "stages/question.json", "trajectories/resolver.jsonl", "run.lock"] {
        let path = project.path("out").join(name);
        let kept = std::fs::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let ended = project.end(&mut project.resume(&model)).await;
        assert!(matches!(ended.code, Some(1 | 2)), "{name}: {ended:?}");
        assert!(ended.told.contains(&format!("DIR/out/{name}")), "{name}: {}", ended.told);
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, kept).unwrap();
    }
}

#[tokio::test]
async fn a_finished_answerer_is_not_paid_again_after_a_kill() {
    let mut slow = script();
    let answers = slow.answerers.get_mut(Q2).unwrap();
    answers[1] = after(2_000, answers[1].clone());
    let project = Project::new();
    let model = Model::start(slow).await;
    let mut child = project.acquire(&model).spawn().unwrap();
    until_there(&project.path("out/stages/answer-1.json")).await;
    child.kill().await.unwrap();
    let run = run_id(&project);
    assert_ne!(left_in_docker(&run).await, "", "a killed run leaves its containers");
    let paid = model.requests_of(&Who::Answerer(Q1.into())).len();

    assert_exit(&project.resume(&model).output().await.unwrap(), 0);
    assert_eq!(model.requests_of(&Who::Answerer(Q1.into())).len(), paid);
    assert_eq!(model.requests_of(&Who::Questioner).len(), 1);
    assert_eq!(project.run_json()["outcome"], "patch");
    assert_eq!(run_id(&project), run);
    assert_eq!(left_in_docker(&run).await, "", "the next start removes what a killed run left");
}

#[tokio::test]
async fn a_resolver_goes_on_with_its_edits_after_a_kill() {
    let mut slow = script();
    slow.resolver = vec![
        bash("echo 'first edit' > notes.txt"),
        after(1_000, bash("cat notes.txt && echo 'second edit' >> notes.txt")),
        submit(json!({"summary": "Notes.", "used_answers": [], "leave_out": []})),
    ];
    let project = Project::new();
    let model = Model::start(slow).await;
    let mut child = project.acquire(&model).spawn().unwrap();
    until_there(&project.path("out/trees/resolver/000001.delta")).await;
    child.kill().await.unwrap();

    assert_exit(&project.resume(&model).output().await.unwrap(), 0);
    let requests = model.requests_of(&Who::Resolver);
    let last = all_text(requests.last().unwrap());
    assert!(last.contains("interrupted") && last.contains("first edit"), "{last}");
    assert!(project.read("patch.diff").contains("+first edit\n+second edit\n"));
}

#[tokio::test]
async fn r_ex_6_an_engine_that_stops_in_mid_run_ends_it_and_it_goes_on_when_the_engine_is_back() {
    let mut slow = script();
    slow.resolver = vec![
        bash("echo 'first edit' > notes.txt"),
        bash("sleep 300"),
        submit(json!({"summary": "Notes.", "used_answers": [], "leave_out": []})),
    ];
    let mut quick = slow.clone();
    quick.resolver[1] = bash("echo 'second edit' >> notes.txt");
    let project = Project::new();
    let model = Model::start(slow).await;
    let mut engine = EngineProxy::start();
    let mut command = project.acquire(&model);
    command.env("ACQUIRE_SANDBOX__HOST", engine.address()).args(["--sandbox", "docker"]);
    let child = command.spawn().unwrap();
    until_there(&project.path("out/trees/resolver/000001.delta")).await;
    let deadline = Instant::now() + Duration::from_secs(60);
    while model.requests_of(&Who::Resolver).len() < 2 {
        assert!(Instant::now() < deadline);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let stopped = Instant::now();
    engine.cut().await;
    let output = child.wait_with_output().await.unwrap();
    assert_exit(&output, 1);
    assert!(stopped.elapsed() < Duration::from_secs(30), "{:?}", stopped.elapsed());
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(told.contains("no Docker engine answers") && told.contains("--resume"), "{told}");
    let run = project.run_json();
    assert_eq!((&run["outcome"], &run["error"]["class"]), (&json!("failed"), &json!("sandbox_unavailable")));
    assert_eq!(project.knowledge()["pairs"].as_array().unwrap().len(), 2, "what was learned is kept");

    let model = Model::start(quick).await;
    assert_exit(&project.resume(&model).output().await.unwrap(), 0);
    let patch = project.read("patch.diff");
    assert!(patch.contains("+first edit\n+second edit\n"), "{patch}");
    assert_eq!(model.requests_of(&Who::Questioner).len(), 0, "nothing is paid twice");
    assert_eq!(left_in_docker(&run_id(&project)).await, "");
}

#[tokio::test]
async fn a_run_killed_at_any_moment_ends_as_if_nothing_had_happened() {
    let project = Project::new();
    let mut paced = script();
    for replies in paced.answerers.values_mut().chain([&mut paced.questioner, &mut paced.resolver]) {
        *replies = replies.drain(..).map(|reply| after(60, reply)).collect();
    }
    let model = Model::start(paced).await;
    // Ever later: some of these hit the set-up, some a model call, some a command, some the end.
    let mut patience = 150;
    let mut kills = 0;
    let output = loop {
        let mut command = if project.path("out/stages/inputs.json").exists() {
            project.resume(&model)
        } else {
            let _ = std::fs::remove_dir_all(project.path("out"));
            project.acquire(&model)
        };
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        match tokio::time::timeout(Duration::from_millis(patience), child.wait()).await {
            Ok(_) => break child.wait_with_output().await.unwrap(),
            Err(_) => child.kill().await.unwrap(),
        }
        kills += 1;
        patience += 150;
        assert!(kills < 60, "it never ends");
    };
    assert_exit(&output, 0);
    assert!(kills >= 3, "only {kills} kills hit");
    let run = project.run_json();
    assert_eq!((&run["outcome"], &run["patch"]["files"]), (&json!("patch"), &json!(["store.py"])));
    assert_eq!(project.knowledge()["pairs"].as_array().unwrap().len(), 2);
    assert_eq!(left_in_docker(run["run_id"].as_str().unwrap()).await, "");
    // A kill can cost the one call that was under way, for each agent, and the turns since its last saved tree.
    for who in [Who::Questioner, Who::Answerer(Q1.into()), Who::Answerer(Q2.into())] {
        assert!(model.requests_of(&who).len() <= 2 + kills, "{who:?}");
    }
}

#[tokio::test]
async fn what_cannot_be_resumed_is_told() {
    let project = Project::new();
    let model = Model::start(Script::default()).await;
    let output = project.resume(&model).output().await.unwrap();
    assert_exit(&output, 2);
    std::fs::create_dir(project.path("out")).unwrap();
    let output = project.resume(&model).output().await.unwrap();
    assert_exit(&output, 2);
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains("holds no run; --resume takes the --out folder of an earlier run"), "{told}");
}
