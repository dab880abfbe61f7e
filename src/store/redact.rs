//! Secrets are taken out of text before it reaches the disk.
//!
//! The scanner itself lives in `gate`; here it is applied to the free text of a turn, never to the line
//! as a whole, so that the JSON stays JSON and tags such as `role` stay what they are. On resume a model
//! therefore reads the redacted text of its earlier turns.

use std::sync::Arc;

use serde_json::Value;

use crate::method::ports::{Compaction, Message, Opening, ToolCall, Turn};

/// Returns the text with every secret in it replaced.
pub type Redactor = Arc<dyn Fn(&str) -> String + Send + Sync>;

pub fn turn(turn: &Turn, redact: &Redactor) -> Turn {
    Turn {
        messages: messages(&turn.messages, redact),
        submission: turn.submission.as_ref().map(|submission| value(submission, redact)),
        compaction: turn
            .compaction
            .as_ref()
            .map(|made| Compaction { summary: redact(&made.summary), ..made.clone() }),
        ..turn.clone() // counts and names of this program's own
    }
}

pub fn opening(opening: &Opening, redact: &Redactor) -> Opening {
    Opening {
        messages: messages(&opening.messages, redact),
        volatile: opening.volatile.iter().map(|text| redact(text)).collect(),
        ..opening.clone()
    }
}

/// Redacts every string in a JSON value; names of fields stay, they are this program's own.
pub fn value(from: &Value, redact: &Redactor) -> Value {
    match from {
        Value::String(text) => Value::String(redact(text)),
        Value::Array(items) => items.iter().map(|item| value(item, redact)).collect(),
        Value::Object(fields) => {
            fields.iter().map(|(name, field)| (name.clone(), value(field, redact))).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => from.clone(),
    }
}

fn messages(from: &[Message], redact: &Redactor) -> Vec<Message> {
    from.iter().map(|message| self::message(message, redact)).collect()
}

fn message(from: &Message, redact: &Redactor) -> Message {
    match from {
        Message::System { content } => Message::System { content: redact(content) },
        Message::User { content } => Message::User { content: redact(content) },
        Message::Assistant { content, tool_calls, provider } => Message::Assistant {
            content: content.as_deref().map(|text| redact(text)),
            tool_calls: tool_calls.iter().map(|call| self::call(call, redact)).collect(),
            provider: state(provider.as_ref(), redact),
        },
        Message::Tool { tool_call_id, content } => {
            Message::Tool { tool_call_id: redact(tool_call_id), content: redact(content) }
        }
    }
}

fn call(from: &ToolCall, redact: &Redactor) -> ToolCall {
    ToolCall {
        id: redact(&from.id),
        name: redact(&from.name),
        arguments: arguments(&from.arguments, redact),
        provider: state(from.provider.as_ref(), redact),
    }
}

/// What a provider wants back unchanged is worth nothing when it is changed: where it holds a secret it is left
/// out as a whole.
fn state(from: Option<&Value>, redact: &Redactor) -> Option<Value> {
    from.filter(|state| value(state, redact) == **state).cloned()
}

/// JSON as a model wrote it. Its escapes can spell any character, so the strings are looked at too; where
/// nothing is found, what the model wrote stays as it is.
fn arguments(from: &str, redact: &Redactor) -> String {
    let read = serde_json::from_str::<Value>(from).ok();
    let redacted = read.map(|read| (value(&read, redact), read));
    match redacted {
        Some((clean, read)) if clean != read => redact(&clean.to_string()),
        _ => redact(from),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::store::examples::example_turn;

    #[test]
    fn s_33_a_secret_is_taken_out_of_every_text_of_a_turn_and_of_an_opening() {
        let redact: Redactor = Arc::new(|text| text.replace("hunter2", "[redacted]"));
        let mut full = example_turn(1, "hunter2");
        full.messages.extend([
            Message::System { content: "hunter2".into() },
            Message::Assistant {
                content: Some("say \"hunter2\"".into()),
                tool_calls: vec![ToolCall {
                    id: "call-hunter2".into(),
                    name: "hunter2".into(),
                    arguments: "{\"command\": \"echo hunter2\"".into(),
                    provider: Some(json!({"signature": "hunter2"})),
                }],
                provider: Some(json!({"reasoning": "the key is hunter2"})),
            },
            Message::Tool { tool_call_id: "call-hunter2".into(), content: "hunter2\n".into() },
        ]);
        full.submission =
            Some(json!({"answer": "hunter2", "gaps": ["hunter2"], "deep": {"n": 1, "s": "hunter2"}}));
        full.compaction = Some(Compaction { keep_from: 1, summary: "hunter2".into() });
        let line = serde_json::to_string(&turn(&full, &redact)).unwrap();
        assert!(!line.contains("hunter2"), "{line}");
        assert_eq!(line.matches("[redacted]").count(), 12, "{line}");
        let back: Turn = serde_json::from_str(&line).unwrap();
        assert_eq!(back.messages.len(), 4);

        let spelled = ToolCall {
            id: "1".into(),
            name: "bash".into(),
            arguments: r#"{"command": "echo h\u0075nter2"}"#.into(),
            provider: Some(json!({"signature": "abc"})),
        };
        assert_eq!(call(&spelled, &redact).arguments, r#"{"command":"echo [redacted]"}"#);
        assert_eq!(call(&spelled, &redact).provider, spelled.provider);

        let start = Opening {
            agent: "resolver".into(),
            model: "m".into(),
            messages: full.messages,
            tools: vec![],
            volatile: vec!["the key is hunter2".into()],
        };
        let line = serde_json::to_string(&opening(&start, &redact)).unwrap();
        assert!(!line.contains("hunter2"), "{line}");
    }
}
