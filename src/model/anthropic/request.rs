//! The body of a request to Anthropic's messages, with cache marks.
//!
//! The API reads a prompt's beginning from its cache up to a block that carries a mark, and writes it up to
//! there. Three of the four marks that a request may have are set: behind the system message (and with it the
//! tools, which come first), behind the newest user message, and behind the one before it, where the last
//! request has written. The marks move on; every other byte of the conversation stays, so each request reads
//! what the last one wrote.

use serde_json::{Map, Value, json};

use super::{
    super::{
        dialect::{Dialect, Parameters},
        history::{self, EMPTY_REPLY},
        provider_state::Maker,
    },
    CONTENT,
};
use crate::method::ports::{ChatRequest, Message, ToolCall};

/// User messages that carry a mark, from the newest backwards.
const MARKED_MESSAGES: usize = 2;

/// The JSON text to send.
pub(in crate::model) fn body(
    model: &str,
    request: &ChatRequest,
    parameters: Parameters,
    dialect: Dialect,
    maker: &Maker,
) -> Vec<u8> {
    let most = dialect.most_tokens.unwrap_or(u32::MAX);
    let mut body = Map::from_iter([
        ("model".to_owned(), Value::from(model)),
        ("max_tokens".to_owned(), Value::from(parameters.max_tokens.min(most))),
    ]);
    if let Some(temperature) = parameters.temperature.filter(|_| !dialect.temperature_refused) {
        body.insert("temperature".to_owned(), temperature.into());
    }
    let mut tools: Vec<Value> = request
        .tools
        .iter()
        .map(|tool| {
            json!({ "name": tool.name, "description": tool.description, "input_schema": tool.parameters })
        })
        .collect();
    let opening = request.messages.iter().take_while(|m| matches!(m, Message::System { .. })).count();
    let (system, conversation) = request.messages.split_at(opening);
    let mut system: Vec<Value> = system.iter().filter_map(instruction).collect();
    mark(system.last_mut().or(tools.last_mut()));
    let mut messages = messages(conversation, maker);
    let users = messages.iter_mut().rev().filter(|message| message.role == "user");
    users.take(MARKED_MESSAGES).for_each(|message| mark(message.content.last_mut()));

    if !tools.is_empty() {
        body.insert("tools".to_owned(), tools.into());
    }
    if !system.is_empty() {
        body.insert("system".to_owned(), system.into());
    }
    let messages = messages.into_iter().map(|m| json!({ "role": m.role, "content": m.content }));
    body.insert("messages".to_owned(), messages.collect());
    Value::Object(body).to_string().into_bytes()
}

/// A system message, unless it is empty.
fn instruction(message: &Message) -> Option<Value> {
    match message {
        Message::System { content } if !content.trim().is_empty() => Some(text(content)),
        _ => None,
    }
}

struct Wire {
    role: &'static str,
    content: Vec<Value>,
}

/// The conversation, in which user and assistant take turns: what comes from our side in a row is one message,
/// results of calls first.
fn messages(conversation: &[Message], maker: &Maker) -> Vec<Wire> {
    let mut all: Vec<Wire> = Vec::new();
    for message in conversation {
        let (role, content) = match message {
            Message::System { content } | Message::User { content } => ("user", vec![text(content)]),
            Message::Tool { tool_call_id, content } => ("user", vec![result(tool_call_id, content)]),
            Message::Assistant { content, tool_calls, provider } => {
                ("assistant", said(content.as_deref(), tool_calls, provider.as_ref(), maker))
            }
        };
        match all.last_mut() {
            Some(last) if last.role == role => last.content.extend(content),
            _ => all.push(Wire { role, content }),
        }
    }
    for message in &mut all {
        if message.role == "user" {
            // Stable: the order within each kind stays.
            message.content.sort_by_key(|block| block["type"] != "tool_result");
        }
    }
    all
}

/// What the model wrote. With thinking among it, the blocks go back as they came.
fn said(content: Option<&str>, calls: &[ToolCall], state: Option<&Value>, maker: &Maker) -> Vec<Value> {
    let as_it_came = maker.open(state).and_then(|fields| fields.get(CONTENT)?.as_array());
    if let Some(blocks) = as_it_came {
        return blocks.clone();
    }
    let content = content.filter(|text| !text.trim().is_empty());
    let content = if calls.is_empty() { content.or(Some(EMPTY_REPLY)) } else { content };
    let calls = calls.iter().map(|call| {
        json!({
            "type": "tool_use",
            "id": history::plain_id(&call.id),
            "name": history::tool_name(&call.name),
            "input": history::arguments_value(&call.arguments),
        })
    });
    content.map(text).into_iter().chain(calls).collect()
}

/// Text with nothing in it is refused.
fn text(content: &str) -> Value {
    let content = if content.trim().is_empty() { "(empty)" } else { content };
    json!({ "type": "text", "text": content })
}

fn result(id: &str, content: &str) -> Value {
    json!({ "type": "tool_result", "tool_use_id": history::plain_id(id), "content": [text(content)] })
}

fn mark(block: Option<&mut Value>) {
    if let Some(Value::Object(block)) = block {
        block.insert("cache_control".to_owned(), json!({ "type": "ephemeral" }));
    }
}
