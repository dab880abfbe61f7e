//! The scorer of a bench: stopped, running wild, talking too much, touching what it should not.

use std::{
    fs::File,
    os::unix::fs::PermissionsExt,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::{Value, json};

use crate::{bench::Bench, project::assert_exit, resume::until_there, script::Model, story::script};

/// Writes a program for the scorer; `$1` is the patch.
fn program(bench: &Bench, script: &str) -> String {
    let path = bench.project.path("scorer.sh");
    std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    format!("'{}' {{patch}}", path.display())
}

const RESOLVED: &str = r#"echo '{"resolved": true}'"#;

/// Waits until the process is no more, or a zombie.
async fn until_dead(id: &str) {
    let deadline = Instant::now() + Duration::from_secs(30);
    let lives = || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", id.trim()));
        stat.is_ok_and(|stat| !stat.rsplit(')').next().unwrap().trim_start().starts_with(['Z', 'X']))
    };
    while lives() {
        assert!(Instant::now() < deadline, "{id} lives");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_bench_that_is_stopped_while_it_scores_says_so_and_scores_the_next_time() {
    let bench = Bench::of(&["a-1", "a-2"]);
    let model = Model::start(script()).await;
    let ids = bench.project.path("ids");
    let hung =
        program(&bench, &format!("sleep 600 & echo $! > '{0}.new'; mv '{0}.new' '{0}'; wait", ids.display()));
    let child =
        bench.command(&model, &["--knowledge", "none", "--jobs", "2", "--scorer", &hung]).spawn().unwrap();
    until_there(&ids).await;
    let asked = Instant::now();
    kill(Pid::from_raw(child.id().unwrap().try_into().unwrap()), Signal::SIGTERM).unwrap();
    let output = child.wait_with_output().await.unwrap();
    assert_exit(&output, 130);
    assert!(asked.elapsed() < Duration::from_secs(15), "{:?}", asked.elapsed());
    until_dead(&std::fs::read_to_string(&ids).unwrap()).await;
    let unscored = bench.table()["unscored"].as_array().unwrap().clone();
    assert!(unscored.contains(&json!("none/a-1")) || unscored.contains(&json!("none/a-2")), "{unscored:?}");
    assert!(bench.read("table.md").contains("No score yet: none/a-"), "{}", bench.read("table.md"));

    program(&bench, RESOLVED);
    bench.run(&model, &["--knowledge", "none", "--scorer", &hung]).await.assert_code(0);
    let table = bench.table();
    assert_eq!((&table["arms"][0]["resolved"], table.get("unscored")), (&json!(2), None));
}

#[tokio::test]
async fn what_a_scorer_started_is_not_waited_for_and_does_not_outlive_it() {
    let bench = Bench::of(&["a-1"]);
    let model = Model::start(script()).await;
    let id = bench.project.path("id");
    let scorer = program(&bench, &format!("sleep 600 & echo $! > '{}'\n{RESOLVED}", id.display()));
    let asked = Instant::now();
    let ended = bench.run(&model, &["--knowledge", "none", "--scorer", &scorer]).await;
    assert!(ended.assert_code(0).told.contains("none/a-1: resolved"), "{}", ended.told);
    assert!(asked.elapsed() < Duration::from_secs(300), "{:?}", asked.elapsed());
    until_dead(&std::fs::read_to_string(id).unwrap()).await;
}

#[tokio::test]
async fn s_33_what_a_scorer_says_is_kept_without_secrets_and_bounded() {
    let bench = Bench::of(&["a-1"]);
    let model = Model::start(script()).await;
    let scorer = program(
        &bench,
        "yes 'a line that nobody needs' | head -c 3000000 >&2\necho \"key $ACQUIRE_MODEL__API_KEY\" >&2\n\
         yes 'another' | head -c 3000000\necho \"{\\\"resolved\\\": true, \\\"key\\\": \\\"$ACQUIRE_MODEL__API_KEY\\\"}\"",
    );
    let mut command = bench.command(&model, &["--knowledge", "none", "--scorer", &scorer]);
    command.env("ACQUIRE_MODEL__API_KEY", "a-key-of-the-operator");
    bench.project.end(&mut command).await.assert_code(0);
    let log = bench.read("none/a-1.score.log");
    assert!(log.starts_with("[the first 2.0 MB are left out]\na line that nobody needs\n"), "{:.200}", log);
    assert!(log.len() < (1 << 20) + 100, "{} bytes", log.len());
    let last = log.lines().last().unwrap();
    assert!(last.starts_with("key ") && !last.contains("operator"), "{last}");
    let score: Value = serde_json::from_str(&bench.read("none/a-1.score.json")).unwrap();
    assert_eq!(score["resolved"], true);
    assert!(score["reply"]["key"].as_str().is_some_and(|key| !key.contains("operator")), "{score}");
    // It is the score of this scorer all the same.
    let asked = bench.read("none/a-1.score.json");
    bench.project.end(&mut command).await.assert_code(0);
    assert_eq!(bench.read("none/a-1.score.json"), asked);
}

#[tokio::test]
async fn a_scorer_that_edits_the_patch_edits_a_copy() {
    let bench = Bench::of(&["a-1"]);
    let model = Model::start(script()).await;
    let scorer =
        program(&bench, &format!("grep -q item.get \"$1\" || exit 1\necho rubbish > \"$1\"\n{RESOLVED}"));
    bench.run(&model, &["--knowledge", "none", "--scorer", &scorer]).await.assert_code(0);
    assert_eq!(bench.table()["arms"][0]["resolved"], 1);
    assert!(bench.read("none/a-1/patch.diff").contains("item.get"));
    assert!(bench.read("none/predictions.jsonl").contains("item.get"));
}

#[tokio::test]
async fn a_run_is_marked_by_one_process_at_a_time() {
    let bench = Bench::of(&["a-1"]);
    let model = Model::start(script()).await;
    bench.run(&model, &["--knowledge", "none"]).await.assert_code(0);
    let scorer = bench.scorer("item.get");
    let all = ["--knowledge", "none", "--scorer", &scorer];
    let other = File::create(bench.project.path("bench/none/a-1.marks.lock")).unwrap();
    other.lock().unwrap();
    let ended = bench.run(&model, &all).await;
    assert!(
        ended.assert_code(0).told.contains("none/a-1: not scored or judged: another process"),
        "{}",
        ended.told
    );
    assert!(!bench.project.path("scored").exists());
    assert_eq!(bench.table()["unscored"], json!(["none/a-1"]));
    drop(other);
    bench.run(&model, &all).await.assert_code(0);
    assert_eq!(bench.table()["arms"][0]["resolved"], 1);
}

#[tokio::test]
async fn s_07_instances_are_read_from_a_file_and_nothing_else() {
    let bench = Bench::of(&["a-1"]);
    let model = Model::start(script()).await;
    let data = bench.project.path("data.jsonl");
    std::fs::remove_file(&data).unwrap();
    nix::unistd::mkfifo(&data, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let ended = bench.run(&model, &[]).await;
    assert!(
        ended.assert_code(2).told.contains("DIR/data.jsonl: cannot be read: it is not a regular file"),
        "{}",
        ended.told
    );
}
