//! A model's endpoint that fails in the middle of a run.

use std::time::Duration;

use insta::assert_snapshot;
use serde_json::json;
use tokio::process::Command;
use wiremock::ResponseTemplate;

use crate::{
    project::Project,
    script::{Model, Reply, Script, Who, at_last, bash, http, questions, submit, text},
    story::{Q1, Q2, script},
};

const PAGE: &str = "<!DOCTYPE html><html><head><title>502 Bad Gateway</title></head><body></body></html>";

fn limited(header: &str, wait: &str) -> Reply {
    let answer = ResponseTemplate::new(429).set_body_json(json!({"error": {"message": "Slow down."}}));
    Reply::Http(answer.insert_header(header, wait))
}

fn cut_off() -> Reply {
    http(200, "{\"choices\": [{\"message\": {\"role\": \"assi")
}

fn slow(reply: Reply) -> Reply {
    Reply::After(Duration::from_secs(60), Box::new(reply))
}

fn name(who: &Who) -> &'static str {
    match who {
        Who::Questioner => "questioner",
        Who::Answerer(question) if question == Q1 => "answerer-1",
        Who::Answerer(_) => "answerer-2",
        Who::Resolver => "resolver",
    }
}

fn namespaces(command: &mut Command) -> &mut Command {
    command.args(["--sandbox", "namespaces"])
}

