//! What differs in Anthropic's wire format: the headers, and limits that are lowered instead of left out.

use acquire::{
    domain::{Money, Price},
    method::ports::ChatModel,
    model::{ModelSettings, Protocol},
};
use serde_json::{Value, json};
use wiremock::{MockServer, ResponseTemplate};

use super::endpoint::{base_url, call_with, endpoint, model, request, settings};

fn message() -> ResponseTemplate {
    ResponseTemplate::new(200).set_body_json(json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "m",
        "content": [{ "type": "text", "text": "done" }], "stop_reason": "end_turn", "stop_sequence": null,
        "usage": { "input_tokens": 10, "cache_read_input_tokens": 1000, "cache_creation_input_tokens": 200, "output_tokens": 5 },
    }))
}

fn error(status: u16, kind: &str, message: &str) -> ResponseTemplate {
    ResponseTemplate::new(status).set_body_json(
        json!({ "type": "error", "error": { "type": kind, "message": message }, "request_id": "req_1" }),
    )
}

fn anthropic(settings: ModelSettings) -> ModelSettings {
    ModelSettings { protocol: Protocol::Anthropic, ..settings }
}

async fn sent(server: &MockServer) -> Vec<Value> {
    server.received_requests().await.unwrap().iter().map(|it| it.body_json().unwrap()).collect()
}

#[tokio::test]
async fn the_key_and_the_version_go_into_headers_of_their_own() {
    let server = endpoint(vec![message()]).await;
    let key = Some("sk-ant-1".to_owned().into());
    let (model, _) = model(&ModelSettings { api_key: key, ..anthropic(settings(&base_url(&server))) });
    model.chat(&request()).await.unwrap();
    let received = &server.received_requests().await.unwrap()[0];
    assert_eq!(received.url.path(), "/v1/messages");
    assert_eq!(received.headers["x-api-key"], "sk-ant-1");
    assert_eq!(received.headers["anthropic-version"], "2023-06-01");
    assert!(received.headers.get("authorization").is_none());
    assert!(!format!("{model:?}").contains("sk-ant"));
}

#[tokio::test]
async fn a_refused_temperature_is_left_out_remembered_and_said() {
    let refusal = error(400, "invalid_request_error", "`temperature` is deprecated for this model.");
    let server = endpoint(vec![refusal, message(), message()]).await;
    let (model, _) = model(&anthropic(settings(&base_url(&server))));
    let notes = model.chat(&request()).await.unwrap().notes;
    assert_eq!(notes, ["the provider refused `temperature`: its default applies"]);
    assert!(model.chat(&request()).await.unwrap().notes.is_empty());
    let temperatures: Vec<bool> =
        sent(&server).await.iter().map(|body| body.get("temperature").is_some()).collect();
    assert_eq!(temperatures, [true, false, false]);
}

#[tokio::test]
async fn a_limit_that_is_too_large_is_lowered_to_the_providers_own() {
    let refusal = error(
        400,
        "invalid_request_error",
        "max_tokens: 100000 > 64000, which is the maximum allowed number of output tokens for m",
    );
    let server = endpoint(vec![refusal.clone(), message(), message(), refusal]).await;
    let large = ModelSettings { max_tokens: 100_000, retries: 0, ..anthropic(settings(&base_url(&server))) };
    let (model, _) = model(&large);
    let notes = model.chat(&request()).await.unwrap().notes;
    assert_eq!(notes, ["the provider refused `max_tokens` = 100000: its limit of 64000 applies"]);
    model.chat(&request()).await.unwrap();
    let limits: Vec<Value> = sent(&server).await.iter().map(|body| body["max_tokens"].clone()).collect();
    assert_eq!(limits, [100_000, 64_000, 64_000]);
    // Said again of a limit that was lowered already, it is no reason to ask once more.
    assert_eq!(model.chat(&request()).await.unwrap_err().class(), "model_refused");
}

#[tokio::test]
async fn what_is_written_to_the_cache_is_paid_for() {
    let outcome = call_with(vec![message()], anthropic).await;
    let price = Price { input: 4.0, cached: 0.2, cache_write: Some(5.0), output: 20.0 };
    let cost = outcome.result.unwrap().cost(price);
    assert_eq!(cost, Money::from_usd((10.0 * 4.0 + 1000.0 * 0.2 + 200.0 * 5.0 + 5.0 * 20.0) / 1e6));
}

#[tokio::test]
async fn an_overloaded_provider_is_waited_for_and_an_error_in_place_of_a_message_is_told() {
    let overloaded = || error(529, "overloaded_error", "Overloaded").insert_header("retry-after", "3");
    let outcome = call_with(vec![overloaded(), overloaded(), message()], anthropic).await;
    assert!(outcome.result.is_ok());
    assert!(
        outcome.pauses.len() == 2 && outcome.pauses.iter().all(|pause| *pause >= 3.0),
        "{:?}",
        outcome.pauses
    );

    let once = |settings| ModelSettings { retries: 0, ..anthropic(settings) };
    let inside = error(200, "api_error", "Internal server error");
    let outcome = call_with(vec![inside], once).await;
    insta::assert_snapshot!(outcome.error(), @"the model endpoint http://endpoint/v1 answered with something that is no chat completion (1 try): an error in its place: Internal server error. Try again later");
    let other = ResponseTemplate::new(200).set_body_json(json!({ "choices": [] }));
    let outcome = call_with(vec![other], once).await;
    insta::assert_snapshot!(outcome.error(), @r#"the model endpoint http://endpoint/v1 answered with something that is no chat completion (1 try): JSON without `content`: {"choices":[]}. Check that `[model] base_url` is right, or try again later"#);
}
