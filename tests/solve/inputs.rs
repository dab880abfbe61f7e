//! What a user can get wrong: told before anything is paid, with what, where, and what to do.

use std::fs;

use insta::assert_snapshot;
use serde_json::{Value, json};
use tokio::process::Command;

use crate::{
    project::Project,
    script::{Model, Script, bash, submit},
};

/// Runs what `change` makes of a good command. It is refused before there is a folder; returns how.
async fn refused(project: &Project, change: impl FnOnce(&mut Command) -> &mut Command) -> String {
    let model = Model::start(Script::default()).await;
    let ended = project.end(change(&mut project.acquire(&model))).await;
    ended.assert_code(2);
    assert!(model.requests().is_empty(), "a model was asked");
    assert!(!project.path("out").exists(), "a mistake leaves nothing behind");
    assert_eq!((ended.printed.as_str(), ended.told.lines().count()), ("", 1), "{ended:?}");
    ended.told.trim_end().to_owned()
}

/// As [`refused`], where the repository must be read first: there is a folder, and its `run.json` says why.
async fn ended_early(project: &Project, change: impl FnOnce(&mut Command) -> &mut Command) -> String {
    let model = Model::start(Script::default()).await;
    let ended = project.end(change(&mut project.acquire(&model))).await;
    ended.assert_code(2);
    assert!(model.requests().is_empty(), "a model was asked");
    let run = project.run_json();
    assert_eq!(serde_json::from_str::<Value>(&ended.printed).unwrap(), run);
    assert_eq!((&run["outcome"], &run["stages"]), (&json!("failed"), &json!([])));
    assert!(!ended.told.contains("--resume"), "nothing was begun that could go on: {}", ended.told);
    ended.line("Failed").to_owned()
}

fn as_it_is(command: &mut Command) -> &mut Command {
    command
}

/// A Resolver that changes nothing.
fn idle() -> Script {
    let nothing = json!({"summary": "Nothing to repair.", "used_answers": [], "leave_out": []});
    Script { resolver: vec![bash("true"), submit(nothing)], ..Script::default() }
}

