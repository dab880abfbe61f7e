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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{domain::AgentName, method::ports::ToolSpec, model::Protocol};

    const PARAMETERS: Parameters = Parameters { temperature: Some(0.0), max_tokens: 100 };

    fn maker() -> Maker {
        Maker::new(Protocol::Anthropic, "http://127.0.0.1/v1", "m")
    }

    fn sent_as(messages: Vec<Message>, dialect: Dialect) -> Value {
        let tool = |name: &str| ToolSpec {
            name: name.into(),
            description: "d".into(),
            parameters: json!({ "type": "object" }),
        };
        let request = ChatRequest {
            agent: AgentName::resolver(),
            turn: 1,
            messages,
            tools: vec![tool("bash"), tool("submit")],
            temperature: Some(0.0),
            max_tokens: None,
            response_schema: Some(("questions".into(), json!({ "type": "object" }))),
            volatile: vec![],
        };
        serde_json::from_slice(&body("m", &request, PARAMETERS, dialect, &maker())).unwrap()
    }

    fn sent(messages: Vec<Message>) -> Value {
        sent_as(messages, Dialect::default())
    }

    fn system(content: &str) -> Message {
        Message::System { content: content.into() }
    }

    fn user(content: &str) -> Message {
        Message::User { content: content.into() }
    }

    fn result(id: &str, content: &str) -> Message {
        Message::Tool { tool_call_id: id.into(), content: content.into() }
    }

    fn assistant(content: Option<&str>, calls: &[(&str, &str, &str)]) -> Message {
        let calls = calls.iter().map(|(id, name, arguments)| ToolCall {
            id: (*id).into(),
            name: (*name).into(),
            arguments: (*arguments).into(),
            provider: None,
        });
        Message::Assistant { content: content.map(Into::into), tool_calls: calls.collect(), provider: None }
    }

    fn conversation() -> Vec<Message> {
        vec![
            system("You repair code."),
            user("Fix it."),
            assistant(
                Some("I look."),
                &[("a", "bash", r#"{"command":"ls"}"#), ("b", "bash", r#"{"command":"pwd"}"#)],
            ),
            result("a", "README"),
            result("b", ""),
            assistant(None, &[]),
            user("You called no tool."),
            assistant(None, &[("c", "bash", "{}")]),
            result("c", "no command"),
        ]
    }

    /// Takes the marks out and returns where they were.
    fn unmark(body: &mut Value) -> Vec<String> {
        fn walk(value: &mut Value, path: &str, found: &mut Vec<String>) {
            match value {
                Value::Object(fields) => {
                    if fields
                        .remove("cache_control")
                        .is_some_and(|mark| mark == json!({ "type": "ephemeral" }))
                    {
                        found.push(path.to_owned());
                    }
                    fields.iter_mut().for_each(|(name, field)| walk(field, &format!("{path}/{name}"), found));
                }
                Value::Array(items) => {
                    let items = items.iter_mut().enumerate();
                    items.for_each(|(at, item)| walk(item, &format!("{path}/{at}"), found));
                }
                _ => {}
            }
        }
        let mut found = Vec::new();
        walk(body, "", &mut found);
        found
    }

    #[test]
    fn a_conversation_travels_in_anthropics_format() {
        let mut body = sent(conversation());
        unmark(&mut body);
        assert_eq!(
            body,
            json!({
                "model": "m", "max_tokens": 100, "temperature": 0.0,
                "tools": [
                    { "name": "bash", "description": "d", "input_schema": { "type": "object" } },
                    { "name": "submit", "description": "d", "input_schema": { "type": "object" } },
                ],
                "system": [{ "type": "text", "text": "You repair code." }],
                "messages": [
                    { "role": "user", "content": [{ "type": "text", "text": "Fix it." }] },
                    { "role": "assistant", "content": [
                        { "type": "text", "text": "I look." },
                        { "type": "tool_use", "id": "a", "name": "bash", "input": { "command": "ls" } },
                        { "type": "tool_use", "id": "b", "name": "bash", "input": { "command": "pwd" } },
                    ] },
                    { "role": "user", "content": [
                        { "type": "tool_result", "tool_use_id": "a", "content": [{ "type": "text", "text": "README" }] },
                        { "type": "tool_result", "tool_use_id": "b", "content": [{ "type": "text", "text": "(empty)" }] },
                    ] },
                    { "role": "assistant", "content": [{ "type": "text", "text": "(empty reply)" }] },
                    { "role": "user", "content": [{ "type": "text", "text": "You called no tool." }] },
                    { "role": "assistant", "content": [{ "type": "tool_use", "id": "c", "name": "bash", "input": {} }] },
                    { "role": "user", "content": [
                        { "type": "tool_result", "tool_use_id": "c", "content": [{ "type": "text", "text": "no command" }] },
                    ] },
                ],
            })
        );
    }

    #[test]
    fn each_request_begins_with_the_last_one_and_reads_what_that_wrote() {
        let all = conversation();
        // After each of these the model is asked.
        let mut requests: Vec<Value> = [2, 5, 7, 9].map(|end| sent(all[..end].to_vec())).into();
        let marks: Vec<Vec<String>> = requests.iter_mut().map(unmark).collect();
        assert_eq!(marks[0], ["/system/0", "/messages/0/content/0"]);
        assert_eq!(marks[1], ["/system/0", "/messages/0/content/0", "/messages/2/content/1"]);
        assert_eq!(marks[3], ["/system/0", "/messages/4/content/0", "/messages/6/content/0"]);
        for (earlier, later) in requests.iter().zip(&requests[1..]) {
            let messages = |body: &Value| body["messages"].as_array().cloned().unwrap();
            let (before, after) = (messages(earlier), messages(later));
            assert_eq!(before, after[..before.len()]);
            assert_eq!((&earlier["tools"], &earlier["system"]), (&later["tools"], &later["system"]));
        }
        for (earlier, later) in marks.iter().zip(&marks[1..]) {
            assert!(later.contains(earlier.last().unwrap()), "{earlier:?} {later:?}");
        }
    }

    #[test]
    fn without_a_system_message_the_tools_carry_the_mark() {
        let mut body = sent(vec![system(" "), user("Fix it."), system("Later.")]);
        assert_eq!(unmark(&mut body), ["/tools/1", "/messages/0/content/1"]);
        assert!(body.get("system").is_none());
        assert_eq!(body["messages"][0]["content"][1]["text"], "Later.", "where it was said");
    }

    #[test]
    fn results_come_first_in_what_our_side_says() {
        let mut body = sent(vec![
            user("Fix it."),
            assistant(None, &[("a", "bash", "{}")]),
            user("(The run goes on.)"),
            result("a", "README"),
        ]);
        unmark(&mut body);
        let said = &body["messages"][2]["content"];
        assert_eq!(
            (&said[0]["type"], &said[1]["text"]),
            (&json!("tool_result"), &json!("(The run goes on.)"))
        );
    }

    #[test]
    fn malformed_history_travels_in_a_form_that_is_taken() {
        let body = sent(vec![
            user(""),
            assistant(Some(" "), &[("functions.bash:0", "sub.mit!", "[1]")]),
            result("functions.bash:0", "no"),
        ]);
        let call = json!({ "type": "tool_use", "id": "functions_bash_0", "name": "sub_mit_",
            "input": { "malformed_arguments": "[1]" } });
        assert_eq!(body["messages"][1]["content"], json!([call]));
        assert_eq!(body["messages"][2]["content"][0]["tool_use_id"], "functions_bash_0");
        assert_eq!(body["messages"][0]["content"][0]["text"], "(empty)");
    }

    #[test]
    fn what_the_dialect_refuses_is_left_out() {
        let dialect = Dialect { temperature_refused: true, most_tokens: Some(50), ..Dialect::default() };
        let body = sent_as(vec![user("a")], dialect);
        assert_eq!((body.get("temperature"), &body["max_tokens"]), (None, &json!(50)));
    }

    #[test]
    fn thinking_goes_back_as_it_came_and_to_its_maker_only() {
        let blocks = json!([{ "type": "thinking", "thinking": "hm", "signature": "s" }, { "type": "text", "text": "a" }]);
        let state = |maker: &Maker| maker.seal(Map::from_iter([(CONTENT.to_owned(), blocks.clone())]));
        let content = |provider| {
            let message = Message::Assistant { content: Some("a".into()), tool_calls: vec![], provider };
            sent(vec![user("Fix it."), message, user("Go on.")])["messages"][1]["content"].clone()
        };
        assert_eq!(content(state(&maker())), blocks);
        let other = Maker::new(Protocol::OpenAi, "http://127.0.0.1/v1", "m");
        assert_eq!(content(state(&other)), json!([{ "type": "text", "text": "a" }]));
    }
}
