//! `acquire doctor`, in a real sandbox and with a model behind a real endpoint.

use serde_json::{Value, json};
use wiremock::{Mock, MockServer, ResponseTemplate, matchers};

use crate::project::{Ended, Project};

/// An endpoint that answers every call in this way.
async fn endpoint(answer: ResponseTemplate) -> MockServer {
    let server = MockServer::start().await;
    Mock::given(matchers::path("/chat/completions")).respond_with(answer).mount(&server).await;
    server
}

fn reply(message: Value) -> ResponseTemplate {
    ResponseTemplate::new(200).set_body_json(json!({
        "choices": [{ "index": 0, "finish_reason": "stop", "message": message }],
        "usage": { "prompt_tokens": 90, "completion_tokens": 10 },
    }))
}

fn calling() -> ResponseTemplate {
    let function = json!({ "name": "report", "arguments": "{\"ready\": true}" });
    let call = json!({ "id": "c", "type": "function", "function": function });
    reply(json!({ "role": "assistant", "content": null, "tool_calls": [call] }))
}

async fn examined(project: &Project, model: &MockServer, options: &[&str]) -> Ended {
    let mut command = project.program();
    command.env("ACQUIRE_MODEL__BASE_URL", model.uri()).env("ACQUIRE_MODEL__API_KEY", "sk-doctors-own-key");
    command.env("ACQUIRE_MODEL__RETRIES", "0").env("DOCKER_HOST", "unix:///nonexistent");
    project.end(command.arg("doctor").args(options)).await
}

fn states(ended: &Ended) -> Vec<(String, String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let all: Vec<Value> = serde_json::from_str(&ended.printed).unwrap();
    all.iter().map(|it| (text(&it["name"]), text(&it["state"]), text(&it["text"]))).collect()
}

#[tokio::test]
async fn what_is_ready_is_said_line_by_line_and_nothing_stays() {
    let (project, model) = (Project::new(), endpoint(calling()).await);
    let ended = examined(&project, &model, &["--sandbox", "namespaces"]).await;
    ended.assert_code(0);
    for name in ["settings", "cache", "runs", "sandbox", "privileges", "seccomp", "network", "quota", "model"]
    {
        let found = ended.printed.lines().any(|line| line.starts_with(&format!("ok    {name} ")));
        assert!(found, "{name}: {ended:?}");
    }
    assert!(ended.printed.contains("it calls tools") && ended.printed.ends_with("Ready.\n"), "{ended:?}");
    let asked = model.received_requests().await.unwrap();
    assert_eq!(asked.len(), 1, "roles that share a model are asked once");
    let left: Vec<_> =
        std::fs::read_dir(project.path("cache")).unwrap().map(|e| e.unwrap().file_name()).collect();
    for folder in left {
        let inside = std::fs::read_dir(project.path("cache").join(&folder)).map_or(0, Iterator::count);
        assert_eq!(inside, 0, "{folder:?} holds something");
    }
}

#[tokio::test]
async fn a_model_that_cannot_be_used_is_named_with_what_to_do() {
    let project = Project::new();
    let words = reply(json!({ "role": "assistant", "content": "I am ready." }));
    let refused =
        ResponseTemplate::new(401).set_body_json(json!({ "error": { "message": "bad sk-doctors-own-key" } }));
    for (answer, wanted) in [(words, "did not call the tool"), (refused, "refuses the key")] {
        let model = endpoint(answer).await;
        let ended = examined(&project, &model, &["--sandbox", "namespaces", "--json"]).await;
        ended.assert_code(1);
        let states = states(&ended);
        let (_, state, text) = states.iter().find(|(name, ..)| name == "model").unwrap();
        assert!(state == "failed" && text.contains(wanted), "{text}");
        assert!(!ended.printed.contains("sk-doctors-own-key") && !ended.told.contains("sk-doctors-own-key"));
    }
}

#[tokio::test]
async fn without_an_engine_docker_is_to_do_and_namespaces_are_noted() {
    let (project, model) = (Project::new(), endpoint(calling()).await);
    let state_of_engine =
        |ended: &Ended| states(ended).into_iter().find(|(name, ..)| name == "engine").unwrap().1;
    let ended = examined(&project, &model, &["--sandbox", "docker", "--no-model", "--json"]).await;
    ended.assert_code(1);
    assert_eq!(state_of_engine(&ended), "failed");
    let ended = examined(&project, &model, &["--no-model", "--json"]).await;
    ended.assert_code(0);
    assert_eq!(state_of_engine(&ended), "note");
    assert!(model.received_requests().await.unwrap().is_empty());
}

#[tokio::test]
async fn settings_that_cannot_be_read_are_the_only_finding() {
    let project = Project::new();
    let mut command = project.program();
    let ended = project.end(command.env("ACQUIRE_MODEL__RETRIES", "many").args(["doctor", "--json"])).await;
    ended.assert_code(1);
    let states = states(&ended);
    assert_eq!(states.len(), 1);
    assert!(states[0].0 == "settings" && states[0].2.contains("model.retries"), "{states:?}");
}

#[tokio::test]
async fn runs_are_not_ready_where_no_folder_can_be_made() {
    let project = Project::new();
    std::fs::write(project.path("file"), "").unwrap();
    std::os::unix::fs::symlink("/nonexistent/folder", project.path("link")).unwrap();
    for runs in ["file/runs", "file", "link", "link/runs", "/proc/runs"] {
        let mut command = project.program();
        command.env("ACQUIRE_PATHS__RUNS", runs).env("DOCKER_HOST", "unix:///nonexistent");
        let ended = project.end(command.args(["doctor", "--no-model", "--json"])).await;
        let states = states(ended.assert_code(1));
        let found = states.iter().find(|(name, ..)| name == "runs").unwrap();
        assert!(found.1 == "failed" && found.2.contains("[paths] runs"), "{runs}: {found:?}");
    }
    assert!(!project.path("file").is_dir() && project.path("link").symlink_metadata().is_ok());
}

#[tokio::test]
async fn a_folder_that_is_gone_is_told_by_every_command() {
    let project = Project::new();
    for arguments in [&["doctor"][..], &["solve", "--repo", ".", "--issue-file", "i"], &["demo"]] {
        let program = project.program();
        let mut command = tokio::process::Command::new("sh");
        command.arg("-c").arg(r#"mkdir gone && cd gone && rmdir ../gone && exec "$0" "$@""#);
        command.arg(program.as_std().get_program()).args(arguments).current_dir(project.path("."));
        let ended = project.end(&mut command).await;
        assert!(ended.assert_code(1).told.contains("the current folder cannot be found"), "{ended:?}");
    }
}
