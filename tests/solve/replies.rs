//! Replies that cannot be read: each kind is told apart, kept, paid, and answered with what to do.

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::{
    project::Project,
    script::{Model, Reply, Script, Who, bash, call, submit, text},
    story::{Q1, Q2, script},
};

fn submission() -> Value {
    json!({
        "answer": "`total` reads `item['price']` without a default [1].",
        "citations": [{"path": "store.py", "start": 17, "end": 18, "symbol": "total"}],
        "gaps": [],
    })
}

/// What the last request tells the model of its replies, from the first one on.
fn told(model: &Model, who: &Who) -> String {
    let request = model.requests_of(who).pop().unwrap();
    let told = request["messages"].as_array().unwrap().iter().skip(2).map(|message| {
        let (role, content) = (message["role"].as_str().unwrap(), message["content"].as_str());
        let calls = message["tool_calls"].as_array().into_iter().flatten();
        let calls: Vec<String> = calls.map(|call| call["function"]["arguments"].to_string()).collect();
        format!("{role}: {}{}", content.unwrap_or_default(), calls.join(" "))
    });
    told.collect::<Vec<_>>().join("\n")
}

/// How each turn of an agent ended, as its trajectory has it.
fn turns(project: &Project, agent: &str) -> Vec<String> {
    let trajectory = project.read(&format!("trajectories/{agent}.jsonl"));
    let turns = trajectory.lines().skip(1).map(|line| serde_json::from_str::<Value>(line).unwrap());
    turns.map(|turn| turn["format_error"].as_str().unwrap_or("fine").to_owned()).collect()
}

#[tokio::test]
async fn three_kinds_of_errors_have_three_messages_and_siblings_of_a_malformed_call_are_run() {
    let cut_off = Reply::CutOff(vec![("bash".into(), "{\"command\": \"cat > long.py <<'E'\\nimport".into())]);
    let siblings = Reply::Calls(vec![
        ("bash".into(), "{\"command\": \"grep".into()),
        ("bash".into(), json!({"command": "grep -c def store.py"}).to_string()),
        ("browse".into(), json!({"url": "https://example.com"}).to_string()),
        ("bash".into(), String::new()),
    ]);
    let mut careless = script();
    careless.answerers.insert(
        Q1.into(),
        vec![cut_off, text("I would look at store.py."), siblings, call("bash", "[1]"), submit(submission())],
    );
    careless.answerers.insert(
        Q2.into(),
        vec![bash("true"), text("Done."), call("submit", "{}"), call("finish", "{}"), bash("never run")],
    );
    let edit = json!({"command": "echo '# total' >> README.md"}).to_string();
    let end = json!({"summary": "Words.", "used_answers": [], "leave_out": []}).to_string();
    careless.resolver = vec![Reply::Calls(vec![
        ("bash".into(), edit.clone()),
        ("submit".into(), end),
        ("bash".into(), edit),
    ])];
    let project = Project::new();
    let model = Model::start(careless).await;
    project.end(project.acquire(&model).args(["--sandbox", "namespaces"])).await.assert_code(0);

    assert_eq!(turns(&project, "answerer-1"), ["truncated", "no_call", "fine", "malformed_call", "fine"]);
    assert_snapshot!(told(&model, &Who::Answerer(Q1.into())), @r#"
    assistant: "{\"malformed_arguments\":\"{\\\"command\\\": \\\"cat > long.py <<'E'\\\\nimport\"}"
    tool: Format error: your reply was cut off at the limit of 8192 tokens, so none of it was run. Reply again, shorter: less text, and smaller commands (write a long file in several steps).
    assistant: I would look at store.py.
    user: Format error: your reply called no tool. Every reply must call at least one of: bash, submit. If you are done, call `submit`.
    assistant: "{\"malformed_arguments\":\"{\\\"command\\\": \\\"grep\"}" "{\"command\":\"grep -c def store.py\"}" "{\"url\":\"https://example.com\"}" "{}"
    tool: Format error: the call of `bash` could not be read: the arguments are not valid JSON (EOF while parsing a string at line 1 column 17). This call was not run. Call it again with arguments that are one valid JSON object of the tool's schema.
    tool: [exit code 0]
    4
    tool: Format error: there is no tool `browse`, so this call was not run. The tools are: bash, submit.
    tool: Format error: the call of `bash` could not be read: it has no arguments. This call was not run. Call it again with arguments that are one valid JSON object of the tool's schema.
    assistant: "{\"malformed_arguments\":\"[1]\"}"
    tool: Format error: the call of `bash` could not be read: the arguments are not a JSON object. This call was not run. Call it again with arguments that are one valid JSON object of the tool's schema.
    "#);

    // Three in a row end an agent, and no sibling, and no run.
    assert_eq!(turns(&project, "answerer-2"), ["fine", "no_call", "malformed_call", "malformed_call"]);
    assert_snapshot!(told(&model, &Who::Answerer(Q2.into())), @r#"
    assistant: "{\"command\":\"true\"}"
    tool: [exit code 0]
    (no output)
    assistant: Done.
    user: Format error: your reply called no tool. Every reply must call at least one of: bash, submit. If you are done, call `submit`.
    assistant: "{}"
    tool: Format error: the call of `submit` could not be read: missing field `answer`. This call was not run. Call it again with arguments that are one valid JSON object of the tool's schema.
    "#);
    let run = project.run_json();
    let answerers = &run["stages"][2]["agents"];
    assert_eq!((&answerers[0]["exit"], &answerers[0]["steps"]), (&json!("submitted"), &json!(5)));
    assert_eq!((&answerers[1]["exit"], &answerers[1]["steps"]), (&json!("format_errors"), &json!(4)));
    assert_eq!(answerers[1]["tokens"]["output"], 200, "what cannot be read is paid all the same");
    let knowledge = project.knowledge();
    assert_eq!(knowledge["pairs"][0]["answer"]["citations"][0]["check"], "verified");
    assert_eq!(knowledge["pairs"][1]["answer"]["status"], "failed");
    assert!(project.read("comment.md").contains("No answer: the search ended without one."));

    // A submission after other calls ends the turn there.
    assert_eq!(run["stages"][3]["agents"][0]["steps"], 1);
    let patch = project.read("patch.diff");
    assert_eq!(patch.matches("+# total").count(), 1, "{patch}");
}

#[tokio::test]
async fn a_resolver_that_never_calls_anything_is_ended_and_the_knowledge_stays() {
    let project = Project::new();
    let model = Model::start(Script { resolver: vec![text("I am done.")], ..script() }).await;
    let ended = project.end(project.acquire(&model).args(["--sandbox", "namespaces"])).await;
    ended.assert_code(0);
    let run = project.run_json();
    assert_eq!(run["outcome"], "no_patch");
    assert_eq!(run["stages"][3]["agents"][0]["exit"], "format_errors");
    assert_eq!(model.requests_of(&Who::Resolver).len(), 3);
    assert_snapshot!(project.read("pull-request.md"), @"
    No patch: total fails on an item without a price

    **No patch.** A limit on steps, money or time, or replies that could not be read, ended the agent before it submitted. By then it had changed nothing.
    ");
    assert_eq!(project.knowledge()["pairs"].as_array().unwrap().len(), 2);
}
