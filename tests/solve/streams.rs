//! Standard streams that take nothing: a reader that has left, a disk that is full. What a run came to is paid for,
//! and must not be lost to them.

use std::{fs, process::Stdio};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tokio::process::Command;

use crate::{
    ask::{answers, ask},
    project::{Ended, Project, hide},
    resume::{interrupt, until_there},
    script::{Model, bash},
    story::Q1,
};

/// A pipe whose reader is gone.
fn gone() -> Stdio {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    writer.into()
}

/// A file on a disk that has no room.
fn full() -> Stdio {
    fs::File::options().write(true).open("/dev/full").unwrap().into()
}

/// As [`Project::end`], with the streams that the command was given.
async fn end(project: &Project, command: &mut Command) -> Ended {
    let output = command.spawn().unwrap().wait_with_output().await.unwrap();
    Ended {
        code: output.status.code(),
        told: hide(&String::from_utf8(output.stderr).unwrap(), project.folder.path()),
        printed: String::from_utf8(output.stdout).unwrap(),
    }
}

/// A question to a run of its own, and whether its answer is kept.
async fn asked(project: &Project, model: &Model, change: impl FnOnce(&mut Command)) -> Ended {
    let _ = fs::remove_dir_all(project.path("out"));
    let mut command = ask(project, model, &[Q1]);
    change(&mut command);
    let ended = end(project, &mut command).await;
    assert_eq!(project.knowledge()["pairs"][0]["answer"]["status"], "answered");
    ended
}

/// As `acquire ask … | head -0`: what was not read was not wanted.
#[tokio::test]
async fn a_run_goes_on_without_anybody_who_reads_and_ends_as_it_would() {
    let (project, model) = (Project::new(), Model::start(answers()).await);
    for json in [true, false] {
        let ended = asked(&project, &model, |command| {
            command.args(json.then_some("--json")).env("RUST_LOG", "debug").stdout(gone()).stderr(gone());
        });
        ended.await.assert_code(0);
    }
}

#[tokio::test]
async fn a_result_that_a_full_disk_does_not_take_is_a_failure_and_is_kept() {
    let (project, model) = (Project::new(), Model::start(answers()).await);
    for json in [true, false] {
        let ended = asked(&project, &model, |command| {
            command.args(json.then_some("--json")).stdout(full());
        });
        let ended = ended.await;
        let why = "standard output cannot be written to: No space left on device (os error 28)";
        let told = format!("error: the result lies in DIR/out, but is not shown: {why}");
        assert_eq!(ended.assert_code(1).line("error"), told);
    }
    let ended = asked(&project, &model, |command| {
        command.env("RUST_LOG", "debug").stderr(full());
    });
    let ended = ended.await;
    ended.assert_code(0);
    assert!(ended.printed.contains("[1] ✓ store.py:17-18"), "{}", ended.printed);
}

#[tokio::test]
async fn ctrl_c_ends_a_run_that_nobody_listens_to() {
    let mut slow = answers();
    slow.answerers.insert(Q1.into(), vec![bash("sleep 300")]);
    let (project, model) = (Project::new(), Model::start(slow).await);
    let mut child = ask(&project, &model, &[Q1]).stdout(gone()).stderr(gone()).spawn().unwrap();
    until_there(&project.path("out/trajectories/answerer-1.jsonl")).await;
    interrupt(&child);
    assert_eq!(child.wait().await.unwrap().code(), Some(130));
    assert_eq!(project.run_json()["outcome"], "cancelled");
}

/// As `timeout` ends a program: it, and then its process group.
#[tokio::test]
async fn two_signals_at_once_are_one_wish() {
    let mut slow = answers();
    slow.answerers.insert(Q1.into(), vec![bash("sleep 300")]);
    let (project, model) = (Project::new(), Model::start(slow).await);
    let mut child = ask(&project, &model, &[Q1]).spawn().unwrap();
    until_there(&project.path("out/trajectories/answerer-1.jsonl")).await;
    let id = Pid::from_raw(child.id().unwrap().try_into().unwrap());
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGTERM] {
        kill(id, signal).unwrap();
    }
    assert_eq!(child.wait().await.unwrap().code(), Some(130));
    assert_eq!(project.run_json()["outcome"], "cancelled");
    assert!(!project.path("out/account.open").exists());
}

#[tokio::test]
async fn no_command_panics() {
    let project = Project::new();
    let run = project.path("out");
    fs::create_dir_all(run.join("trajectories")).unwrap();
    let opening = r#"{"agent": "resolver", "model": "m", "messages": [], "tools": [], "volatile": []}"#;
    fs::write(run.join("trajectories/resolver.jsonl"), format!("{opening}\n")).unwrap();
    let commands: [&[&str]; 6] = [
        &["--help"],
        &["--version"],
        &["solve", "--help"],
        &["export", "out"],
        &["doctor", "--sandbox", "namespaces"],
        &["doctor", "--sandbox", "namespaces", "--json"],
    ];
    for arguments in commands {
        let command = || {
            let mut command = project.program();
            command.args(arguments).env("DOCKER_HOST", "unix:///nonexistent");
            command
        };
        let usual = end(&project, &mut command()).await;
        assert!(!usual.printed.is_empty() && !usual.told.contains("panicked"), "{usual:?}");
        let code = usual.code.unwrap();
        end(&project, command().stdout(gone()).stderr(gone())).await.assert_code(code);
        let ended = end(&project, command().stdout(full())).await;
        ended.assert_code(1).line("error: standard output cannot be written to: No space left on device");
    }
}

/// An error is one also where nobody hears it.
#[tokio::test]
async fn the_exit_code_says_what_standard_error_cannot() {
    let project = Project::new();
    for arguments in [&["export", "none"][..], &["solve"], &["solve", "--resume", "none"]] {
        for stream in [gone(), full()] {
            let ended = end(&project, project.program().args(arguments).stderr(stream)).await;
            assert_eq!(ended.assert_code(2).printed, "");
        }
    }
}
