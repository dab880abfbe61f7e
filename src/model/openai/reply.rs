//! Reads a chat completion, as leniently as an agent needs it.
//!
//! A malformed call is routine and must reach the agent, which tells the model: so only an answer without a
//! message is refused here. Everything inside the message is taken as it came.

use std::collections::HashSet;

use serde_json::Value;

use super::failure::{Failure, ProviderError};
use crate::{
    domain::Tokens,
    method::ports::{ChatReply, ChatRequest, Finish, Message, ToolCall},
};

/// Reads the body of an answer with status 200.
pub(super) fn parse(body: &[u8], request: &ChatRequest) -> Result<ChatReply, Failure> {
    let value: Value = serde_json::from_slice(body).map_err(|_| not_a_reply(describe(body)))?;
    let Some(choice) = value.get("choices").and_then(|choices| choices.get(0)) else {
        return Err(match ProviderError::from_json(200, &value) {
            Some(error) => Failure::Provider(error),
            None if value.get("choices").is_some() => not_a_reply("`choices` is empty".into()),
            None => not_a_reply(format!("JSON without `choices`: {}", value)),
        });
    };
    // OpenRouter: an error of the upstream provider after the answer had begun.
    if let Some(error) = ProviderError::from_json(200, choice) {
        return Err(Failure::Provider(error));
    }
    let Some(message) = choice.get("message").filter(|message| message.is_object()) else {
        return Err(not_a_reply("the choice has no `message`".into()));
    };
    let text = message.get("content").and_then(content).or_else(|| message.get("refusal").and_then(content));
    let calls = calls(message.get("tool_calls"), request.turn);
    let finish = match choice.get("finish_reason").and_then(Value::as_str) {
        Some("stop" | "eos" | "eos_token" | "end_turn") => Finish::Stop,
        Some("tool_calls" | "function_call") => Finish::ToolCalls,
        Some("length" | "max_tokens" | "model_length") => Finish::Length,
        Some(_) => Finish::Other,
        None if calls.is_empty() => Finish::Stop,
        None => Finish::ToolCalls,
    };
    let mut notes = Vec::new();
    let tokens = value.get("usage").and_then(counted).unwrap_or_else(|| {
        notes.push("the provider counted no tokens: estimated as a quarter of the characters".to_owned());
        estimated(request, text.as_deref(), &calls)
    });
    Ok(ChatReply { text, calls, finish, tokens, notes })
}

fn not_a_reply(what: String) -> Failure {
    Failure::NotAReply { what, again: true }
}

/// Says for people what a body is that is no JSON.
pub(super) fn describe(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let text = text.trim();
    if text.is_empty() {
        return "an empty answer".into();
    }
    if text.starts_with('<') {
        let lower = text.to_ascii_lowercase();
        let title = lower.find("<title>").zip(lower.find("</title>"));
        let title = title.and_then(|(start, end)| text.get(start + "<title>".len()..end));
        return format!("an HTML page: {}", title.unwrap_or(text));
    }
    if text.starts_with(['{', '[']) {
        return format!("JSON that is cut off or broken after {} bytes: {}", body.len(), text);
    }
    format!("text: {text}")
}

/// Text as a string, or as a list of parts.
fn content(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Array(parts) => {
            let texts: Vec<&str> = parts
                .iter()
                .filter_map(|part| part.as_str().or_else(|| part.get("text").and_then(Value::as_str)))
                .collect();
            (!texts.is_empty()).then(|| texts.concat())
        }
        _ => None,
    }
}

/// The calls as they were written. An identifier that is missing or used twice is replaced, since the answer
/// to a call is found by it.
fn calls(value: Option<&Value>, turn: u32) -> Vec<ToolCall> {
    let mut taken = HashSet::new();
    let calls = value.and_then(Value::as_array).into_iter().flatten().enumerate();
    calls
        .map(|(number, call)| {
            let own = call.get("id").and_then(Value::as_str).filter(|id| !id.is_empty());
            let id = match own {
                Some(id) if !taken.contains(id) => id.to_owned(),
                _ => format!("call_{turn}_{}", number + 1),
            };
            taken.insert(id.clone());
            let text = |value: &Value| match value {
                Value::String(text) => text.clone(),
                Value::Null => String::new(),
                other => other.to_string(),
            };
            let (name, arguments) = match call.get("function") {
                Some(function) => (
                    function.get("name").map(text).unwrap_or_default(),
                    function.get("arguments").map(text).unwrap_or_default(),
                ),
                None => (String::new(), call.to_string()),
            };
            ToolCall { id, name, arguments }
        })
        .collect()
}