#[tokio::test]
async fn a_repository_that_cannot_be_worked_on() {
    let project = Project::new();
    assert_snapshot!(ended_early(&project, |c| c.args(["--base", "release"])).await, @r#"Failed (repository_input): base "release": DIR/repo has no such branch, tag or commit (branches: trunk)"#);
    assert_snapshot!(ended_early(&project, |c| c.args(["--base", "HEAD~1"])).await, @r#"Failed (repository_input): base "HEAD~1": not a branch, tag or commit id; expressions such as HEAD~1 are not taken"#);
    fs::remove_dir_all(project.path("out")).unwrap();
    fs::remove_dir_all(project.path("repo/.git")).unwrap();
    assert_snapshot!(refused(&project, as_it_is).await, @"error: DIR/repo is not a git repository (nor are the folders above it looked at); give the folder that holds '.git'");
    project.git(&["init", "-q", "-b", "trunk"]);
    assert_snapshot!(ended_early(&project, as_it_is).await, @"Failed (repository_input): DIR/repo is an empty repository; commit something first");
    fs::remove_dir_all(project.path("out")).unwrap();
    fs::remove_dir_all(project.path("repo")).unwrap();
    assert_snapshot!(refused(&project, as_it_is).await, @"error: there is no folder DIR/repo; give a folder that holds a git repository, or an https:// address");

    // The folder of a run that never began takes the one that does.
    fs::create_dir(project.path("repo")).unwrap();
    project.git(&["init", "-q", "-b", "trunk"]);
    ended_early(&project, as_it_is).await;
    project.git(&["commit", "-q", "--allow-empty", "-m", "Start"]);
    let model = Model::start(idle()).await;
    let mut command = project.acquire(&model);
    command.args(["--questions", "0", "--sandbox", "namespaces"]);
    project.end(&mut command).await.assert_code(0);
    assert_eq!(project.run_json()["outcome"], "no_patch");
}

#[tokio::test]
async fn an_issue_that_cannot_be_worked_on() {
    let project = Project::new();
    let with = async |content: &[u8]| {
        fs::write(project.path("issue.md"), content).unwrap();
        refused(&project, as_it_is).await
    };
    assert_snapshot!(with(b"").await, @"error: DIR/issue.md: the issue is empty: it has no words in its title or text. Describe what goes wrong and what should happen instead");
    assert_snapshot!(with(b" \n<!-- hidden -->\n").await, @"error: DIR/issue.md: the issue is empty: it has no words in its title or text. Describe what goes wrong and what should happen instead");
    assert_snapshot!(with(&vec![b'a'; 5_000_000]).await, @"error: DIR/issue.md: the issue file has 5000000 bytes, more than the 1000000 that are read. Shorten it to what the problem needs");
    assert_snapshot!(with(b"# Title\n\ncaf\xe9\n").await, @"error: DIR/issue.md: the issue file is not UTF-8: line 3 has a byte that is no text. Save it as UTF-8");
    assert_snapshot!(with(b"![a screenshot](https://example.com/a.png)\n").await, @"error: DIR/issue.md: the issue has nothing but images, and images are not read. Add the error message, the code or a description as text");
    fs::remove_file(project.path("issue.md")).unwrap();
    assert_snapshot!(refused(&project, as_it_is).await, @"error: DIR/issue.md: the issue file cannot be read: No such file or directory (os error 2). Give a text file to --issue-file");
    fs::create_dir(project.path("issue.md")).unwrap();
    assert_snapshot!(refused(&project, as_it_is).await, @"error: DIR/issue.md: the issue file cannot be read: Is a directory (os error 21). Give a text file to --issue-file");
}

#[tokio::test]
async fn s_07_a_pipe_or_a_device_is_no_issue_file_and_is_not_waited_for() {
    let project = Project::new();
    let issue = project.path("issue.md");
    fs::remove_file(&issue).unwrap();
    // Nobody ever writes to it.
    nix::unistd::mkfifo(&issue, nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert_snapshot!(refused(&project, as_it_is).await, @"error: DIR/issue.md: the issue file cannot be read: it is not a regular file. Give a text file to --issue-file");
    fs::remove_file(&issue).unwrap();
    std::os::unix::fs::symlink("/dev/zero", &issue).unwrap();
    assert_snapshot!(refused(&project, as_it_is).await, @"error: DIR/issue.md: the issue file cannot be read: it is not a regular file. Give a text file to --issue-file");
}

#[tokio::test]
async fn s_51_a_repository_whose_settings_include_others_or_are_a_pipe_is_refused() {
    let project = Project::new();
    let config = project.path("repo/.git/config");
    let good = fs::read_to_string(&config).unwrap();
    fs::write(&config, format!("{good}[include]\n\tpath = ../../outside\n")).unwrap();
    assert_snapshot!(refused(&project, as_it_is).await, @"error: DIR/repo/.git/config takes in other files by `include`, which is not followed; remove it, or give a clone");
    for name in ["config", "HEAD", "refs/heads/trunk", "packed-refs"] {
        let path = project.path("repo/.git").join(name);
        let kept = fs::read(&path).ok();
        let _ = fs::remove_file(&path);
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let told = refused(&project, as_it_is).await;
        assert_eq!(told, format!("error: DIR/repo/.git/{name} is not a regular file"));
        fs::remove_file(&path).unwrap();
        if name == "config" {
            fs::write(&path, &good).unwrap();
        } else if let Some(kept) = kept {
            fs::write(&path, kept).unwrap();
        }
    }
}

#[tokio::test]
async fn settings_that_are_not_known() {
    let project = Project::new();
    let told = async |change: &dyn Fn(&mut Command)| {
        let model = Model::start(Script::default()).await;
        let mut command = project.acquire(&model);
        change(&mut command);
        let ended = project.end(&mut command).await;
        ended.assert_code(2);
        assert!(!project.path("out").exists(), "settings are read before a folder is made");
        ended.told
    };
    assert_snapshot!(told(&|c| { c.env("ACQUIRE_LIMITS__RESOLVER__STEP", "9"); }).await, @"error: settings: unknown key `limits.resolver.step` in the variable ACQUIRE_LIMITS__RESOLVER__STEP; the nearest known one is `limits.resolver.steps`, as a variable ACQUIRE_LIMITS__RESOLVER__STEPS");
    assert_snapshot!(told(&|c| { c.env("ACQUIRE_LIMITS__RESOLVER__STEPS", "many"); }).await, @r#"error: settings: `limits.resolver.steps` in the variable ACQUIRE_LIMITS__RESOLVER__STEPS is "many", but must be a whole number from 0 up"#);
    fs::write(project.path("acquire.toml"), "[method]\nquestion = 3\n").unwrap();
    assert_snapshot!(told(&|_| {}).await, @"error: settings: unknown key `method.question` in DIR/acquire.toml; the nearest known one is `method.questions`");
    fs::write(project.path("acquire.toml"), "[method\nquestions = 3\n").unwrap();
    assert_snapshot!(told(&|_| {}).await, @"error: settings: DIR/acquire.toml line 1, column 8 is no valid TOML: invalid table header; expected `.`, `]`");
    fs::remove_file(project.path("acquire.toml")).unwrap();
    assert_snapshot!(told(&|c| { c.args(["--config", "other.toml"]); }).await, @"error: settings: DIR/other.toml cannot be read: there is no such file");
}

#[tokio::test]
async fn no_model_is_set() {
    let project = Project::new();
    assert_snapshot!(refused(&project, |c| c.env_remove("ACQUIRE_MODEL__NAME")).await, @"error: settings: `model.name` is not set and the questioner needs a model; set it, for example by ACQUIRE_MODEL__NAME=gpt-5-mini");
    let elsewhere = "https://api.example.com/v1";
    assert_snapshot!(refused(&project, |c| c.env("ACQUIRE_MODEL__BASE_URL", elsewhere)).await, @"error: settings: `model.api_key`: there is no key for api.example.com. Set ACQUIRE_MODEL__API_KEY, or name the variable that holds it in `api_key_env`; any text will do where the endpoint needs none");
}

#[tokio::test]
async fn a_log_line_in_a_file_is_plain_text() {
    let project = Project::new();
    let model = Model::start(Script::default()).await;
    let mut command = project.acquire(&model);
    command.env("ACQUIRE_MODEL__BASE_URL", "http://192.0.2.1/v1").env("ACQUIRE_MODEL__API_KEY", "k");
    fs::remove_file(project.path("issue.md")).unwrap();
    let ended = project.end(&mut command).await;
    assert_snapshot!(ended.assert_code(2).told.lines().next().unwrap().trim(), @"WARN acquire::model::http: the model's key travels without encryption: `model.base_url` is not https url=http://192.0.2.1/v1");
}

#[tokio::test]
async fn changes_that_are_not_committed_are_said_not_to_be_seen() {
    let project = Project::new();
    let model = Model::start(idle()).await;
    let notes = async |base: &[&str]| {
        let _ = fs::remove_dir_all(project.path("out"));
        let mut command = project.acquire(&model);
        command.args(["--questions", "0", "--sandbox", "namespaces"]).args(base);
        project.end(&mut command).await.assert_code(0);
        project.run_json()["notes"].to_string()
    };
    let said = "Uncommitted changes in the repository are not seen";
    project.write(&[("new.txt", b"of no commit, like many a file that lies about")]);
    assert!(!notes(&[]).await.contains(said));
    project.write(&[("store.py", b"pass\n")]);
    assert!(notes(&[]).await.contains(said));
    assert!(!notes(&["--base", "trunk"]).await.contains(said), "what was asked for is taken");
}

#[tokio::test]
async fn a_folder_that_holds_a_run_is_left_as_it_is() {
    let project = Project::new();
    let model = Model::start(idle()).await;
    let command = || {
        let mut command = project.acquire(&model);
        command.args(["--questions", "0", "--sandbox", "namespaces"]);
        command
    };
    project.end(&mut command()).await.assert_code(0);
    let (run, asked) = (project.read("run.json"), model.requests().len());
    let again = project.end(&mut command()).await;
    assert_snapshot!(again.assert_code(2).told, @"error: DIR/out: holds a run already; go on with it by --resume, or name another folder by --out");
    assert_eq!((project.read("run.json"), model.requests().len()), (run, asked));

    let resumed = project.end(&mut project.resume(&model)).await;
    resumed.assert_code(0);
    assert_eq!(model.requests().len(), asked, "what is finished is not asked again");
}

#[tokio::test]
async fn an_image_or_an_engine_that_is_not_there() {
    let project = Project::new();
    let model = Model::start(idle()).await;
    let mut command = project.acquire(&model);
    command.args(["--questions", "0", "--sandbox", "docker", "--image", "no-such-image:7"]);
    let ended = project.end(&mut command).await;
    assert_snapshot!(ended.assert_code(1).line("Failed"), @"Failed (sandbox_unavailable): Docker has no image `no-such-image:7`. Make the default one with scripts/sandbox-image, or name another with --image (sandbox.image) and fetch it with `docker pull`");
    let run = project.run_json();
    assert_eq!((&run["error"]["class"], &run["sandbox"]), (&json!("sandbox_unavailable"), &json!("docker")));

    let project = Project::new();
    let without_engine = |sandbox| {
        let mut command = project.acquire(&model);
        command.env("DOCKER_HOST", "unix:///nonexistent").args(["--questions", "0", "--sandbox", sandbox]);
        command
    };
    let ended = project.end(&mut without_engine("docker")).await;
    assert_snapshot!(ended.assert_code(1).line("Failed"), @"Failed (sandbox_unavailable): no Docker engine answers at unix:///nonexistent (there is no such socket). Start Docker, or use `--sandbox namespaces`");
    assert!(ended.told.contains("acquire solve --resume DIR/out"), "{}", ended.told);
    assert!(model.requests().is_empty(), "a model was asked before there was a sandbox");

    // Its inputs are stored: when the engine answers, it goes on.
    let resumed = project.end(&mut project.resume(&model)).await;
    resumed.assert_code(0);
    assert_eq!(project.run_json()["sandbox"], "docker");

    fs::remove_dir_all(project.path("out")).unwrap();
    project.end(&mut without_engine("auto")).await.assert_code(0);
    assert_snapshot!(project.run_json()["notes"][0].as_str().unwrap(), @"Sandbox: namespaces, which is weaker: no Docker engine answers at unix:///nonexistent (there is no such socket). Start Docker. Fit for your own repositories only.");
    assert_eq!(project.run_json()["sandbox"], "namespaces");

    // An engine elsewhere is no engine that is missing.
    fs::remove_dir_all(project.path("out")).unwrap();
    let mut elsewhere = without_engine("auto");
    project.end(elsewhere.env("DOCKER_HOST", "tcp://10.0.0.1:2375")).await.assert_code(0);
    assert_snapshot!(project.run_json()["notes"][0].as_str().unwrap(), @"Sandbox: namespaces, which is weaker: the Docker engine at tcp://10.0.0.1:2375 cannot be used: only sockets (unix:///path) are. Change sandbox.host or DOCKER_HOST. Fit for your own repositories only.");
}
