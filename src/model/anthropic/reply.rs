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
        Some("refusal") => Finish::Declined,
        // Such as `pause_turn` of tools that run at the provider, which we offer none of.
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
/// the others counts ("Extended thinking with tool use", platform.claude.com). Not kept are blocks that would be
/// refused on their way back: thinking at the end, which was cut off there, calls whose identifier had to be
/// replaced, and text with nothing in it.
fn state(content: &[Value], calls: &[ToolCall]) -> Map<String, Value> {
    let is_plain = |block: &Value| is(block, "text") || is(block, "tool_use");
    let is_blank = |block: &Value| {
        is(block, "text")
            && block.get("text").and_then(Value::as_str).is_none_or(|text| text.trim().is_empty())
    };
    let blocks: Vec<Value> = content.iter().filter(|block| !is_blank(block)).cloned().collect();
    let ids = blocks.iter().filter(|block| is(block, "tool_use")).map(|block| block.get("id"));
    let same_ids = ids.zip(calls).all(|(id, call)| id.and_then(Value::as_str) == Some(call.id.as_str()));
    if blocks.iter().all(is_plain) || !blocks.last().is_some_and(is_plain) || !same_ids {
        return Map::new();
    }
    Map::from_iter([(CONTENT.to_owned(), blocks.into())])
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::{domain::AgentName, method::ports::Message, model::Protocol};

    fn maker() -> Maker {
        Maker::new(Protocol::Anthropic, "http://127.0.0.1/v1", "m")
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

    fn reply(content: Value, stop: Value) -> ChatReply {
        let body = json!({ "type": "message", "role": "assistant", "content": content, "stop_reason": stop,
            "usage": { "input_tokens": 10, "output_tokens": 2 } });
        parse(body.to_string().as_bytes(), &request(), &maker()).unwrap()
    }

    #[test]
    fn every_reason_to_stop_has_its_meaning() {
        let finish = |stop: Value| reply(json!([{ "type": "text", "text": "a" }]), stop).finish;
        assert_eq!(finish(json!("end_turn")), Finish::Stop);
        assert_eq!(finish(json!("stop_sequence")), Finish::Stop);
        assert_eq!(finish(json!("tool_use")), Finish::ToolCalls);
        assert_eq!(finish(json!("max_tokens")), Finish::Length);
        assert_eq!(finish(json!("model_context_window_exceeded")), Finish::Length);
        assert_eq!(finish(json!("refusal")), Finish::Declined);
        assert_eq!(finish(json!("pause_turn")), Finish::Other);
        assert_eq!(finish(json!(null)), Finish::Stop);
        assert_eq!(reply(json!([{ "type": "tool_use" }]), json!(null)).finish, Finish::ToolCalls);
    }

    #[test]
    fn odd_blocks_stay_visible_as_they_came() {
        let call = |id: &str, name: &str, arguments: &str| ToolCall {
            id: id.into(),
            name: name.into(),
            arguments: arguments.into(),
            provider: None,
        };
        let reply = reply(
            json!([
                { "type": "text", "text": "I " }, { "type": "text", "text": "look." }, 7, { "type": "new" },
                { "type": "tool_use", "id": "a", "name": "bash", "input": { "b": 1, "a": [] } },
                { "type": "tool_use", "id": "a", "name": "no such tool", "input": "text" },
                { "type": "tool_use", "input": null },
            ]),
            json!("tool_use"),
        );
        assert_eq!(reply.text.as_deref(), Some("I look."));
        assert_eq!(
            reply.calls,
            [
                call("a", "bash", r#"{"b":1,"a":[]}"#),
                call("call_3_2", "no such tool", "text"),
                call("call_3_3", "", "")
            ]
        );
        assert_eq!(reply.provider, None, "its identifiers are not the provider's");
    }

    #[test]
    fn thinking_is_kept_with_its_place_unless_it_could_not_go_back() {
        let kept = |content: Value| {
            let reply = reply(content, json!("end_turn"));
            maker().open(reply.provider.as_ref()).map(|fields| fields[CONTENT].clone())
        };
        let thinking = json!({ "type": "thinking", "thinking": "hm", "signature": "s" });
        let text = json!({ "type": "text", "text": "a" });
        assert_eq!(kept(json!([text])), None);
        assert_eq!(kept(json!([thinking, text])), Some(json!([thinking, text])));
        let blank = json!({ "type": "text", "text": "\n" });
        assert_eq!(kept(json!([thinking, blank, text])), Some(json!([thinking, text])));
        assert_eq!(kept(json!([text, thinking])), None);
        assert_eq!(kept(json!([])), None);
    }

    #[test]
    fn input_counts_what_was_read_from_the_cache_and_written_to_it() {
        let usage = json!({ "input_tokens": 5, "cache_read_input_tokens": 70, "cache_creation_input_tokens": 25, "output_tokens": 9 });
        assert_eq!(counted(&usage), Some((Tokens { input: 100, cached: 70, output: 9 }, 25)));
        let plain = json!({ "input_tokens": 5, "cache_read_input_tokens": null, "output_tokens": 9 });
        assert_eq!(counted(&plain), Some((Tokens { input: 5, cached: 0, output: 9 }, 0)));
        for nothing in [json!({}), json!({ "input_tokens": 0 }), json!({ "input_tokens": -1 }), json!(null)] {
            assert_eq!(counted(&nothing), None, "{nothing}");
        }
    }

    fn json_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            prop_oneof![Just("text"), Just("tool_use"), Just("thinking"), Just("error")]
                .prop_map(Value::from),
        ];
        const KEYS: &[&str] =
            &["type", "content", "text", "id", "name", "input", "error", "message", "usage", "input_tokens"];
        leaf.prop_recursive(5, 48, 4, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec((prop::sample::select(KEYS), inner), 0..4)
                    .prop_map(|pairs| pairs.into_iter().map(|(k, v)| (k.to_owned(), v)).collect()),
            ]
        })
    }

    proptest! {
        #[test]
        fn no_answer_makes_it_panic(body in prop::collection::vec(any::<u8>(), 0..200), value in json_value(), content in json_value()) {
            let _ = parse(&body, &request(), &maker());
            let _ = parse(value.to_string().as_bytes(), &request(), &maker());
            let whole = json!({ "content": [content], "usage": value }).to_string();
            let _ = parse(whole.as_bytes(), &request(), &maker());
        }
    }
}
