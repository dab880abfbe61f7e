//! Replies recorded from one run answer the same run again, and no other.

use std::{
    io::Write,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use acquire::{
    domain::{AgentName, Price},
    method::ports::{ChatModel, ChatRequest, Message},
    model::{Header, HttpModel, ModelSettings, Recorder, Recording, Redact, Replayer, Strictness},
};
use serde_json::{Value, json};
use wiremock::{Mock, MockServer, ResponseTemplate, matchers::any};

use super::endpoint::{base_url, completion, fine, model, request, settings};

fn header() -> Header {
    Header {
        recorded_with: "test-model".into(),
        at: "2026-11-30T10:00:00Z".parse().unwrap(),
        note: "typed in by a person".into(),
        price: Some(Price { input: 1.0, cached: 0.1, cache_write: None, output: 2.0 }),
    }
}

fn prompt(text: &str, volatile: &[&str]) -> ChatRequest {
    ChatRequest {
        messages: vec![Message::User { content: text.into() }],
        volatile: volatile.iter().map(|v| (*v).to_owned()).collect(),
        ..request()
    }
}

async fn chatty() -> (MockServer, Arc<HttpModel>) {
    let server = MockServer::start().await;
    Mock::given(any()).respond_with(fine()).mount(&server).await;
    let (model, _) = model(&settings(&base_url(&server)));
    (server, Arc::new(model))
}

/// Records one call of each request.
fn plain() -> Redact {
    Arc::new(str::to_owned)
}

fn recording(path: &Path) -> Recording {
    let mut options = std::fs::OpenOptions::new();
    let file = options.read(true).write(true).create(true).truncate(false).open(path).unwrap();
    Recording::on(file, path, &header()).unwrap()
}

fn replayed(path: &Path, strictness: Strictness) -> Replayer {
    Replayer::parse(path, &String::from_utf8_lossy(&std::fs::read(path).unwrap()), strictness).unwrap()
}

async fn record(path: &Path, requests: &[ChatRequest]) {
    let (_server, model) = chatty().await;
    let recorder = Recorder::new(model, Arc::new(recording(path)), plain());
    for request in requests {
        recorder.chat(request).await.unwrap();
    }
}

fn replayer(path: &Path) -> Replayer {
    replayed(path, Strictness::Strict)
}

/// What a replay refuses with, the file's folder taken off.
async fn refusal(path: &Path, request: &ChatRequest) -> String {
    let error = replayer(path).chat(request).await.unwrap_err();
    error.to_string().replace(&format!("{}/", path.parent().unwrap().display()), "")
}

#[tokio::test]
async fn what_was_recorded_is_replayed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("replies.jsonl");
    let (_server, model) = chatty().await;
    let recording = Arc::new(recording(&path));
    let recorder = Recorder::new(Arc::clone(&model) as Arc<dyn ChatModel>, recording, plain());
    assert_eq!((recorder.name(), recorder.price()), (model.name(), model.price()));
    let recorded = recorder.chat(&request()).await.unwrap();

    let replayer = replayer(&path);
    assert_eq!(replayer.chat(&request()).await.unwrap(), recorded);
    assert_eq!((replayer.name(), replayer.price()), ("test-model", header().price));
    assert_eq!(replayer.header(), Some(&header()));

    let text = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 2);
    assert_eq!(
        lines[1].as_object().unwrap().keys().collect::<Vec<_>>(),
        ["agent", "turn", "digest", "response"]
    );
}

#[tokio::test]
async fn a_changed_or_emptied_prompt_or_tool_cannot_pass() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("replies.jsonl");
    record(&path, &[prompt("Fix it.", &[])]).await;

    insta::assert_snapshot!(refusal(&path, &prompt("Fix it!", &[])).await, @"recorded replies: replies.jsonl: the reply for agent resolver, turn 1 was recorded for another request, which differs in its prompt. Record the run anew, or replay leniently");
    assert!(refusal(&path, &prompt("", &[])).await.contains("differs in its prompt"));
    let mut changed = prompt("Fix it.", &[]);
    changed.tools[0].parameters["properties"]["command"]["type"] = json!("array");
    insta::assert_snapshot!(refusal(&path, &changed).await, @"recorded replies: replies.jsonl: the reply for agent resolver, turn 1 was recorded for another request, which differs in its tools. Record the run anew, or replay leniently");
    let mut longer = prompt("Fix it.", &[]);
    longer.messages.push(Message::Assistant {
        content: Some("ok".into()),
        tool_calls: vec![],
        provider: None,
    });
    insta::assert_snapshot!(refusal(&path, &longer).await, @"recorded replies: replies.jsonl: the reply for agent resolver, turn 1 was recorded for another request, which differs in its roles. Record the run anew, or replay leniently");
    let other_turn = ChatRequest { turn: 2, ..prompt("Fix it.", &[]) };
    insta::assert_snapshot!(refusal(&path, &other_turn).await, @"recorded replies: replies.jsonl: there is no reply for agent resolver, turn 2 (1 of its turns are recorded). Record the run anew");
    let other_agent = ChatRequest { agent: AgentName::answerer(2), ..prompt("Fix it.", &[]) };
    insta::assert_snapshot!(refusal(&path, &other_agent).await, @"recorded replies: replies.jsonl: there is no reply for agent answerer-2, turn 1 (0 of its turns are recorded). Record the run anew");
}

