//! The body of a chat-completions request.
//!
//! What a model wrote earlier goes back to it as it came, with three exceptions: providers refuse a whole
//! conversation for a call whose arguments are no JSON object, whose tool's name has characters of other
//! kinds, or for an assistant message with nothing in it. Those travel in a form that is taken and still
//! shows what was written. The form depends on the message alone, so that a conversation's bytes only grow
//! and provider caches stay warm.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::{Value, json};

use super::dialect::{Dialect, TokenLimit};
use crate::method::ports::{ChatRequest, Message, ToolCall, ToolSpec};

/// What is sent beside the conversation: the request's own values with the settings' laid over.
#[derive(Debug, Clone, Copy)]
pub(super) struct Parameters {
    pub temperature: Option<f64>,
    pub max_tokens: u32,
}

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
pub(super) fn body(model: &str, request: &ChatRequest, parameters: Parameters, dialect: Dialect) -> Vec<u8> {
    let limit = |wanted| (dialect.limit == wanted).then_some(parameters.max_tokens);
    let schema = request.response_schema.as_ref().filter(|_| !dialect.schema_refused);
    let body = Body {
        model,
        messages: request.messages.iter().map(message).collect(),
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

fn message(message: &Message) -> WireMessage<'_> {
    match message {
        Message::System { content } => WireMessage::System { content },
        Message::User { content } => WireMessage::User { content },
        Message::Assistant { content, tool_calls } => {
            let content = content.as_deref().filter(|text| !text.is_empty());
            let content = if tool_calls.is_empty() { content.or(Some("(empty reply)")) } else { content };
            WireMessage::Assistant { content, tool_calls: tool_calls.iter().map(call).collect() }
        }
        Message::Tool { tool_call_id, content } => WireMessage::Tool { tool_call_id, content },
    }
}

fn call(call: &ToolCall) -> WireCall<'_> {
    let function = WireFunction { name: name(&call.name), arguments: arguments(&call.arguments) };
    WireCall { id: &call.id, r#type: "function", function }
}

fn name(name: &str) -> Cow<'_, str> {
    const LONGEST: usize = 64;
    let fine = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if name.is_empty() {
        return "unnamed".into();
    }
    if name.len() <= LONGEST && name.chars().all(fine) {
        return name.into();
    }
    name.chars().take(LONGEST).map(|c| if fine(c) { c } else { '_' }).collect::<String>().into()
}

fn arguments(written: &str) -> Cow<'_, str> {
    match serde_json::from_str::<Value>(written) {
        Ok(Value::Object(_)) => written.into(),
        _ if written.trim().is_empty() => "{}".into(),
        _ => json!({ "malformed_arguments": written }).to_string().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::AgentName;

    const PARAMETERS: Parameters = Parameters { temperature: Some(0.0), max_tokens: 100 };

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
        serde_json::from_slice(&body("m", &request, PARAMETERS, dialect)).unwrap()
    }

    fn assistant(content: Option<&str>, calls: &[(&str, &str)]) -> Message {
        let calls = calls.iter().enumerate().map(|(number, (name, arguments))| ToolCall {
            id: format!("c{number}"),
            name: (*name).into(),
            arguments: (*arguments).into(),
        });
        Message::Assistant { content: content.map(Into::into), tool_calls: calls.collect() }
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
}
