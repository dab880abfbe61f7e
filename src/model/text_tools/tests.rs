use std::sync::Mutex;

use proptest::prelude::*;

use super::*;
use crate::{
    domain::{AgentName, Tokens},
    method::ports::Finish,
};

const WORDS: TextWords = TextWords {
    instructions: |tools| {
        format!("Tools: {}", tools.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>().join(", "))
    },
    result: |tool, content| format!("Result of {tool}: {content}"),
};

/// Replies with one text and keeps what it was asked.
struct Writes {
    text: &'static str,
    asked: Mutex<Vec<ChatRequest>>,
}

#[async_trait]
impl ChatModel for Writes {
    fn name(&self) -> &str {
        "writes"
    }

    fn price(&self) -> Option<Price> {
        None
    }

    async fn chat(&self, request: &ChatRequest) -> Result<ChatReply, ModelError> {
        self.asked.lock().unwrap().push(request.clone());
        Ok(reply(self.text))
    }
}

fn reply(text: &str) -> ChatReply {
    ChatReply {
        text: Some(text.into()),
        calls: vec![],
        finish: Finish::Stop,
        tokens: Tokens::default(),
        cache_written: 0,
        provider: None,
        unreadable: None,
        notes: vec![],
    }
}

fn tools() -> Vec<ToolSpec> {
    let command = json!({ "properties": { "command": { "type": "string" } } });
    let submit =
        json!({ "properties": { "summary": { "type": "string" }, "leave_out": { "type": "array" } } });
    let tool = |name: &str, parameters| ToolSpec { name: name.into(), description: "d".into(), parameters };
    vec![tool("bash", command), tool("submit", submit)]
}

fn request(messages: Vec<Message>) -> ChatRequest {
    ChatRequest {
        agent: AgentName::resolver(),
        turn: 7,
        messages,
        tools: tools(),
        temperature: None,
        max_tokens: None,
        response_schema: None,
        volatile: vec![],
    }
}

fn call(id: &str, name: &str, arguments: &str) -> ToolCall {
    ToolCall { id: id.into(), name: name.into(), arguments: arguments.into(), provider: None }
}

fn bash(id: &str, command: &str) -> ToolCall {
    call(id, "bash", &json!({ "command": command }).to_string())
}

fn said(content: Option<&str>, tool_calls: Vec<ToolCall>) -> Message {
    Message::Assistant { content: content.map(Into::into), tool_calls, provider: None }
}

fn result(id: &str, content: &str) -> Message {
    Message::Tool { tool_call_id: id.into(), content: content.into() }
}

async fn asked(messages: Vec<Message>) -> Vec<Message> {
    let model = Arc::new(Writes { text: "", asked: Mutex::default() });
    TextTools::new(model.clone(), WORDS).chat(&request(messages)).await.unwrap();
    let asked = model.asked.lock().unwrap().remove(0);
    assert!(asked.tools.is_empty());
    asked.messages
}

#[tokio::test]
async fn the_model_reads_a_conversation_of_plain_text() {
    let messages = vec![
        Message::System { content: "You repair.".into() },
        Message::User { content: "Fix it.".into() },
        said(Some("I look."), vec![bash("a", "ls"), bash("b", "cat ```")]),
        result("a", "README"),
        result("b", "no such file"),
        said(None, vec![call("c", "submit", r#"{"summary": "x""#)]),
        result("c", "not valid JSON"),
        said(Some("Done."), vec![]),
        Message::User { content: "You called no tool.".into() },
    ];
    let all = asked(messages.clone()).await;
    let told: Vec<String> = all
        .iter()
        .map(|message| match message {
            Message::System { content } | Message::User { content } => {
                format!("{}: {content}", message.role())
            }
            Message::Assistant { content, tool_calls, .. } => {
                assert!(tool_calls.is_empty());
                format!("assistant: {}", content.as_deref().unwrap())
            }
            Message::Tool { .. } => panic!("a tool message"),
        })
        .collect();
    insta::assert_snapshot!(told.join("\n----\n"), @r#"
    system: You repair.

    Tools: bash, submit
    ----
    user: Fix it.
    ----
    assistant: I look.

    ```bash
    ls
    ```
    ----
    user: Result of bash: README
    ----
    assistant: ````bash
    cat ```
    ````
    ----
    user: Result of bash: no such file
    ----
    assistant: ```submit
    {"summary": "x"
    ```
    ----
    user: Result of submit: not valid JSON
    ----
    assistant: Done.
    ----
    user: You called no tool.
    "#);
    let shorter = asked(messages[..5].to_vec()).await;
    assert_eq!(shorter, all[..shorter.len()], "the conversation only grows");
    let without_system = asked(messages[1..2].to_vec()).await;
    assert_eq!(without_system[0], Message::System { content: "Tools: bash, submit".into() });
}

#[tokio::test]
async fn a_block_becomes_a_call_and_two_of_them_are_told() {
    let reply_to = async |text| {
        let model = Arc::new(Writes { text, asked: Mutex::default() });
        TextTools::new(model, WORDS).chat(&request(vec![])).await.unwrap()
    };
    let one = reply_to("I look.\n\n```bash\nls \"a\"\n```").await;
    assert_eq!((one.text.as_deref(), one.calls), (Some("I look."), vec![bash("call_7_1", "ls \"a\"")]));
    let submit = reply_to("```submit\n{\"summary\": 1}\n```").await;
    assert_eq!((submit.text, submit.calls), (None, vec![call("call_7_1", "submit", "{\"summary\": 1}")]));
    let two = reply_to("```bash\nls\n```\n```bash\npwd\n```").await;
    assert!(two.unreadable.is_some() && two.calls.is_empty() && two.text.is_some());
    let none = reply_to("I am done.").await;
    assert_eq!((none.unreadable, none.calls, none.text.as_deref()), (None, vec![], Some("I am done.")));
}

#[tokio::test]
async fn a_call_without_tools_is_passed_through() {
    let model = Arc::new(Writes { text: "```bash\nls\n```", asked: Mutex::default() });
    let request = ChatRequest { tools: vec![], ..request(vec![said(Some("x"), vec![])]) };
    let reply = TextTools::new(model.clone(), WORDS).chat(&request).await.unwrap();
    assert!(reply.calls.is_empty());
    assert_eq!(model.asked.lock().unwrap()[0].messages, request.messages);
}

proptest! {
    #[test]
    fn a_call_in_the_history_reads_as_the_same_call(
        command in "(`{0,4}[a-z\" ]{0,4}\\PC{0,2}\n?){0,8}",
        prose in "[a-z. ]{0,20}",
        submits in any::<bool>(),
    ) {
        let arguments = json!({ "summary": command, "leave_out": [] }).to_string();
        let call = if submits { call("call_7_1", "submit", &arguments) } else { bash("call_7_1", &command) };
        let written = format!("{}\n\n{}", prose.trim(), fenced(&call, &tools()));
        let read = with_call(reply(&written), &tools(), 7);
        prop_assert_eq!(read.calls, vec![call]);
        prop_assert_eq!(read.text.unwrap_or_default(), prose.trim());
    }
}
