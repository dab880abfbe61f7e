//! Optional parameters that a provider refuses: asked once more without, remembered, and said.

use acquire::{
    method::ports::{ChatModel, ChatRequest, Message, ToolCall},
    model::{HttpModel, ModelSettings},
};
use serde_json::{Value, json};
use wiremock::{Mock, MockServer, ResponseTemplate, matchers::any};

use super::endpoint::{Sends, base_url, call, error, fine, model, request, settings};

/// An endpoint that refuses requests with these keys, in the providers' own words.
async fn refusing(refusals: &[(&'static str, ResponseTemplate)]) -> (MockServer, HttpModel) {
    let server = MockServer::start().await;
    for (key, answer) in refusals {
        Mock::given(Sends(key)).respond_with(answer.clone()).mount(&server).await;
    }
    Mock::given(any()).respond_with(fine()).mount(&server).await;
    let (model, _) = model(&settings(&base_url(&server)));
    (server, model)
}

/// The keys of each request beside model, messages and tools.
async fn sent(server: &MockServer) -> Vec<Vec<String>> {
    let requests = server.received_requests().await.unwrap();
    let keys = |body: &[u8]| {
        let body: Value = serde_json::from_slice(body).unwrap();
        let keys = body.as_object().unwrap().keys().cloned();
        keys.filter(|key| !["model", "messages", "tools"].contains(&key.as_str())).collect()
    };
    requests.iter().map(|request| keys(&request.body)).collect()
}

#[tokio::test]
async fn a_refused_temperature_is_left_out_remembered_and_said() {
    let refusal = error(
        400,
        "Unsupported value: 'temperature' does not support 0 with this model. Only the default (1) value is supported.",
    );
    let (server, model) = refusing(&[("temperature", refusal)]).await;
    let first = model.chat(&request()).await.unwrap();
    assert_eq!(first.notes, ["the provider refused `temperature`: its default applies"]);
    let second = model.chat(&request()).await.unwrap();
    assert!(second.notes.is_empty());
    assert_eq!(
        sent(&server).await,
        [vec!["temperature", "max_tokens"], vec!["max_tokens"], vec!["max_tokens"]]
    );
}

#[tokio::test]
async fn a_newer_name_for_max_tokens_is_taken_up() {
    let refusal = error(
        400,
        "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
    );
    let (server, model) = refusing(&[("max_tokens", refusal)]).await;
    let reply = model.chat(&request()).await.unwrap();
    assert_eq!(reply.notes, ["the provider refused `max_tokens`: sent as `max_completion_tokens`"]);
    model.chat(&request()).await.unwrap();
    let newer = vec!["temperature", "max_completion_tokens"];
    assert_eq!(sent(&server).await, [vec!["temperature", "max_tokens"], newer.clone(), newer]);
}

#[tokio::test]
async fn everything_can_be_refused_one_after_the_other() {
    let schema = ("response_format", error(400, "This response_format type is unavailable now"));
    let temperature = ("temperature", error(422, "temperature is not supported"));
    let newer = ("max_completion_tokens", error(400, "unknown field max_completion_tokens"));
    let older = ("max_tokens", error(400, "use max_completion_tokens, max_tokens is gone"));
    let (server, model) = refusing(&[schema, temperature, newer, older]).await;
    let request = ChatRequest { response_schema: Some(("answer".into(), json!({}))), ..request() };
    let reply = model.chat(&request).await.unwrap();
    assert_eq!(
        reply.notes,
        [
            "the provider refused `response_format`: the reply's shape is only asked for",
            "the provider refused `temperature`: its default applies",
            "the provider refused `max_tokens`: sent as `max_completion_tokens`",
            "the provider refused `max_tokens`: its own limit on a reply's length applies",
        ]
    );
    assert!(model.chat(&request).await.unwrap().notes.is_empty());
    let sent = sent(&server).await;
    assert_eq!((sent.len(), &sent[4], &sent[5]), (6, &vec![], &vec![]));
}

#[tokio::test]
async fn a_limit_that_is_too_large_for_a_long_conversation_only_is_not_remembered() {
    let too_large = "'max_tokens' is too large: 8192. This model's maximum context length is 9000 tokens and your request has 2000 input tokens";
    let (server, model) = refusing(&[("max_tokens", error(400, too_large))]).await;
    for _ in 0..2 {
        assert_eq!(model.chat(&request()).await.unwrap().notes.len(), 1);
    }
    assert_eq!(sent(&server).await.len(), 4);
}

#[tokio::test]
async fn a_refusal_that_stands_without_the_parameter_too_is_told_and_not_remembered() {
    let outcome = call(vec![error(400, "temperature is odd"), error(400, "so are you")]).await;
    assert!(outcome.error().ends_with("so are you"), "{}", outcome.error());

    let server =
        super::endpoint::endpoint(vec![error(400, "temperature is odd"), error(400, "no"), fine()]).await;
    let (model, _) = model(&settings(&base_url(&server)));
    assert!(model.chat(&request()).await.is_err());
    assert!(model.chat(&request()).await.unwrap().notes.is_empty());
    assert_eq!(sent(&server).await[2], ["temperature", "max_tokens"]);
}

#[tokio::test]
async fn a_parameter_that_was_not_sent_cannot_be_refused() {
    let server = super::endpoint::endpoint(vec![error(400, "temperature is odd")]).await;
    let (model, _) = model(&ModelSettings { retries: 0, ..settings(&base_url(&server)) });
    assert!(model.chat(&ChatRequest { temperature: None, ..request() }).await.is_err());
    assert_eq!(sent(&server).await.len(), 1);
}

#[tokio::test]
async fn a_conversation_of_another_model_is_taken_up_with_placeholders() {
    let call = ToolCall { id: "a".into(), name: "bash".into(), arguments: "{}".into(), provider: None };
    let mut request = request();
    request.messages.push(Message::Assistant { content: None, tool_calls: vec![call], provider: None });
    request.messages.push(Message::Tool { tool_call_id: "a".into(), content: "README".into() });

    let gemini = "Function call is missing a thought_signature in functionCall parts.";
    let deepseek = "The `reasoning_content` in the thinking mode must be passed back to the API.";
    let sent = async |refusal: &str| {
        let server =
            super::endpoint::endpoint(vec![error(400, refusal), fine(), fine(), error(400, refusal)]).await;
        let (model, _) = model(&settings(&base_url(&server)));
        let notes = model.chat(&request).await.unwrap().notes;
        assert!(notes.len() == 1 && notes[0].ends_with("a placeholder was sent"), "{notes:?}");
        assert!(model.chat(&request).await.unwrap().notes.is_empty(), "it is remembered");
        assert_eq!(model.chat(&request).await.unwrap_err().class(), "model_refused", "asked once only");
        let requests = server.received_requests().await.unwrap();
        [0, 1, 2].map(|number: usize| requests[number].body_json::<Value>().unwrap()["messages"][2].clone())
    };
    let [first, second, third] = sent(gemini).await;
    assert_eq!(first["tool_calls"][0].get("extra_content"), None);
    let signature = json!({ "google": { "thought_signature": "skip_thought_signature_validator" } });
    assert_eq!(second["tool_calls"][0]["extra_content"], signature);
    assert_eq!(second, third);
    let [first, second, third] = sent(deepseek).await;
    assert_eq!((first.get("reasoning_content"), &second["reasoning_content"]), (None, &json!("")));
    assert_eq!(second, third);
}
