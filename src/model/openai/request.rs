//! The body of a chat-completions request.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{
    super::{
        dialect::{Dialect, Parameters, StandIn, TokenLimit},
        history::{self, EMPTY_REPLY},
        provider_state::Maker,
    },
    ONLY_WITH_CALLS,
};
use crate::method::ports::{ChatRequest, Message, ToolCall, ToolSpec};

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    messages: Vec<WireMessage<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<WireTool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_format: Option<Value>,
}

#[derive(Serialize)]
#[serde(tag = "role", rename_all = "snake_case")]
enum WireMessage<'a> {
    System {
        content: &'a str,
    },
    User {
        content: &'a str,
    },
    Assistant {
        content: Option<&'a str>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<WireCall<'a>>,
        #[serde(flatten)]
        provider: Map<String, Value>,
    },
    Tool {
        tool_call_id: &'a str,
        content: &'a str,
    },
}

#[derive(Serialize)]
struct WireCall<'a> {
    id: &'a str,
    r#type: &'static str,
    function: WireFunction<'a>,
    #[serde(flatten)]
    provider: Map<String, Value>,
}

#[derive(Serialize)]
struct WireFunction<'a> {
    name: Cow<'a, str>,
    arguments: Cow<'a, str>,
}

#[derive(Serialize)]
struct WireTool<'a> {
    r#type: &'static str,
    function: &'a ToolSpec,
}

/// The JSON text to send.
pub(in crate::model) fn body(
    model: &str,
    request: &ChatRequest,
    parameters: Parameters,
    dialect: Dialect,
    maker: &Maker,
) -> Vec<u8> {
    let limit = |wanted| (dialect.limit == wanted).then_some(parameters.max_tokens);
    let schema = request.response_schema.as_ref().filter(|_| !dialect.schema_refused);
    let body = Body {
        model,
        messages: request.messages.iter().map(|it| message(it, maker, dialect.stand_in)).collect(),
        tools: request.tools.iter().map(|tool| WireTool { r#type: "function", function: tool }).collect(),
        temperature: parameters.temperature.filter(|_| !dialect.temperature_refused),
        max_tokens: limit(TokenLimit::MaxTokens),
        max_completion_tokens: limit(TokenLimit::MaxCompletionTokens),
        response_format: schema.map(|(name, schema)| {
            json!({ "type": "json_schema", "json_schema": { "name": name, "schema": schema } })
        }),
    };
    serde_json::to_vec(&body).expect("strings, numbers and JSON values can always be written as JSON")
}

fn message<'a>(message: &'a Message, maker: &Maker, stand_in: Option<StandIn>) -> WireMessage<'a> {
    match message {
        Message::System { content } => WireMessage::System { content },
        Message::User { content } => WireMessage::User { content },
        Message::Assistant { content, tool_calls, provider } => {
            let content = content.as_deref().filter(|text| !text.is_empty());
            let content = if tool_calls.is_empty() { content.or(Some(EMPTY_REPLY)) } else { content };
            let mut provider = maker.open(provider.as_ref()).cloned().unwrap_or_default();
            if tool_calls.is_empty() {
                provider.retain(|name, _| !ONLY_WITH_CALLS.contains(&name.as_str()));
            }
            let mut tool_calls: Vec<_> = tool_calls.iter().map(|it| call(it, maker)).collect();
            if let Some(first) = tool_calls.first_mut() {
                match stand_in {
                    Some(StandIn::Reasoning)
                        if !ONLY_WITH_CALLS.iter().any(|name| provider.contains_key(*name)) =>
                    {
                        provider.insert("reasoning_content".to_owned(), "".into());
                    }
                    Some(StandIn::Signature) if first.provider.is_empty() => {
                        let signature =
                            json!({ "google": { "thought_signature": "skip_thought_signature_validator" } });
                        first.provider.insert("extra_content".to_owned(), signature);
                    }
                    _ => {}
                }
            }
            WireMessage::Assistant { content, tool_calls, provider }
        }
        Message::Tool { tool_call_id, content } => WireMessage::Tool { tool_call_id, content },
    }
}

