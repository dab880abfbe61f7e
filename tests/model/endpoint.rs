//! A model's endpoint on loopback, and a clock that never makes a test wait.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use acquire::{
    domain::AgentName,
    method::ports::{ChatModel, ChatReply, ChatRequest, Message, ModelError, ToolSpec},
    model::{HttpModel, ModelSettings, Timer},
};
use futures_util::future::{BoxFuture, ready};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};
use wiremock::{
    Match, Mock, MockServer, Request, ResponseTemplate,
    matchers::{method, path_regex},
};

/// Notes the pauses that were asked for instead of making them.
#[derive(Default)]
pub struct Pauses(Mutex<Vec<Duration>>);

impl Pauses {
    pub fn seconds(&self) -> Vec<f64> {
        self.0.lock().unwrap().iter().map(Duration::as_secs_f64).collect()
    }
}

impl Timer for Pauses {
    fn now(&self) -> jiff::Timestamp {
        "2026-11-30T10:00:00Z".parse().unwrap()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        self.0.lock().unwrap().push(duration);
        Box::pin(ready(()))
    }
}

/// Settings as the environment alone gives them: base URL and name.
pub fn settings(base_url: &str) -> ModelSettings {
    ModelSettings { base_url: base_url.to_owned(), name: "test-model".into(), ..ModelSettings::default() }
}

pub fn model(settings: &ModelSettings) -> (HttpModel, Arc<Pauses>) {
    let pauses = Arc::new(Pauses::default());
    let model = HttpModel::new(settings, |_| None).unwrap();
    (model.with_timer(Arc::clone(&pauses) as Arc<dyn Timer>), pauses)
}

/// An endpoint that gives these answers in order, then 500.
pub async fn endpoint(answers: Vec<ResponseTemplate>) -> MockServer {
    let server = MockServer::start().await;
    for answer in answers {
        Mock::given(method("POST"))
            .and(path_regex("^/v1/(chat/completions|messages)/?$"))
            .respond_with(answer)
            .up_to_n_times(1)
            .mount(&server)
            .await;
    }
    Mock::given(wiremock::matchers::any())
        .respond_with(ResponseTemplate::new(500).set_body_string("the test gave no further answer"))
        .mount(&server)
        .await;
    server
}

pub fn base_url(server: &MockServer) -> String {
    format!("{}/v1", server.uri())
}

/// What came of one call, with the endpoint's address made the same in every run.
pub struct Outcome {
    pub result: Result<ChatReply, ModelError>,
    /// How many requests the endpoint got.
    pub requests: usize,
    pub pauses: Vec<f64>,
    address: String,
}

impl Outcome {
    pub fn error(&self) -> String {
        self.result.as_ref().unwrap_err().to_string().replace(&self.address, "http://endpoint")
    }

    pub fn class(&self) -> &'static str {
        self.result.as_ref().unwrap_err().class()
    }
}

/// One call to an endpoint that gives these answers.
pub async fn call(answers: Vec<ResponseTemplate>) -> Outcome {
    call_with(answers, |settings| settings).await
}

pub async fn call_with(
    answers: Vec<ResponseTemplate>,
    change: impl FnOnce(ModelSettings) -> ModelSettings,
) -> Outcome {
    let server = endpoint(answers).await;
    let (model, pauses) = model(&change(settings(&base_url(&server))));
    let result = model.chat(&request()).await;
    let requests = server.received_requests().await.unwrap().len();
    Outcome { result, requests, pauses: pauses.seconds(), address: server.uri() }
}

pub fn request() -> ChatRequest {
    ChatRequest {
        agent: AgentName::resolver(),
        turn: 1,
        messages: vec![
            Message::System { content: "You repair code.".into() },
            Message::User { content: "Fix it.".into() },
        ],
        tools: vec![ToolSpec {
            name: "bash".into(),
            description: "Runs a command.".into(),
            parameters: json!({ "type": "object", "properties": { "command": { "type": "string" } } }),
        }],
        temperature: Some(0.0),
        max_tokens: None,
        response_schema: None,
        volatile: vec![],
    }
}

pub fn completion(text: &str) -> Value {
    json!({
        "id": "chatcmpl-1", "object": "chat.completion", "model": "test-model",
        "choices": [{ "index": 0, "message": { "role": "assistant", "content": text }, "finish_reason": "stop" }],
        "usage": { "prompt_tokens": 20, "completion_tokens": 3, "total_tokens": 23 },
    })
}

pub fn fine() -> ResponseTemplate {
    ResponseTemplate::new(200).set_body_json(completion("done"))
}

pub fn error(status: u16, message: &str) -> ResponseTemplate {
    ResponseTemplate::new(status).set_body_json(json!({ "error": { "message": message } }))
}

/// Matches requests whose JSON body has this key.
pub struct Sends(pub &'static str);

impl Match for Sends {
    fn matches(&self, request: &Request) -> bool {
        serde_json::from_slice::<Value>(&request.body).is_ok_and(|body| body.get(self.0).is_some())
    }
}

/// Bytes as they are, to one connection after another; then each is closed. Returns the base URL.
pub async fn raw(answer: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut connection, _)) = listener.accept().await {
            let mut asked = Vec::new();
            // The request is read whole, so that closing does not reset the connection before the answer is read.
            while !ended(&asked) {
                let mut part = [0; 4096];
                match connection.read(&mut part).await {
                    Ok(0) | Err(_) => break,
                    Ok(n) => asked.extend_from_slice(&part[..n]),
                }
            }
            let _ = connection.write_all(answer).await;
            let _ = connection.shutdown().await;
        }
    });
    format!("http://{address}/v1")
}

fn ended(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length =
        head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
    body.len() >= length.unwrap_or(0)
}