#[tokio::test]
async fn what_passes_is_outlived_at_every_agent() {
    let mut shaky = script();
    let faults = |replies: &mut Vec<Reply>, faults: [Vec<Reply>; 2]| {
        for (reply, faults) in replies.iter_mut().zip(faults) {
            *reply = at_last(faults, reply.clone());
        }
    };
    faults(&mut shaky.questioner, [vec![limited("retry-after-ms", "30"), http(500, "oops")], vec![]]);
    let [one, two] = [Q1, Q2].map(|question| shaky.answerers.remove(question).unwrap());
    let (mut one, mut two) = (one, two);
    let error = json!({"error": {"message": "The upstream had a hiccup."}}).to_string();
    faults(&mut one, [vec![http(200, PAGE), http(503, "")], vec![http(200, "{\"choices\": []}")]]);
    faults(&mut two, [vec![http(200, &error), limited("x-other", "")], vec![cut_off()]]);
    shaky.answerers = [(Q1.to_owned(), one), (Q2.to_owned(), two)].into();
    let resolver = shaky.resolver.clone();
    faults(&mut shaky.resolver, [vec![slow(resolver[0].clone())], vec![http(529, "")]]);

    let project = Project::new();
    let model = Model::start(shaky).await;
    let mut command = project.acquire(&model);
    command.env("ACQUIRE_MODEL__RETRIES", "2").env("ACQUIRE_MODEL__TIMEOUT_SECONDS", "1");
    project.end(namespaces(&mut command)).await.assert_code(0);

    let run = project.run_json();
    assert_eq!(run["outcome"], "patch");
    let mut agents = Vec::new();
    for agent in run["stages"].as_array().unwrap().iter().flat_map(|s| s["agents"].as_array().unwrap()) {
        agents.push(format!("{} {} {}", agent["name"], agent["steps"], agent["tokens"]["input"]));
    }
    // A failed try is no step, and nothing is known to have been paid for it.
    assert_snapshot!(agents.join("\n"), @r#"
    "questioner" 1 1000
    "answerer-1" 2 2000
    "answerer-2" 2 2000
    "resolver" 2 2000
    "#);
    for (who, tries) in [
        (Who::Questioner, 3),
        (Who::Answerer(Q1.into()), 5),
        (Who::Answerer(Q2.into()), 5),
        (Who::Resolver, 4),
    ] {
        assert_eq!(model.requests_of(&who).len(), tries, "{who:?}");
    }
}

/// One run that meets fault after fault, each time going on where the one before had ended it.
#[tokio::test]
async fn what_does_not_pass_ends_the_run_which_goes_on_later() {
    let refused_key = || http(401, &json!({"error": {"message": "Incorrect API key."}}).to_string());
    let error = || http(200, &json!({"error": {"message": "The upstream had a hiccup."}}).to_string());
    let first = || Who::Answerer(Q1.into());
    // The agent, its turn, and the fault there. While the first Answerer fails, the second one finishes.
    let faults = [
        (Who::Questioner, 0, refused_key()),
        (Who::Questioner, 0, http(404, &json!({"error": "no such model"}).to_string())),
        (Who::Questioner, 0, http(200, PAGE)),
        (first(), 0, http(500, "oops")),
        (first(), 1, error()),
        (first(), 1, http(200, "{\"choices\": []}")),
        (first(), 1, cut_off()),
        (Who::Resolver, 0, slow(text("late"))),
        (Who::Resolver, 1, refused_key()),
    ];
    let project = Project::new();
    let mut told = Vec::new();
    let mut paid = 0;
    for (who, turn, fault) in faults {
        let mut broken = script();
        let replies = match &who {
            Who::Questioner => &mut broken.questioner,
            Who::Answerer(question) => broken.answerers.get_mut(question).unwrap(),
            Who::Resolver => &mut broken.resolver,
        };
        replies[turn] = fault;
        let model = Model::start(broken).await;
        let ended = project.end(&mut go_on(&project, &model)).await;
        ended.assert_code(1);
        let run = project.run_json();
        assert_eq!(run["outcome"], "failed");
        let error = &run["error"];
        let (class, message) = (error["class"].as_str().unwrap(), error["message"].as_str().unwrap());
        let message = message.replace(&model.base_url(), "http://endpoint/v1");
        told.push(format!("{} {}: {class}: {message}", name(&who), turn + 1));
        assert!(ended.told.contains("acquire solve --resume DIR/out"), "{}", ended.told);
        paid += model.requests().len();
    }
    assert_snapshot!(told.join("\n"), @r#"
    questioner 1: model_unauthorized: the model endpoint http://endpoint/v1 refuses the key (401): Incorrect API key. Check the key that `[model] api_key_env` names, or ACQUIRE_MODEL__API_KEY
    questioner 1: model_refused: the model endpoint http://endpoint/v1 refuses the request (404): no such model. Check `[model] name`, and `base_url`, which usually ends in /v1
    questioner 1: model_not_a_reply: the model endpoint http://endpoint/v1 answered with something that is no chat completion (1 try): an HTML page: 502 Bad Gateway. Check that `[model] base_url` is right, or try again later
    answerer-1 1: model_unavailable: the model endpoint http://endpoint/v1 still answers 500 after 1 try: text: oops. Try again later
    answerer-1 2: model_not_a_reply: the model endpoint http://endpoint/v1 answered with something that is no chat completion (1 try): an error in its place: The upstream had a hiccup. Try again later
    answerer-1 2: model_not_a_reply: the model endpoint http://endpoint/v1 answered with something that is no chat completion (1 try): `choices` is empty. Check that `[model] base_url` is right, or try again later
    answerer-1 2: model_not_a_reply: the model endpoint http://endpoint/v1 answered with something that is no chat completion (1 try): JSON that is cut off or broken after 39 bytes: {"choices": [{"message": {"role": "assi. Check that `[model] base_url` is right, or try again later
    resolver 1: model_timeout: the model endpoint http://endpoint/v1 gave no whole answer within 1 s (1 try). Raise `[model] timeout_seconds`, or take a faster model
    resolver 2: model_unauthorized: the model endpoint http://endpoint/v1 refuses the key (401): Incorrect API key. Check the key that `[model] api_key_env` names, or ACQUIRE_MODEL__API_KEY
    "#);

    // The last fault met the Resolver after its first edit, which is kept.
    let model = Model::start(script()).await;
    project.end(&mut go_on(&project, &model)).await.assert_code(0);
    let last = model.requests();
    assert_eq!(last.len(), 1, "only the call that failed is made again");
    assert_eq!(last[0].0, Who::Resolver);
    assert_eq!(project.run_json()["outcome"], "patch");
    assert!(project.read("patch.diff").contains("+    return sum(item.get('price', 0) for item in items)"));
    // Each of the 7 replies was got once; every other call was one of the faults.
    assert_eq!(paid + last.len(), 7 + told.len());
}

/// Begins the run, or goes on with it.
fn go_on(project: &Project, model: &Model) -> Command {
    let mut command = if project.path("out").exists() {
        project.resume(model)
    } else {
        let mut command = project.acquire(model);
        namespaces(&mut command);
        command
    };
    command.env("ACQUIRE_MODEL__RETRIES", "0").env("ACQUIRE_MODEL__TIMEOUT_SECONDS", "1");
    command
}

#[tokio::test]
async fn a_wait_that_is_too_long_is_told_instead_of_made() {
    let project = Project::new();
    let busy = Script { questioner: vec![limited("retry-after", "86400")], ..script() };
    let model = Model::start(busy).await;
    let ended = project.end(go_on(&project, &model).env("ACQUIRE_MODEL__RETRIES", "5")).await;
    assert_eq!(model.requests().len(), 1);
    let message = ended.assert_code(1).line("Failed").replace(&model.base_url(), "http://endpoint/v1");
    assert_snapshot!(message, @"Failed (model_unavailable): the model endpoint http://endpoint/v1 still answers 429 after 1 try: Slow down. It asks to wait 86400 s, which is longer than a call waits. Try again then");
}

#[tokio::test]
async fn a_resolver_whose_model_failed_goes_on_with_all_its_edits() {
    let mut steady = script();
    steady.resolver = vec![
        bash("echo one >> notes.txt"),
        bash("echo two >> notes.txt"),
        bash("echo three >> notes.txt"),
        submit(json!({"summary": "Notes.", "used_answers": [], "leave_out": []})),
    ];
    let mut broken = steady.clone();
    broken.resolver[3] = http(401, "");
    let project = Project::new();
    project.end(&mut go_on(&project, &Model::start(broken).await)).await.assert_code(1);
    let model = Model::start(steady).await;
    let mut command = project.program();
    command.env("ACQUIRE_MODEL__BASE_URL", model.base_url()).args(["solve", "--json", "--resume", "out"]);
    let ended = project.end(&mut command).await;
    ended.assert_code(0);
    assert_eq!(model.requests().len(), 1, "turns that were paid are not made again");
    let apply = "git -C DIR/repo apply DIR/out/patch.diff";
    assert!(ended.told.contains(apply), "from wherever it is typed: {}", ended.told);
    assert!(project.read("patch.diff").contains("+one\n+two\n+three\n"));
}

#[tokio::test]
async fn an_endpoint_that_is_down_is_named_by_the_role_that_asks_it() {
    let project = Project::new();
    let model = Model::start(script()).await;
    let mut command = project.acquire(&model);
    command
        .env("ACQUIRE_MODEL__RETRIES", "1")
        .env("ACQUIRE_MODEL__RESOLVER__BASE_URL", "http://127.0.0.1:1/v1");
    let ended = project.end(namespaces(&mut command)).await;
    assert_snapshot!(ended.assert_code(1).line("Failed"), @"Failed (model_unreachable): the model endpoint http://127.0.0.1:1/v1 cannot be reached: Connection refused (os error 111). Check `[model] base_url` and that the server runs");
    assert!(project.path("out/comment.md").exists(), "what was learned is kept");
    let knowledge = project.read("knowledge.json");

    project.end(&mut project.resume(&model)).await.assert_code(0);
    assert_eq!(model.requests().len(), 7);
    assert_eq!(
        (&project.run_json()["outcome"], project.read("knowledge.json")),
        (&json!("patch"), knowledge)
    );
}

#[tokio::test]
async fn a_refused_temperature_is_left_out_and_said() {
    let refusal = "Unsupported value: 'temperature' does not support 0.7 with this model.";
    let mut particular = script();
    let refused = http(400, &json!({"error": {"message": refusal, "param": "temperature"}}).to_string());
    particular.questioner = vec![at_last([refused], questions(&[Q1, Q2]))];
    let project = Project::new();
    let model = Model::start(particular).await;
    project.end(namespaces(&mut project.acquire(&model))).await.assert_code(0);
    let requests = model.requests();
    assert_eq!(requests[0].1["temperature"], 0.7);
    assert!(
        requests[1..].iter().all(|(_, request)| request.get("temperature").is_none()),
        "it is remembered"
    );
    let notes = project.run_json()["notes"].clone();
    assert_snapshot!(notes[1].as_str().unwrap(), @"questioner: the provider refused `temperature`: its default applies");
}
