//! What goes over the wire and what comes back.

use acquire::{
    domain::Tokens,
    method::ports::{ChatModel, ChatRequest, Finish, Message, ToolCall},
    model::ModelSettings,
};
use proptest::{prelude::*, test_runner::TestRunner};
use serde_json::{Value, json};
use wiremock::ResponseTemplate;

use super::endpoint::{base_url, call, call_with, endpoint, error, fine, model, request, settings};

fn completion(message: Value, finish: &str) -> ResponseTemplate {
    ResponseTemplate::new(200).set_body_json(json!({
        "choices": [{ "message": message, "finish_reason": finish }],
        "usage": { "prompt_tokens": 100, "completion_tokens": 7, "prompt_tokens_details": { "cached_tokens": 64 } },
    }))
}

#[tokio::test]
async fn a_conversation_travels_in_the_openai_format() {
    let server = endpoint(vec![fine()]).await;
    let (model, _) = model(&settings(&base_url(&server)));
    let mut request = request();
    request.messages.push(Message::Assistant {
        content: Some("Looking.".into()),
        tool_calls: vec![ToolCall {
            id: "c1".into(),
            name: "bash".into(),
            arguments: r#"{"command":"ls"}"#.into(),
            provider: None,
        }],
        provider: None,
    });
    request.messages.push(Message::Tool { tool_call_id: "c1".into(), content: "README".into() });
    request.response_schema = Some(("answer".into(), json!({ "type": "object" })));
    model.chat(&request).await.unwrap();

    let received = &server.received_requests().await.unwrap()[0];
    assert_eq!(received.url.path(), "/v1/chat/completions");
    assert!(received.headers.get("authorization").is_none());
    insta::assert_snapshot!(serde_json::to_string_pretty(&received.body_json::<Value>().unwrap()).unwrap(), @r#"
    {
      "model": "test-model",
      "messages": [
        {
          "role": "system",
          "content": "You repair code."
        },
        {
          "role": "user",
          "content": "Fix it."
        },
        {
          "role": "assistant",
          "content": "Looking.",
          "tool_calls": [
            {
              "id": "c1",
              "type": "function",
              "function": {
                "name": "bash",
                "arguments": "{\"command\":\"ls\"}"
              }
            }
          ]
        },
        {
          "role": "tool",
          "tool_call_id": "c1",
          "content": "README"
        }
      ],
      "tools": [
        {
          "type": "function",
          "function": {
            "name": "bash",
            "description": "Runs a command.",
            "parameters": {
              "type": "object",
              "properties": {
                "command": {
                  "type": "string"
                }
              }
            }
          }
        }
      ],
      "temperature": 0.0,
      "max_tokens": 8192,
      "response_format": {
        "type": "json_schema",
        "json_schema": {
          "name": "answer",
          "schema": {
            "type": "object"
          }
        }
      }
    }
    "#);
}

#[tokio::test]
async fn settings_go_before_the_agents_own_values_and_the_key_goes_into_the_header() {
    let server = endpoint(vec![fine()]).await;
    let settings = ModelSettings {
        temperature: Some(1.0),
        max_tokens: 77,
        api_key: Some("sk-1".to_owned().into()),
        base_url: format!("{}/?api-version=2", base_url(&server)),
        ..settings("")
    };
    let (model, _) = model(&settings);
    model.chat(&request()).await.unwrap();
    let received = &server.received_requests().await.unwrap()[0];
    let body: Value = received.body_json().unwrap();
    assert_eq!((&body["temperature"], &body["max_tokens"]), (&json!(1.0), &json!(77)));
    assert_eq!(received.headers["authorization"], "Bearer sk-1");
    assert_eq!(received.url.query(), Some("api-version=2"));
}

#[tokio::test]
async fn an_agents_own_limit_goes_before_the_default() {
    let server = endpoint(vec![fine()]).await;
    let (model, _) = model(&settings(&base_url(&server)));
    model.chat(&ChatRequest { max_tokens: Some(5), ..request() }).await.unwrap();
    let body: Value = server.received_requests().await.unwrap()[0].body_json().unwrap();
    assert_eq!(body["max_tokens"], 5);
}

#[tokio::test]
async fn calls_of_unknown_tools_and_broken_or_empty_arguments_are_passed_on() {
    let message = json!({ "content": null, "tool_calls": [
        { "id": "a", "type": "function", "function": { "name": "read_file", "arguments": "{\"path\": \"x\"}" } },
        { "id": "b", "type": "function", "function": { "name": "bash", "arguments": "{\"command\": \"ls" } },
        { "id": "c", "type": "function", "function": { "name": "bash", "arguments": "" } },
    ] });
    let outcome = call(vec![completion(message, "tool_calls")]).await;
    let reply = outcome.result.unwrap();
    let calls: Vec<_> = reply.calls.iter().map(|c| (&*c.id, &*c.name, &*c.arguments)).collect();
    assert_eq!(
        calls,
        [("a", "read_file", "{\"path\": \"x\"}"), ("b", "bash", "{\"command\": \"ls"), ("c", "bash", "")]
    );
    assert_eq!(reply.finish, Finish::ToolCalls);
    assert_eq!(reply.tokens, Tokens { input: 100, cached: 64, output: 7 });
    assert!(reply.notes.is_empty());
    assert_eq!(outcome.requests, 1);
}

#[tokio::test]
async fn a_reply_that_is_cut_off_at_the_token_limit_is_a_reply() {
    let reply = call(vec![completion(json!({ "content": "Let me thi" }), "length")]).await.result.unwrap();
    assert_eq!((reply.text.as_deref(), reply.finish), (Some("Let me thi"), Finish::Length));
    // All tokens may go into thinking.
    let reply = call(vec![completion(json!({ "content": null }), "length")]).await.result.unwrap();
    assert_eq!((reply.text, reply.calls.len(), reply.finish), (None, 0, Finish::Length));
}

#[tokio::test]
async fn a_conversation_that_no_longer_fits_is_told_at_once() {
    let outcome = call(vec![error(400, "This model's maximum context length is 128000 tokens.")]).await;
    insta::assert_snapshot!(outcome.error(), @"the conversation no longer fits into the model's context: This model's maximum context length is 128000 tokens");
    assert_eq!(outcome.requests, 1);
}

#[test]
fn no_answer_makes_the_client_panic() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let bytes = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..300),
        r#"\{"choices": ?\[\{"message": ?.{0,40}"#.prop_map(String::into_bytes),
        any::<[i64; 2]>().prop_map(|[a, b]| {
            json!({ "choices": [{ "message": {} }], "usage": { "prompt_tokens": a, "completion_tokens": b } })
                .to_string()
                .into_bytes()
        }),
    ];
    let statuses = prop_oneof![Just(200_u16), 200..=599_u16];
    let config = ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() };
    let run = TestRunner::new(config).run(&(statuses, bytes), |(status, body)| {
        let answer = ResponseTemplate::new(status).set_body_bytes(body);
        let _ = runtime.block_on(call_with(vec![answer], |s| ModelSettings { retries: 0, ..s }));
        Ok(())
    });
    run.unwrap();
}
