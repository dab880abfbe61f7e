//! What a provider wants back unchanged with an earlier reply: reasoning, and signatures over it.
//!
//! It travels through the conversation as an opaque value ([`Message::Assistant`]'s and [`ToolCall`]'s
//! `provider`). Providers check it, so it goes back as it came or not at all: a conversation that is resumed
//! with another model or endpoint goes on without it.
//!
//! [`Message::Assistant`]: crate::method::ports::Message::Assistant
//! [`ToolCall`]: crate::method::ports::ToolCall

use serde_json::{Map, Value};

use super::settings::Protocol;

/// Who a state belongs to: one model of one endpoint, spoken to in one protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Maker(String);

impl Maker {
    /// `url` without anything secret.
    pub fn new(protocol: Protocol, url: &str, model: &str) -> Self {
        Self(format!("{} {model} at {url}", protocol.name()))
    }

    /// The state to hand out; `None` where there is nothing to keep.
    pub fn seal(&self, fields: Map<String, Value>) -> Option<Value> {
        if fields.is_empty() {
            return None;
        }
        let state = Map::from_iter([
            ("maker".to_owned(), Value::from(self.0.as_str())),
            ("fields".to_owned(), Value::Object(fields)),
        ]);
        Some(Value::Object(state))
    }

    /// What [`Maker::seal`] was given; `None` where it was another maker's.
    pub fn open<'a>(&self, state: Option<&'a Value>) -> Option<&'a Map<String, Value>> {
        let state = state?.as_object()?;
        let mine = state.get("maker").and_then(Value::as_str) == Some(self.0.as_str());
        state.get("fields")?.as_object().filter(|_| mine)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_state_is_opened_by_its_maker_only() {
        let maker = |model| Maker::new(Protocol::OpenAi, "https://a.example/v1", model);
        let fields = Map::from_iter([("reasoning".to_owned(), json!("hm"))]);
        let state = maker("m").seal(fields.clone());
        assert_eq!(maker("m").open(state.as_ref()), Some(&fields));
        assert_eq!(maker("n").open(state.as_ref()), None);
        let other = Maker::new(Protocol::Anthropic, "https://a.example/v1", "m");
        assert_eq!(other.open(state.as_ref()), None);
        assert_eq!(maker("m").seal(Map::new()), None);
        for nonsense in
            [json!(null), json!("m"), json!({ "fields": {} }), json!({ "maker": 1, "fields": [] })]
        {
            assert_eq!(maker("m").open(Some(&nonsense)), None);
        }
    }
}
