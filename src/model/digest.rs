//! What identifies a recorded reply's request.
//!
//! A digest covers the roles of all messages, the tools, and the prompt: the messages before the model's first
//! reply. Later messages hold what commands printed, which differs from machine to machine. The three parts
//! are kept apart in the text (`roles:… tools:… prompt:…`), so that a mismatch can say which one it is.

use std::fmt;

use sha2::{Digest as _, Sha256};

use crate::method::ports::{ChatRequest, Message};

/// Stands in the prompt for each of the request's volatile parts. One character that text does not have, so
/// that no part can occur inside it.
const MARKER: &str = "\u{0}";

/// The digest of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Digest {
    roles: String,
    tools: String,
    prompt: String,
}

impl Digest {
    pub fn of(request: &ChatRequest) -> Self {
        let opening = request.messages.iter().take_while(|m| !matches!(m, Message::Assistant { .. }));
        let tools = request.tools.iter().flat_map(|tool| {
            let mut schema = tool.parameters.clone();
            schema.sort_all_objects();
            [steady(&tool.name, request), steady(&tool.description, request), schema.to_string()]
        });
        Self {
            roles: hash(request.messages.iter().map(|message| message.role().to_owned())),
            tools: hash(tools),
            prompt: hash(opening.map(|message| steady(content(message), request))),
        }
    }

    /// The names of the parts in which a recorded digest differs from this one. Text that is no digest
    /// differs in all of them.
    pub fn differences(&self, recorded: &str) -> Vec<&'static str> {
        let mut parts = recorded.split(' ');
        let mut differs = |name: &'static str, mine: &str| {
            let theirs = parts.next().and_then(|part| part.strip_prefix(name)?.strip_prefix(':'));
            (theirs != Some(mine)).then_some(name)
        };
        [differs("roles", &self.roles), differs("tools", &self.tools), differs("prompt", &self.prompt)]
            .into_iter()
            .flatten()
            .collect()
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "roles:{} tools:{} prompt:{}", self.roles, self.tools, self.prompt)
    }
}

fn content(message: &Message) -> &str {
    match message {
        Message::System { content } | Message::User { content } | Message::Tool { content, .. } => content,
        Message::Assistant { content, .. } => content.as_deref().unwrap_or_default(),
    }
}

/// The text with every volatile part replaced; the longest go first, since one may stand inside another.
fn steady(text: &str, request: &ChatRequest) -> String {
    let mut parts: Vec<&str> =
        request.volatile.iter().map(String::as_str).filter(|p| !p.is_empty()).collect();
    parts.sort_by_key(|part| std::cmp::Reverse(part.len()));
    parts.into_iter().fold(text.to_owned(), |text, part| text.replace(part, MARKER))
}

/// The first 128 bits suffice: a digest tells a changed prompt from the recorded one, it withstands no forger.
fn hash(parts: impl Iterator<Item = String>) -> String {
    let mut sha = Sha256::new();
    for part in parts {
        // With its length in front, text cannot move from one part into the next unseen.
        sha.update((part.len() as u64).to_le_bytes());
        sha.update(part);
    }
    hex::encode(&sha.finalize()[..16])
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::{domain::AgentName, method::ports::ToolSpec};

    fn user(content: &str) -> Message {
        Message::User { content: content.into() }
    }

    fn request(messages: Vec<Message>, volatile: &[&str]) -> ChatRequest {
        ChatRequest {
            agent: AgentName::resolver(),
            turn: 1,
            messages,
            tools: vec![tool(json!({ "a": 1, "b": 2 }))],
            temperature: None,
            max_tokens: None,
            response_schema: None,
            volatile: volatile.iter().map(|v| (*v).to_owned()).collect(),
        }
    }

    fn tool(parameters: Value) -> ToolSpec {
        ToolSpec { name: "bash".into(), description: "runs".into(), parameters }
    }

    #[test]
    fn each_part_is_told_from_the_others() {
        let recorded = Digest::of(&request(vec![user("fix it")], &[])).to_string();
        let differences = |request: &ChatRequest| Digest::of(request).differences(&recorded);

        assert!(differences(&request(vec![user("fix it")], &[])).is_empty());
        assert_eq!(differences(&request(vec![user("")], &[])), ["prompt"]);
        assert_eq!(differences(&request(vec![], &[])), ["roles", "prompt"]);
        let system = Message::System { content: "fix it".into() };
        assert_eq!(differences(&request(vec![system], &[])), ["roles"]);

        let mut changed = request(vec![user("fix it")], &[]);
        changed.tools = vec![tool(json!({ "b": 2, "a": 1 }))];
        assert!(differences(&changed).is_empty(), "the order of keys means nothing");
        changed.tools = vec![tool(json!({ "a": 1, "b": 3 }))];
        assert_eq!(differences(&changed), ["tools"]);
        changed.tools[0] = ToolSpec { description: "".into(), ..tool(json!({ "a": 1, "b": 2 })) };
        assert_eq!(differences(&changed), ["tools"]);
        changed.tools[0] = ToolSpec { name: "sh".into(), ..tool(json!({ "a": 1, "b": 2 })) };
        assert_eq!(differences(&changed), ["tools"]);
        changed.tools.clear();
        assert_eq!(differences(&changed), ["tools"]);

        assert_eq!(Digest::of(&changed).differences("sha256"), ["roles", "tools", "prompt"]);
    }

    #[test]
    fn volatile_parts_do_not_matter_and_what_is_around_them_does() {
        let of = |text: &str, volatile: &[&str]| Digest::of(&request(vec![user(text)], volatile)).to_string();
        assert_eq!(
            of("<f-1>bug</f-1> on f-12", &["f-1", "", "f-12"]),
            of("<f-9>bug</f-9> on x", &["x", "f-9"])
        );
        assert_ne!(of("<f-1>bug</f-1>", &["f-1"]), of("<f-1>bag</f-1>", &["f-1"]));
        assert_ne!(of("<f-1>bug</f-1>", &["f-1"]), of("<f-1>bug", &["f-1"]));
    }

    #[test]
    fn what_comes_after_the_first_reply_counts_by_its_roles_only() {
        let assistant = |content: &str| Message::Assistant {
            content: Some(content.into()),
            tool_calls: vec![],
            provider: None,
        };
        let tool = |content: &str| Message::Tool { tool_call_id: "c".into(), content: content.into() };
        let here = Digest::of(&request(vec![user("a"), assistant("b"), tool("13 ms")], &[]));
        let there = Digest::of(&request(vec![user("a"), assistant("b"), tool("15 ms")], &[]));
        assert_eq!(here, there);
        let shorter = Digest::of(&request(vec![user("a"), assistant("b")], &[]));
        assert_eq!(shorter.differences(&here.to_string()), ["roles"]);
    }
}
