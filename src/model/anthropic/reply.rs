//! Reads a message of Anthropic's API, as leniently as an agent needs it.

use serde_json::{Map, Value};

use super::{
    super::{
        failure::{Failure, ProviderError},
        history::CallIds,
        http::describe,
        provider_state::Maker,
        usage::{count, estimated},
    },
    CONTENT,
};
use crate::{
    domain::Tokens,
    method::ports::{ChatReply, ChatRequest, Finish, ToolCall},
};

/// Reads the body of an answer with status 200.
pub(in crate::model) fn parse(
    body: &[u8],
    request: &ChatRequest,
    maker: &Maker,
) -> Result<ChatReply, Failure> {
    let not_a_reply = |what: String| Failure::NotAReply { what, again: true };
    let value: Value = serde_json::from_slice(body).map_err(|_| not_a_reply(describe(body)))?;
    let Some(content) = value.get("content").and_then(Value::as_array) else {
        return Err(match ProviderError::from_json(200, &value) {
            Some(error) => Failure::Provider(error),
            None => not_a_reply(format!("JSON without `content`: {value}")),
        });
    };
    let texts: Vec<&str> = content
        .iter()
        .filter(|block| is(block, "text"))
        .filter_map(|block| block.get("text")?.as_str())
        .collect();
    let text = (!texts.is_empty()).then(|| texts.concat());
    let mut ids = CallIds::of_turn(request.turn);
    let calls: Vec<ToolCall> =
        content.iter().filter(|block| is(block, "tool_use")).map(|block| call(block, &mut ids)).collect();
    let finish = match value.get("stop_reason").and_then(Value::as_str) {
        Some("end_turn" | "stop_sequence") => Finish::Stop,
        Some("tool_use") => Finish::ToolCalls,
        Some("max_tokens" | "model_context_window_exceeded") => Finish::Length,
        // `refusal`, and `pause_turn` of tools that run at the provider, which we offer none of.
        Some(_) => Finish::Other,
        None if calls.is_empty() => Finish::Stop,
        None => Finish::ToolCalls,
    };
    let mut notes = Vec::new();
    let usage = value.get("usage");
    let (tokens, cache_written) = usage.and_then(counted).unwrap_or_else(|| {
        notes.push("the provider counted no tokens: estimated as a quarter of the characters".to_owned());
        (estimated(request, text.as_deref(), &calls), 0)
    });
    let provider = maker.seal(state(content, &calls));
    Ok(ChatReply { text, calls, finish, tokens, cache_written, provider, unreadable: None, notes })
}

fn is(block: &Value, kind: &str) -> bool {
    block.get("type").and_then(Value::as_str) == Some(kind)
}

fn call(block: &Value, ids: &mut CallIds) -> ToolCall {
    let id = ids.next(block.get("id"));
    let name = block.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
    let arguments = match block.get("input") {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    };
    ToolCall { id, name, arguments, provider: None }
}

/// The blocks as they came, where some are neither text nor calls: thinking is signed, and its place among
/// the others counts ("Extended thinking with tool use", platform.claude.com). Calls whose identifier had to be
/// replaced cannot go back as they came.
fn state(content: &[Value], calls: &[ToolCall]) -> Map<String, Value> {
    let plain = content.iter().all(|block| is(block, "text") || is(block, "tool_use"));
    let ids = content.iter().filter(|block| is(block, "tool_use")).map(|block| block.get("id"));
    let same_ids = ids.zip(calls).all(|(id, call)| id.and_then(Value::as_str) == Some(call.id.as_str()));
    if plain || !same_ids {
        return Map::new();
    }
    Map::from_iter([(CONTENT.to_owned(), Value::from(content))])
}

/// Tokens, and how many of them were written to the cache. Unlike elsewhere, `input_tokens` holds neither what
/// was read from the cache nor what was written to it.
fn counted(usage: &Value) -> Option<(Tokens, u64)> {
    let fresh = count(usage.get("input_tokens"))?;
    let cached = count(usage.get("cache_read_input_tokens")).unwrap_or(0);
    let written = count(usage.get("cache_creation_input_tokens")).unwrap_or(0);
    let output = count(usage.get("output_tokens")).unwrap_or(0);
    let input = fresh + cached + written;
    (input + output > 0).then_some((Tokens { input, cached, output }, written))
}
