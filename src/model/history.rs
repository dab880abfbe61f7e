//! How a model's earlier words go back to it, in any wire format.
//!
//! They go back as they came, with a few exceptions: providers refuse a whole conversation for a call whose
//! arguments are no JSON object, whose tool's name has characters of other kinds, or for a message with
//! nothing in it. Those travel in a form that is taken and still shows what was written. The form depends on
//! the message alone, so that a conversation's bytes only grow and provider caches stay warm.

use std::{borrow::Cow, collections::HashSet};

use serde_json::{Value, json};

/// Stands for a reply without text and calls.
pub(super) const EMPTY_REPLY: &str = "(empty reply)";

/// A tool's name with the characters and the length that all providers take.
pub(super) fn tool_name(name: &str) -> Cow<'_, str> {
    const LONGEST: usize = 64;
    if name.is_empty() {
        return "unnamed".into();
    }
    if name.len() <= LONGEST && name.chars().all(is_plain) {
        return name.into();
    }
    name.chars().take(LONGEST).map(|c| if is_plain(c) { c } else { '_' }).collect::<String>().into()
}

/// A call's identifier in the same characters.
pub(super) fn plain_id(id: &str) -> Cow<'_, str> {
    if id.chars().all(is_plain) {
        return id.into();
    }
    id.chars().map(|c| if is_plain(c) { c } else { '_' }).collect::<String>().into()
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}

/// Arguments that are a JSON object, as text.
pub(super) fn arguments(written: &str) -> Cow<'_, str> {
    match serde_json::from_str::<Value>(written) {
        Ok(Value::Object(_)) => written.into(),
        _ if written.trim().is_empty() => "{}".into(),
        _ => malformed(written).to_string().into(),
    }
}

/// Arguments that are a JSON object, as a value.
pub(super) fn arguments_value(written: &str) -> Value {
    match serde_json::from_str::<Value>(written) {
        Ok(value @ Value::Object(_)) => value,
        _ if written.trim().is_empty() => json!({}),
        _ => malformed(written),
    }
}

fn malformed(written: &str) -> Value {
    json!({ "malformed_arguments": written })
}

/// Identifiers of one reply's calls. One that is missing or used twice is replaced, since the answer to a
/// call is found by it.
pub(super) struct CallIds {
    turn: u32,
    taken: HashSet<String>,
}

impl CallIds {
    pub fn of_turn(turn: u32) -> Self {
        Self { turn, taken: HashSet::new() }
    }

    /// The identifier of the next call, whose own one is `id`.
    pub fn next(&mut self, id: Option<&Value>) -> String {
        let own = id.and_then(Value::as_str).filter(|id| !id.is_empty() && !self.taken.contains(*id));
        let made = |number| format!("call_{}_{number}", self.turn);
        let id = match own {
            Some(own) => own.to_owned(),
            None => {
                (self.taken.len() + 1..).map(made).find(|id| !self.taken.contains(id)).unwrap_or_default()
            }
        };
        self.taken.insert(id.clone());
        id
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_arguments_say_the_same() {
        for written in ["", " ", "{", "[1]", "null", r#"{"b": 1, "a": "x"}"#] {
            let text: Value = serde_json::from_str(&arguments(written)).unwrap();
            assert_eq!(arguments_value(written), text, "{written}");
        }
        assert_eq!(arguments_value("[1]"), json!({ "malformed_arguments": "[1]" }));
    }

    #[test]
    fn every_call_of_a_reply_has_an_identifier_of_its_own() {
        let mut ids = CallIds::of_turn(3);
        let given = [Some(json!("call_3_2")), None, Some(json!("")), Some(json!("call_3_2")), Some(json!(7))];
        let all: Vec<String> = given.iter().map(|id| ids.next(id.as_ref())).collect();
        assert_eq!(all, ["call_3_2", "call_3_3", "call_3_4", "call_3_5", "call_3_6"]);
    }

    #[test]
    fn identifiers_have_plain_characters() {
        assert_eq!(plain_id("call_1-a"), "call_1-a");
        assert_eq!(plain_id("functions.bash:0"), "functions_bash_0");
    }
}
