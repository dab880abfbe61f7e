//! Tools for models that call none: they write a call as one fenced block of their text.
//!
//! [`TextTools`] stands in front of such a model. The agent's loop sees calls and answers as ever; the model
//! sees a conversation of plain text, in which every reply holds at most one call and the next message is its
//! result. That text depends on the messages alone, so it only grows. What the fences look like is the
//! business of [`fences`].

mod fences;

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};

use self::fences::Read;
use crate::{
    domain::Price,
    method::ports::{ChatModel, ChatReply, ChatRequest, Message, ModelError, ToolCall, ToolSpec},
};

/// The texts that such a model reads; they lie where all prompts do.
#[derive(Debug, Clone, Copy)]
pub struct TextWords {
    /// How calls are written and which tools there are; stands at the end of the system message.
    pub instructions: fn(&[ToolSpec]) -> String,
    /// A tool's result, by the tool's name and what came of the call.
    pub result: fn(&str, &str) -> String,
}

/// A model that is offered tools as text.
pub struct TextTools {
    model: Arc<dyn ChatModel>,
    words: TextWords,
}

impl TextTools {
    pub fn new(model: Arc<dyn ChatModel>, words: TextWords) -> Self {
        Self { model, words }
    }

    fn messages(&self, request: &ChatRequest) -> Vec<Message> {
        let mut all = Vec::with_capacity(request.messages.len() + 1);
        let instructions = (self.words.instructions)(&request.tools);
        let mut rest = request.messages.as_slice();
        match rest.split_first() {
            Some((Message::System { content }, others)) => {
                all.push(Message::System { content: format!("{content}\n\n{instructions}") });
                rest = others;
            }
            _ => all.push(Message::System { content: instructions }),
        }
        // A reply with several calls, of a conversation that began with native calls, is told as several
        // replies: what the model reads is what it is asked to write.
        let mut open: Vec<&ToolCall> = Vec::new();
        for message in rest {
            match message {
                Message::Assistant { content, tool_calls, provider } if !tool_calls.is_empty() => {
                    open = tool_calls.iter().rev().collect();
                    let first = fenced(&tool_calls[0], &request.tools);
                    let prose = content.as_deref().unwrap_or_default();
                    let content = if prose.is_empty() { first } else { format!("{prose}\n\n{first}") };
                    all.push(assistant(content, provider.clone()));
                }
                Message::Tool { tool_call_id, content } => {
                    let called = open.pop_if(|call| call.id == *tool_call_id);
                    let name = called.map_or("", |call| call.name.as_str());
                    all.push(Message::User { content: (self.words.result)(name, content) });
                    if let Some(next) = open.last() {
                        all.push(assistant(fenced(next, &request.tools), None));
                    }
                }
                other => all.push(other.clone()),
            }
        }
        all
    }
}

fn assistant(content: String, provider: Option<Value>) -> Message {
    Message::Assistant { content: Some(content), tool_calls: Vec::new(), provider }
}

/// The one text that a tool takes, such as `command`, if it takes nothing else: its block holds that text as it
/// is. The block of every other tool holds the arguments as JSON.
pub fn only_text(tool: &ToolSpec) -> Option<&str> {
    let properties = tool.parameters.get("properties")?.as_object()?;
    let (name, schema) = properties.iter().next().filter(|_| properties.len() == 1)?;
    (schema.get("type")? == "string").then_some(name.as_str())
}

/// A call as the model would have written it.
fn fenced(call: &ToolCall, tools: &[ToolSpec]) -> String {
    let key = tools.iter().find(|tool| tool.name == call.name).and_then(only_text);
    let arguments = serde_json::from_str::<Value>(&call.arguments).ok();
    let text = key.and_then(|key| arguments.as_ref()?.get(key)?.as_str());
    fences::write(&call.name, text.unwrap_or(&call.arguments))
}

/// The reply with the call that its text holds.
fn with_call(reply: ChatReply, tools: &[ToolSpec], turn: u32) -> ChatReply {
    let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
    let written = reply.text.as_deref().unwrap_or_default();
    match fences::read(written, &names) {
        Read::Nothing => reply,
        Read::Unreadable(problem) => ChatReply { unreadable: Some(problem), ..reply },
        Read::Call { tool, content, prose } => {
            let spec = tools.iter().find(|spec| spec.name == tool);
            let arguments = match spec.and_then(only_text) {
                Some(key) => json!({ key: content }).to_string(),
                None => content,
            };
            let id = format!("call_{turn}_1");
            let call = ToolCall { id, name: tool, arguments, provider: None };
            let text = (!prose.is_empty()).then_some(prose);
            ChatReply { text, calls: vec![call], ..reply }
        }
    }
}

#[async_trait]
impl ChatModel for TextTools {
    fn name(&self) -> &str {
        self.model.name()
    }

    fn price(&self) -> Option<Price> {
        self.model.price()
    }

    async fn chat(&self, request: &ChatRequest) -> Result<ChatReply, ModelError> {
        if request.tools.is_empty() {
            return self.model.chat(request).await;
        }
        let asked = ChatRequest { messages: self.messages(request), tools: Vec::new(), ..request.clone() };
        let reply = self.model.chat(&asked).await?;
        Ok(if reply.calls.is_empty() { with_call(reply, &request.tools, request.turn) } else { reply })
    }
}

#[cfg(test)]
mod tests;