/// The provider's own count; `None` where it is missing, says nothing or is absurd.
fn counted(usage: &Value) -> Option<Tokens> {
    const MOST: f64 = 1e9;
    let count = |value: Option<&Value>| {
        value.and_then(Value::as_f64).filter(|count| (0.0..=MOST).contains(count)).map(|count| count as u64)
    };
    let input = count(usage.get("prompt_tokens"))?;
    let written = count(usage.get("completion_tokens")).unwrap_or(0);
    if input == 0 && written == 0 {
        return None;
    }
    // Gemini and xAI leave the tokens of thinking out of `completion_tokens`, but bill and total them.
    let total = count(usage.get("total_tokens")).unwrap_or(0);
    let output = written.max(total.saturating_sub(input));
    let details = usage.get("prompt_tokens_details").and_then(|details| details.get("cached_tokens"));
    // The second is DeepSeek's.
    let cached = count(details).or_else(|| count(usage.get("prompt_cache_hit_tokens"))).unwrap_or(0);
    Some(Tokens { input, cached: cached.min(input), output })
}

fn estimated(request: &ChatRequest, text: Option<&str>, calls: &[ToolCall]) -> Tokens {
    let chars = |text: &str| text.chars().count() as u64;
    let of_calls =
        |calls: &[ToolCall]| calls.iter().map(|c| chars(&c.name) + chars(&c.arguments)).sum::<u64>();
    let messages = request.messages.iter().map(|message| match message {
        Message::System { content } | Message::User { content } | Message::Tool { content, .. } => {
            chars(content)
        }
        Message::Assistant { content, tool_calls } => {
            content.as_deref().map_or(0, chars) + of_calls(tool_calls)
        }
    });
    let tools = request
        .tools
        .iter()
        .map(|tool| chars(&tool.name) + chars(&tool.description) + chars(&tool.parameters.to_string()));
    Tokens {
        input: (messages.sum::<u64>() + tools.sum::<u64>()).div_ceil(4),
        cached: 0,
        output: (text.map_or(0, chars) + of_calls(calls)).div_ceil(4),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::domain::AgentName;

    fn request() -> ChatRequest {
        ChatRequest {
            agent: AgentName::resolver(),
            turn: 3,
            messages: vec![Message::User { content: "12345678".into() }],
            tools: vec![],
            temperature: None,
            max_tokens: None,
            response_schema: None,
            volatile: vec![],
        }
    }

    fn reply(message: Value, finish: Value) -> ChatReply {
        let body = json!({ "id": "x", "choices": [{ "index": 0, "message": message, "finish_reason": finish, "new": 1 }],
            "usage": { "prompt_tokens": 10, "completion_tokens": 2 } });
        parse(body.to_string().as_bytes(), &request()).unwrap()
    }

    fn tokens(usage: Value) -> Tokens {
        counted(&usage).unwrap()
    }

    fn call(id: &str, name: &str, arguments: &str) -> ToolCall {
        ToolCall { id: id.into(), name: name.into(), arguments: arguments.into() }
    }

    #[test]
    fn malformed_calls_stay_visible_as_they_came() {
        let reply = reply(
            json!({ "content": null, "tool_calls": [
                { "id": "a", "type": "function", "function": { "name": "bash", "arguments": "{\"command\": \"l" }, "index": 0 },
                { "id": "", "function": { "name": "bash", "arguments": "" } },
                { "id": "a", "function": { "name": "no such tool", "arguments": { "x": 1 } } },
                { "function": { "arguments": null } },
                { "id": "b", "custom": "?" },
                7,
            ] }),
            json!("length"),
        );
        assert_eq!(reply.finish, Finish::Length);
        assert_eq!(reply.text, None);
        assert_eq!(
            reply.calls,
            [
                call("a", "bash", "{\"command\": \"l"),
                call("call_3_2", "bash", ""),
                call("call_3_3", "no such tool", "{\"x\":1}"),
                call("call_3_4", "", ""),
                call("b", "", "{\"id\":\"b\",\"custom\":\"?\"}"),
                call("call_3_6", "", "7"),
            ]
        );
    }

    #[test]
    fn text_comes_as_a_string_as_parts_or_not_at_all() {
        let text = |content: Value| reply(json!({ "content": content }), json!("stop")).text;
        assert_eq!(text(json!(" a\n")).as_deref(), Some(" a\n"));
        assert_eq!(
            text(json!([{ "type": "text", "text": "a" }, "b", { "type": "image" }])).as_deref(),
            Some("ab")
        );
        for nothing in [json!(null), json!([]), json!(5), json!({})] {
            assert_eq!(text(nothing), None);
        }
        let refusal = reply(json!({ "content": null, "refusal": "I can't" }), json!("stop"));
        assert_eq!(refusal.text.as_deref(), Some("I can't"));
    }

    #[test]
    fn an_absent_finish_reason_follows_from_the_reply() {
        assert_eq!(reply(json!({ "content": "a" }), json!(null)).finish, Finish::Stop);
        assert_eq!(reply(json!({ "tool_calls": [{}] }), json!(null)).finish, Finish::ToolCalls);
        assert_eq!(reply(json!({}), json!("content_filter")).finish, Finish::Other);
    }

    #[test]
    fn cached_tokens_are_read_in_both_dialects() {
        let openai = json!({ "prompt_tokens": 100, "completion_tokens": 5, "total_tokens": 105, "prompt_tokens_details": { "cached_tokens": 64 } });
        let deepseek = json!({ "prompt_tokens": 100, "completion_tokens": 5, "prompt_cache_hit_tokens": 64, "prompt_cache_miss_tokens": 36 });
        let expected = Tokens { input: 100, cached: 64, output: 5 };
        assert_eq!((tokens(openai), tokens(deepseek)), (expected, expected));
        let absurd = json!({ "prompt_tokens": 10, "prompt_cache_hit_tokens": 99, "total_tokens": -1 });
        assert_eq!(tokens(absurd), Tokens { input: 10, cached: 10, output: 0 });
        let thinking = json!({ "prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 40 });
        assert_eq!(tokens(thinking).output, 30);
    }

    #[test]
    fn missing_counts_are_estimated_and_said() {
        for usage in
            [json!(null), json!({}), json!({ "prompt_tokens": 0 }), json!({ "prompt_tokens": 1e300 })]
        {
            let body = json!({ "choices": [{ "message": { "content": "12345" } }], "usage": usage });
            let reply = parse(body.to_string().as_bytes(), &request()).unwrap();
            assert_eq!(reply.tokens, Tokens { input: 2, cached: 0, output: 2 });
            assert_eq!(reply.notes.len(), 1);
        }
    }

    fn json_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            ".{0,12}".prop_map(Value::from),
        ];
        let key = prop_oneof![
            Just("choices"),
            Just("message"),
            Just("content"),
            Just("tool_calls"),
            Just("function"),
            Just("id"),
            Just("arguments"),
            Just("name"),
            Just("usage"),
            Just("prompt_tokens"),
            Just("total_tokens"),
            Just("error"),
            Just("code"),
            Just("metadata"),
            Just("finish_reason"),
            Just("text"),
        ];
        leaf.prop_recursive(6, 64, 4, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec((key.clone(), inner), 0..4)
                    .prop_map(|pairs| pairs.into_iter().map(|(k, v)| (k.to_owned(), v)).collect()),
            ]
        })
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(body in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&body, &request());
        }

        #[test]
        fn no_json_makes_it_panic(value in json_value(), message in json_value()) {
            let _ = parse(value.to_string().as_bytes(), &request());
            let body = json!({ "choices": [{ "message": message }], "usage": value });
            let _ = parse(body.to_string().as_bytes(), &request());
        }
    }
}
