//! Reads a chat completion, as leniently as an agent needs it.
//!
//! A malformed call is routine and must reach the agent, which tells the model: so only an answer without a
//! message is refused here. Everything inside the message is taken as it came.

use serde_json::{Map, Value};

use super::{
    super::{
        failure::{Failure, ProviderError},
        history::CallIds,
        http::describe,
        provider_state::Maker,
        usage::{count, estimated},
    },
    IN_A_CALL, IN_A_MESSAGE,
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
    let refusal = message.get("refusal").and_then(content).filter(|words| !words.is_empty());
    let has_refused = refusal.is_some();
    let text = message.get("content").and_then(content).or(refusal);
    let calls = calls(message.get("tool_calls"), request.turn, maker);
    let finish = match choice.get("finish_reason").and_then(Value::as_str) {
        _ if has_refused => Finish::Declined,
        Some("refusal") => Finish::Declined,
        // Gemini adds the kind: `content_filter: SAFETY`.
        Some(reason) if reason.starts_with("content_filter") => Finish::Declined,
        Some("stop" | "eos" | "eos_token" | "end_turn") => Finish::Stop,
        Some("tool_calls" | "function_call") => Finish::ToolCalls,
        Some("length" | "max_tokens" | "model_length") => Finish::Length,
        Some(_) => Finish::Other,
        None if calls.is_empty() => Finish::Stop,
        None => Finish::ToolCalls,
    };
    let mut notes = Vec::new();
    let usage = value.get("usage");
    let tokens = usage.and_then(counted).unwrap_or_else(|| {
        notes.push("the provider counted no tokens: estimated as a quarter of the characters".to_owned());
        estimated(request, text.as_deref(), &calls)
    });
    Ok(ChatReply {
        text,
        calls,
        finish,
        tokens,
        cache_written: usage.and_then(cache_written).unwrap_or(0),
        provider: maker.seal(kept(message, IN_A_MESSAGE)),
        unreadable: None,
        notes,
    })
}

fn not_a_reply(what: String) -> Failure {
    Failure::NotAReply { what, again: true }
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

/// The calls as they were written.
fn calls(value: Option<&Value>, turn: u32, maker: &Maker) -> Vec<ToolCall> {
    let mut ids = CallIds::of_turn(turn);
    let calls = value.and_then(Value::as_array).into_iter().flatten();
    calls
        .map(|call| {
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
            let provider = maker.seal(kept(call, IN_A_CALL));
            ToolCall { id: ids.next(call.get("id")), name, arguments, provider }
        })
        .collect()
}

/// The fields that the provider wants back, the first of each group that is there. An empty text counts:
/// DeepSeek asks for it too.
fn kept(from: &Value, groups: &[&[&str]]) -> Map<String, Value> {
    let is_something = |value: &&Value| !(value.is_null() || value.as_array().is_some_and(Vec::is_empty));
    let first = |group: &&[&str]| {
        group.iter().find_map(|name| {
            let value = from.get(name).filter(is_something)?;
            Some(((*name).to_owned(), value.clone()))
        })
    };
    groups.iter().filter_map(first).collect()
}

/// The provider's own count; `None` where it is missing, says nothing or is absurd.
fn counted(usage: &Value) -> Option<Tokens> {
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

/// OpenRouter's count for models of providers that charge for it.
fn cache_written(usage: &Value) -> Option<u64> {
    count(usage.get("prompt_tokens_details")?.get("cache_write_tokens"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::{domain::AgentName, method::ports::Message, model::Protocol};

    fn maker() -> Maker {
        Maker::new(Protocol::OpenAi, "http://127.0.0.1/v1", "m")
    }

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
        parse(body.to_string().as_bytes(), &request(), &maker()).unwrap()
    }

    fn tokens(usage: Value) -> Tokens {
        counted(&usage).unwrap()
    }

    fn call(id: &str, name: &str, arguments: &str) -> ToolCall {
        ToolCall { id: id.into(), name: name.into(), arguments: arguments.into(), provider: None }
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
        assert_eq!((refusal.text.as_deref(), refusal.finish), (Some("I can't"), Finish::Declined));
        let nothing = reply(json!({ "content": "a", "refusal": "" }), json!("stop"));
        assert_eq!(nothing.finish, Finish::Stop);
    }

    #[test]
    fn an_absent_finish_reason_follows_from_the_reply() {
        assert_eq!(reply(json!({ "content": "a" }), json!(null)).finish, Finish::Stop);
        assert_eq!(reply(json!({ "tool_calls": [{}] }), json!(null)).finish, Finish::ToolCalls);
        assert_eq!(reply(json!({}), json!("content_filter")).finish, Finish::Declined);
        assert_eq!(reply(json!({}), json!("function_was_odd")).finish, Finish::Other);
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
            let reply = parse(body.to_string().as_bytes(), &request(), &maker()).unwrap();
            assert_eq!(reply.tokens, Tokens { input: 2, cached: 0, output: 2 });
            assert_eq!(reply.notes.len(), 1);
        }
    }

    #[test]
    fn what_the_provider_wants_back_is_kept_and_nothing_else() {
        let call = json!({ "id": "a", "function": { "name": "bash", "arguments": "{}" },
            "extra_content": { "google": { "thought_signature": "s" } }, "index": 0 });
        let state = |message: Value| {
            let reply = reply(message, json!("tool_calls"));
            let of = |state: Option<&Value>| maker().open(state).cloned().map(Value::Object);
            (of(reply.provider.as_ref()), of(reply.calls[0].provider.as_ref()))
        };
        let google = Some(json!({ "extra_content": { "google": { "thought_signature": "s" } } }));
        let deepseek = json!({ "reasoning_content": "", "annotations": [], "tool_calls": [call] });
        assert_eq!(state(deepseek), (Some(json!({ "reasoning_content": "" })), google.clone()));
        // OpenRouter says the same thing twice.
        let openrouter =
            json!({ "reasoning": "hm", "reasoning_details": [{ "text": "hm" }], "tool_calls": [call] });
        assert_eq!(
            state(openrouter),
            (Some(json!({ "reasoning_details": [{ "text": "hm" }] })), google.clone())
        );
        let nothing = json!({ "reasoning": null, "reasoning_details": [], "tool_calls": [call] });
        assert_eq!(state(nothing), (None, google));
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
            let _ = parse(&body, &request(), &maker());
        }

        #[test]
        fn no_json_makes_it_panic(value in json_value(), message in json_value()) {
            let _ = parse(value.to_string().as_bytes(), &request(), &maker());
            let body = json!({ "choices": [{ "message": message }], "usage": value });
            let _ = parse(body.to_string().as_bytes(), &request(), &maker());
        }
    }
}