#[tokio::test]
async fn volatile_parts_do_not_matter() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("replies.jsonl");
    record(&path, &[prompt("<fence-1a> on Debian 12", &["fence-1a", "Debian 12"])]).await;
    let elsewhere = prompt("<fence-2b> on Fedora", &["fence-2b", "Fedora"]);
    assert!(replayer(&path).chat(&elsewhere).await.is_ok());
    assert!(
        refusal(&path, &prompt("<fence-2b> on Fedora", &["fence-2b"]))
            .await
            .contains("differs in its prompt")
    );
}

#[tokio::test]
async fn a_lenient_replay_goes_on_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("replies.jsonl");
    record(&path, &[prompt("Fix it.", &[])]).await;
    let lenient = replayed(&path, Strictness::Lenient);
    let reply = lenient.chat(&prompt("Mend it.", &[])).await.unwrap();
    assert_eq!(reply.text.as_deref(), Some("done"));
    assert!(reply.notes[0].ends_with("which differs in its prompt"), "{:?}", reply.notes);
    assert!(lenient.chat(&prompt("Fix it.", &[])).await.unwrap().notes.is_empty());
    let past_the_end = lenient.chat(&ChatRequest { turn: 9, ..prompt("Fix it.", &[]) }).await.unwrap();
    assert_eq!(past_the_end.text.as_deref(), Some("done"));
    assert!(
        past_the_end.notes[0].ends_with("turn 9; that of turn 1 was taken again"),
        "{:?}",
        past_the_end.notes
    );
    let nobody = ChatRequest { agent: AgentName::answerer(7), ..prompt("Fix it.", &[]) };
    assert!(lenient.chat(&nobody).await.is_err());
}

#[tokio::test]
async fn agents_record_side_by_side_and_every_line_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("replies.jsonl");
    let (_server, model) = chatty().await;
    let recording = Arc::new(recording(&path));
    let agents = (1..=4).map(|number| {
        let recorder =
            Recorder::new(Arc::clone(&model) as Arc<dyn ChatModel>, Arc::clone(&recording), plain());
        tokio::spawn(async move {
            for turn in 1..=10 {
                let request = ChatRequest { agent: AgentName::answerer(number), turn, ..request() };
                recorder.chat(&request).await.unwrap();
            }
        })
    });
    for agent in agents.collect::<Vec<_>>() {
        agent.await.unwrap();
    }
    let replayer = replayer(&path);
    for number in 1..=4 {
        let last = ChatRequest { agent: AgentName::answerer(number), turn: 10, ..request() };
        assert!(replayer.chat(&last).await.is_ok());
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), 41);
}

#[tokio::test]
async fn a_resumed_run_continues_its_recording_and_the_last_line_of_a_turn_counts() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("replies.jsonl");
    record(&path, &[prompt("before", &[])]).await;
    // A kill in the middle of a line, and of a character.
    let mut file = std::fs::OpenOptions::new().append(true).open(&path).unwrap();
    file.write_all(b"{\"agent\": \"resolver\", \"turn\": 2, \"digest\": \"\xc3").unwrap();
    assert!(replayer(&path).chat(&prompt("before", &[])).await.is_ok());

    record(&path, &[prompt("after", &[])]).await;
    assert!(replayer(&path).chat(&prompt("after", &[])).await.is_ok());
    assert!(replayer(&path).chat(&prompt("before", &[])).await.is_err());
    assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), 3);
}

#[tokio::test]
async fn a_broken_recording_names_the_line() {
    let good = json!({ "agent": "resolver", "turn": 1, "digest": "x", "response": { "text": null, "calls": [],
        "finish": "stop", "tokens": { "input": 1, "cached": 0, "output": 1 } } });
    let parse = |text: &str| Replayer::parse(Path::new("replies.jsonl"), text, Strictness::Strict);
    // A header is not required, and blank lines mean nothing.
    assert_eq!(parse(&format!("{good}\n\n")).unwrap().name(), "recorded");
    let error = |text: String| parse(&text).unwrap_err().to_string();
    insta::assert_snapshot!(error(format!("{good}\n{{\"agent\": \n{good}\n")), @"recorded replies replies.jsonl: line 2 is no recorded reply: EOF while parsing a value at line 2 column 0");
    insta::assert_snapshot!(error(format!("{good}\n{{\"recorded_with\": \"m\"}}\n")), @"recorded replies replies.jsonl: line 2 is no recorded reply: missing field `agent`");
    insta::assert_snapshot!(error("{}\n".into()), @"recorded replies replies.jsonl: line 1 is no recorded reply: missing field `recorded_with`");
}

#[tokio::test]
async fn failed_calls_are_not_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("replies.jsonl");
    let server = MockServer::start().await;
    Mock::given(any()).respond_with(ResponseTemplate::new(404)).up_to_n_times(1).mount(&server).await;
    Mock::given(any())
        .respond_with(ResponseTemplate::new(200).set_body_json(completion("later")))
        .mount(&server)
        .await;
    let (model, _) = model(&ModelSettings { retries: 0, ..settings(&base_url(&server)) });
    let recorder = Recorder::new(Arc::new(model), Arc::new(recording(&path)), plain());
    assert!(recorder.chat(&request()).await.is_err());
    assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), 1);
    recorder.chat(&request()).await.unwrap();
    assert_eq!(replayer(&path).chat(&request()).await.unwrap().text.as_deref(), Some("later"));
}

#[tokio::test]
async fn a_replay_can_take_its_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("replies.jsonl");
    record(&path, &[request()]).await;
    let delay = Duration::from_millis(30);
    let slow = replayer(&path).with_delay(delay);
    let start = Instant::now();
    slow.chat(&request()).await.unwrap();
    assert!(start.elapsed() >= delay);
}
