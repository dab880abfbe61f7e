//! Exchanges with each provider, in the shape that its documentation gives them (`exchanges/*.json`, each of
//! which says where from): what we send, what comes back, and what goes back with the next request.

use std::{collections::BTreeMap, fs, path::Path};

use acquire::{
    domain::Tokens,
    method::ports::{ChatModel, ChatReply, Finish, Message},
    model::{ModelSettings, Protocol},
};
use serde::Deserialize;
use serde_json::Value;
use wiremock::ResponseTemplate;

use super::endpoint::{base_url, call_with, endpoint, model, request, settings};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Exchange {
    documented_shape: Source,
    protocol: String,
    model: String,
    /// One conversation.
    turns: Vec<Turn>,
    errors: Vec<Refusal>,
}

/// Where the shape is from.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Source {
    provider: String,
    pages: Vec<String>,
    note: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Turn {
    request: Value,
    response: Value,
    reply: Expected,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expected {
    text: Option<String>,
    calls: Vec<[String; 3]>,
    finish: Finish,
    /// Input, cached, output.
    tokens: [u64; 3],
    #[serde(default)]
    cache_written: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Refusal {
    status: u16,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    body: Value,
    class: String,
    says: String,
}

impl Exchange {
    fn read(name: &str) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/model/exchanges").join(name);
        let exchange: Self = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
        let Source { provider, pages, note } = &exchange.documented_shape;
        assert!(!provider.is_empty() && !pages.is_empty() && note.contains("not recorded"), "{name}");
        exchange
    }

    fn settings(&self, base_url: &str) -> ModelSettings {
        let protocol = Protocol::try_from(self.protocol.clone()).unwrap();
        ModelSettings { protocol, name: self.model.clone(), retries: 0, ..settings(base_url) }
    }
}

impl Refusal {
    fn answer(&self) -> ResponseTemplate {
        let plain = ResponseTemplate::new(self.status).set_body_json(&self.body);
        self.headers
            .iter()
            .fold(plain, |answer, (name, value)| answer.insert_header(name.as_str(), value.as_str()))
    }
}

fn assert_reply(reply: &ChatReply, expected: &Expected) {
    assert_eq!(reply.text, expected.text);
    let calls = reply.calls.iter().map(|c| [c.id.clone(), c.name.clone(), c.arguments.clone()]);
    assert_eq!(calls.collect::<Vec<_>>(), expected.calls);
    assert_eq!(reply.finish, expected.finish);
    let [input, cached, output] = expected.tokens;
    assert_eq!(
        (reply.tokens, reply.cache_written),
        (Tokens { input, cached, output }, expected.cache_written)
    );
    assert_eq!((&reply.notes, &reply.unreadable), (&Vec::<String>::new(), &None));
}

/// What the agent's loop makes of a reply.
fn continued(messages: &mut Vec<Message>, reply: ChatReply) {
    let ids: Vec<String> = reply.calls.iter().map(|call| call.id.clone()).collect();
    let said = Message::Assistant { content: reply.text, tool_calls: reply.calls, provider: reply.provider };
    // As a resumed run reads it back.
    messages.push(serde_json::from_value(serde_json::to_value(said).unwrap()).unwrap());
    if ids.is_empty() {
        messages.push(Message::User { content: "Go on.".into() });
    }
    messages
        .extend(ids.into_iter().map(|tool_call_id| Message::Tool { tool_call_id, content: "README".into() }));
}

async fn converse(name: &str) {
    let exchange = Exchange::read(name);
    let answers = exchange.turns.iter().map(|turn| ResponseTemplate::new(200).set_body_json(&turn.response));
    let server = endpoint(answers.collect()).await;
    let (model, _) = model(&exchange.settings(&base_url(&server)));
    let mut request = request();
    for (number, turn) in exchange.turns.iter().enumerate() {
        request.turn = number as u32 + 1;
        let reply = model.chat(&request).await.unwrap();
        let received = server.received_requests().await.unwrap().pop().unwrap();
        assert_eq!(received.body_json::<Value>().unwrap(), turn.request, "turn {}", request.turn);
        assert_reply(&reply, &turn.reply);
        continued(&mut request.messages, reply);
    }
}

async fn be_refused(name: &str) {
    let exchange = Exchange::read(name);
    for refusal in &exchange.errors {
        let outcome =
            call_with(vec![refusal.answer()], |settings| exchange.settings(&settings.base_url)).await;
        let error = outcome.error();
        assert_eq!(outcome.class(), refusal.class, "{error}");
        assert!(error.contains(&refusal.says), "{error}\n\ndoes not say: {}", refusal.says);
    }
}

macro_rules! providers {
    ($($name:ident),*) => {$(
        mod $name {
            #[tokio::test]
            async fn a_conversation_keeps_its_shape() {
                super::converse(concat!(stringify!($name), ".json")).await;
            }

            #[tokio::test]
            async fn errors_are_told_apart() {
                super::be_refused(concat!(stringify!($name), ".json")).await;
            }
        }
    )*};
}

providers!(anthropic, deepseek, gemini, ollama, openrouter, vllm);

/// A conversation that goes on with another model goes on without what only the first one can read.
#[tokio::test]
async fn another_model_is_not_sent_the_first_ones_state() {
    for name in ["anthropic.json", "deepseek.json", "gemini.json", "openrouter.json"] {
        let exchange = Exchange::read(name);
        let answer = |turn: usize| ResponseTemplate::new(200).set_body_json(&exchange.turns[turn].response);
        let server = endpoint(vec![answer(0), answer(1)]).await;
        let settings = exchange.settings(&base_url(&server));
        let mut request = request();
        let reply = model(&settings).0.chat(&request).await.unwrap();
        continued(&mut request.messages, reply);
        let other = ModelSettings { name: "other".into(), ..settings };
        model(&other).0.chat(&request).await.unwrap();
        let received = server.received_requests().await.unwrap().pop().unwrap();
        let sent = String::from_utf8(received.body).unwrap();
        for state in ["reasoning", "thinking", "signature", "extra_content"] {
            assert!(!sent.contains(state), "{name}: {sent}");
        }
    }
}
