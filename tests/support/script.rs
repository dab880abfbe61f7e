//! A chat model over HTTP whose replies a test scripts.
//!
//! It speaks the OpenAI wire format and holds no state: which reply comes next follows from the request
//! alone (the agent from the prompt, the turn from the assistant messages so far). So a resumed run gets
//! the replies that it would have got.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use serde_json::{Value, json};
use wiremock::{Mock, MockServer, Request, Respond, ResponseTemplate, matchers};

/// One reply of the model.
#[derive(Clone)]
pub enum Reply {
    Text(String),
    Calls(Vec<(String, String)>),
    /// Sent as it is.
    Http(ResponseTemplate),
    /// The same, later.
    After(Duration, Box<Reply>),
    /// Calls, cut off at the token limit.
    CutOff(Vec<(String, String)>),
    /// For one turn that is asked for again and again: in order, the last one from then on.
    Tries(Vec<Reply>),
}

/// An answer that is none: a status with a body.
pub fn http(status: u16, body: &str) -> Reply {
    Reply::Http(ResponseTemplate::new(status).set_body_raw(body, "application/json"))
}

/// Faults of the endpoint before the reply.
pub fn at_last(faults: impl IntoIterator<Item = Reply>, reply: Reply) -> Reply {
    Reply::Tries(faults.into_iter().chain([reply]).collect())
}

/// One call with its arguments as text.
pub fn call(tool: &str, arguments: &str) -> Reply {
    Reply::Calls(vec![(tool.into(), arguments.into())])
}

pub fn bash(command: &str) -> Reply {
    Reply::Calls(vec![("bash".into(), json!({ "command": command }).to_string())])
}

/// Several commands in one turn.
pub fn bashes(commands: &[&str]) -> Reply {
    Reply::Calls(commands.iter().map(|c| ("bash".into(), json!({ "command": c }).to_string())).collect())
}

pub fn submit(arguments: Value) -> Reply {
    Reply::Calls(vec![("submit".into(), arguments.to_string())])
}

pub fn text(text: &str) -> Reply {
    Reply::Text(text.into())
}

/// The Questioner's reply that asks these.
pub fn questions(asked: &[impl AsRef<str>]) -> Reply {
    text(&asks(asked).to_string())
}

/// What such a reply says.
pub fn asks(asked: &[impl AsRef<str>]) -> Value {
    let asked: Vec<Value> = asked
        .iter()
        .map(|q| {
            let why = "It decides where to repair.";
            json!({"category": "mechanism_behavior", "question": q.as_ref(), "why": why})
        })
        .collect();
    json!({ "questions": asked })
}

/// Replies by agent. When an agent's replies run out, its last one is repeated.
#[derive(Default, Clone)]
pub struct Script {
    pub questioner: Vec<Reply>,
    /// By a part of the question's text.
    pub answerers: HashMap<String, Vec<Reply>>,
    pub resolver: Vec<Reply>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Who {
    Questioner,
    /// With the question's key in the script.
    Answerer(String),
    Resolver,
}

/// A running endpoint.
pub struct Model {
    server: MockServer,
    seen: Arc<Mutex<Vec<(Who, Value)>>>,
}

impl Model {
    pub async fn start(script: Script) -> Self {
        let server = MockServer::start().await;
        let seen = Arc::new(Mutex::new(Vec::new()));
        let responder = Responder { script, seen: seen.clone() };
        Mock::given(matchers::method("POST"))
            .and(matchers::path("/v1/chat/completions"))
            .respond_with(responder)
            .mount(&server)
            .await;
        Self { server, seen }
    }

    pub fn base_url(&self) -> String {
        format!("{}/v1", self.server.uri())
    }

    /// Every request so far, in order.
    pub fn requests(&self) -> Vec<(Who, Value)> {
        self.seen.lock().unwrap().clone()
    }

    pub fn requests_of(&self, who: &Who) -> Vec<Value> {
        self.requests().into_iter().filter(|(w, _)| w == who).map(|(_, r)| r).collect()
    }
}

struct Responder {
    script: Script,
    seen: Arc<Mutex<Vec<(Who, Value)>>>,
}

/// All text of a request's messages.
pub fn all_text(request: &Value) -> String {
    request["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|m| m["content"].as_str().unwrap_or_default())
        .collect::<Vec<_>>()
        .join("\n")
}

impl Responder {
    fn who(&self, request: &Value) -> Who {
        let system = request["messages"][0]["content"].as_str().unwrap_or_default();
        let cites = if let Some(tools) = request.get("tools").and_then(Value::as_array) {
            let submit = tools.iter().find(|t| t["function"]["name"] == "submit").unwrap();
            submit["function"]["parameters"]["properties"].get("citations").is_some()
        } else if let Some((_, tools)) = system.split_once("How to call a tool") {
            tools.contains("\"citations\"")
        } else {
            return Who::Questioner;
        };
        if !cites {
            return Who::Resolver;
        }
        let task = request["messages"][1]["content"].as_str().unwrap();
        let key = self.script.answerers.keys().find(|k| task.contains(k.as_str()));
        Who::Answerer(key.unwrap_or_else(|| panic!("no answers are scripted for: {task}")).clone())
    }
}

impl Respond for Responder {
    fn respond(&self, request: &Request) -> ResponseTemplate {
        let request: Value = serde_json::from_slice(&request.body).unwrap();
        let who = self.who(&request);
        let turn = turn_of(&request);
        let replies = match &who {
            Who::Questioner => &self.script.questioner,
            Who::Answerer(key) => &self.script.answerers[key],
            Who::Resolver => &self.script.resolver,
        };
        let reply =
            replies.get(turn).or(replies.last()).unwrap_or_else(|| panic!("nothing is scripted for {who:?}"));
        let mut seen = self.seen.lock().unwrap();
        let tries = seen.iter().filter(|(w, r)| *w == who && turn_of(r) == turn).count();
        seen.push((who, request));
        template(reply, turn, tries)
    }
}

/// Counts from 0.
pub fn turn_of(request: &Value) -> usize {
    request["messages"].as_array().unwrap().iter().filter(|m| m["role"] == "assistant").count()
}

/// The reply as an endpoint sends it. `tries` is how often this turn was asked for before.
pub fn template(reply: &Reply, turn: usize, tries: usize) -> ResponseTemplate {
    match reply {
        Reply::Text(text) => completion(json!({"role": "assistant", "content": text}), "stop"),
        Reply::Calls(calls) => completion(calling(calls, turn), "tool_calls"),
        Reply::CutOff(calls) => completion(calling(calls, turn), "length"),
        Reply::Http(answer) => answer.clone(),
        Reply::After(delay, reply) => template(reply, turn, tries).set_delay(*delay),
        Reply::Tries(replies) => template(&replies[tries.min(replies.len() - 1)], turn, tries),
    }
}

fn calling(calls: &[(String, String)], turn: usize) -> Value {
    let calls: Vec<Value> = calls
        .iter()
        .enumerate()
        .map(|(n, (name, arguments))| {
            json!({"id": format!("call_{turn}_{n}"), "type": "function",
                   "function": {"name": name, "arguments": arguments}})
        })
        .collect();
    json!({"role": "assistant", "content": null, "tool_calls": calls})
}

fn completion(message: Value, finish: &str) -> ResponseTemplate {
    ResponseTemplate::new(200).set_body_json(json!({
        "id": "x", "object": "chat.completion", "created": 1, "model": "scripted",
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": {"prompt_tokens": 1000, "completion_tokens": 50, "total_tokens": 1050,
                  "prompt_tokens_details": {"cached_tokens": 400}},
    }))
}