fn call<'a>(call: &'a ToolCall, maker: &Maker) -> WireCall<'a> {
    WireCall {
        id: &call.id,
        r#type: "function",
        function: WireFunction {
            name: history::tool_name(&call.name),
            arguments: history::arguments(&call.arguments),
        },
        provider: maker.open(call.provider.as_ref()).cloned().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{domain::AgentName, model::Protocol};

    const PARAMETERS: Parameters = Parameters { temperature: Some(0.0), max_tokens: 100 };

    fn maker() -> Maker {
        Maker::new(Protocol::OpenAi, "http://127.0.0.1/v1", "m")
    }

    fn sent(messages: Vec<Message>, dialect: Dialect) -> Value {
        let request = ChatRequest {
            agent: AgentName::resolver(),
            turn: 1,
            messages,
            tools: vec![],
            temperature: Some(0.0),
            max_tokens: None,
            response_schema: Some(("questions".into(), json!({ "type": "object" }))),
            volatile: vec![],
        };
        serde_json::from_slice(&body("m", &request, PARAMETERS, dialect, &maker())).unwrap()
    }

    fn assistant(content: Option<&str>, calls: &[(&str, &str)]) -> Message {
        let calls = calls.iter().enumerate().map(|(number, (name, arguments))| ToolCall {
            id: format!("c{number}"),
            name: (*name).into(),
            arguments: (*arguments).into(),
            provider: None,
        });
        Message::Assistant { content: content.map(Into::into), tool_calls: calls.collect(), provider: None }
    }

    #[test]
    fn what_a_dialect_refuses_is_left_out() {
        let all = sent(vec![], Dialect::default());
        assert_eq!(
            all.as_object().unwrap().keys().collect::<Vec<_>>(),
            ["model", "messages", "temperature", "max_tokens", "response_format"]
        );
        let dialect = Dialect {
            temperature_refused: true,
            limit: TokenLimit::MaxCompletionTokens,
            schema_refused: true,
            ..Dialect::default()
        };
        assert_eq!(
            sent(vec![], dialect),
            json!({ "model": "m", "messages": [], "max_completion_tokens": 100 })
        );
        let dialect = Dialect { limit: TokenLimit::LeftOut, ..dialect };
        assert_eq!(sent(vec![], dialect), json!({ "model": "m", "messages": [] }));
    }

    #[test]
    fn a_well_formed_call_goes_back_as_it_came() {
        let arguments = r#"{ "command":"ls",  "n": 1.0 }"#;
        let sent = sent(vec![assistant(None, &[("bash", arguments)])], Dialect::default());
        assert_eq!(
            sent["messages"][0],
            json!({ "role": "assistant", "content": null, "tool_calls": [
                { "id": "c0", "type": "function", "function": { "name": "bash", "arguments": arguments } }
            ] })
        );
    }

    #[test]
    fn malformed_history_travels_in_a_form_that_providers_take() {
        let calls = [("bash", r#"{"command": "l"#), ("", ""), ("sub.mit!", "[1]"), (&"n".repeat(70), "null")];
        let sent = sent(vec![assistant(Some("x"), &calls), assistant(None, &[])], Dialect::default());
        let function = |number: usize| sent["messages"][0]["tool_calls"][number]["function"].clone();
        let malformed = |written: &str| json!({ "malformed_arguments": written }).to_string();
        assert_eq!(function(0), json!({ "name": "bash", "arguments": malformed(r#"{"command": "l"#) }));
        assert_eq!(function(1), json!({ "name": "unnamed", "arguments": "{}" }));
        assert_eq!(function(2), json!({ "name": "sub_mit_", "arguments": malformed("[1]") }));
        assert_eq!(function(3), json!({ "name": "n".repeat(64), "arguments": malformed("null") }));
        assert_eq!(sent["messages"][1], json!({ "role": "assistant", "content": "(empty reply)" }));
    }

    #[test]
    fn reasoning_goes_back_with_calls_only_and_to_its_maker_only() {
        let fields = |json: Value| json.as_object().cloned().unwrap();
        let state =
            |maker: &Maker| maker.seal(fields(json!({ "reasoning_content": "", "extra_content": 1 })));
        let sent_with = |call: bool, state: Option<Value>| {
            let calls: &[_] = if call { &[("bash", "{}")] } else { &[] };
            let Message::Assistant { content, mut tool_calls, .. } = assistant(Some("x"), calls) else {
                unreachable!("it is the assistant's")
            };
            for call in &mut tool_calls {
                call.provider = maker().seal(fields(json!({ "extra_content": "signed" })));
            }
            let message = Message::Assistant { content, tool_calls, provider: state };
            sent(vec![message], Dialect::default())["messages"][0].clone()
        };
        let with_call = sent_with(true, state(&maker()));
        assert_eq!((&with_call["reasoning_content"], &with_call["extra_content"]), (&json!(""), &json!(1)));
        assert_eq!(with_call["tool_calls"][0]["extra_content"], "signed");
        let without_call = json!({ "role": "assistant", "content": "x", "extra_content": 1 });
        assert_eq!(sent_with(false, state(&maker())), without_call);
        let others = state(&Maker::new(Protocol::OpenAi, "http://127.0.0.1/v1", "n"));
        assert_eq!(sent_with(false, others), json!({ "role": "assistant", "content": "x" }));
    }
}
