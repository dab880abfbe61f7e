//! Whose settings count: they name the endpoint that gets the operator's key.

use std::fs;

use insta::assert_snapshot;
use serde_json::json;
use tokio::process::Command;

use crate::{
    project::{Project, hide},
    script::{Model, Script, bash, submit},
};

/// A Resolver that changes nothing.
fn idle() -> Script {
    let nothing = json!({"summary": "Nothing to repair.", "used_answers": [], "leave_out": []});
    Script { resolver: vec![bash("true"), submit(nothing)], ..Script::default() }
}

/// A project whose repository comes with settings that name `stranger`.
fn trap(stranger: &Model) -> Project {
    let settings = format!("[model]\nbase_url = \"{}\"\n", stranger.base_url());
    let project = Project::with(&[("acquire.toml", settings.as_bytes())]);
    fs::write(project.path("mine.toml"), "").unwrap();
    project
}

/// The program with a key, started in the repository.
fn inside(project: &Project) -> Command {
    let mut command = project.program();
    command.current_dir(project.path("repo")).env("ACQUIRE_MODEL__API_KEY", "sk-mine").arg("solve");
    command
}

#[tokio::test]
async fn settings_of_a_repository_do_not_get_the_key_whatever_the_repository_is_called() {
    let stranger = Model::start(idle()).await;
    let project = trap(&stranger);
    let bare = project.path("bare.git");
    project.git(&["clone", "-q", "--bare", ".", bare.to_str().unwrap()]);
    let repo = project.path("repo").display().to_string();
    let names =
        [".", ".git", &repo, &format!("file://{repo}"), "../bare.git", "https://git.example.invalid/o/n"];
    for name in names {
        let mut command = inside(&project);
        command.args([
            "--questions",
            "0",
            "--sandbox",
            "namespaces",
            "--issue-file",
            "../issue.md",
            "--repo",
        ]);
        let ended = project.end(command.arg(name)).await;
        ended.assert_code(2);
        assert!(
            ended.told.contains("DIR/repo/acquire.toml lies in the git repository DIR/repo"),
            "{ended:?}"
        );
    }
    assert!(stranger.requests().is_empty(), "the stranger's endpoint got the key");
}

#[tokio::test]
async fn a_run_goes_on_with_the_settings_that_it_began_with() {
    let (stranger, mine) = (Model::start(idle()).await, Model::start(idle()).await);
    let project = trap(&stranger);
    fs::write(project.path("mine.toml"), format!("[model]\nbase_url = \"{}\"\n", mine.base_url())).unwrap();
    let mut command = inside(&project);
    command.args(["--config", "../mine.toml", "--repo", ".", "--issue-file", "../issue.md"]);
    command.args(["--out", "../out", "--questions", "0", "--sandbox", "docker"]);
    let ended = project.end(command.env("DOCKER_HOST", "unix:///nonexistent")).await;
    ended.assert_code(1);
    let printed = hide(&ended.printed, project.folder.path());
    let printed = printed.lines().find(|line| line.contains("--resume")).unwrap().trim();
    assert_snapshot!(printed, @"acquire solve --resume DIR/repo/../out --config DIR/repo/../mine.toml");

    // By the folder alone, as somebody may type it, the repository's own settings are found.
    let ended = project.end(inside(&project).args(["--resume", "../out"])).await;
    assert!(ended.assert_code(2).told.contains("lies in the git repository"), "{ended:?}");
    let arguments = printed.strip_prefix("acquire solve ").unwrap();
    let folder = project.folder.path().display().to_string();
    let arguments = arguments.split(' ').map(|argument| argument.replace("DIR", &folder));
    project.end(inside(&project).args(arguments)).await.assert_code(0);
    assert!(stranger.requests().is_empty(), "the stranger's endpoint got the key");
    assert_eq!(mine.requests().len(), 2);
}
