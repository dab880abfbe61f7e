//! Bad answers of an endpoint: what is repeated, how often, and what people are told.

use std::time::Duration;

use acquire::{
    method::ports::{ChatModel, ModelError},
    model::ModelSettings,
};
use insta::assert_snapshot;
use serde_json::json;
use tokio::{io::AsyncReadExt, net::TcpListener};
use wiremock::ResponseTemplate;

use super::endpoint::{call, call_with, completion, error, fine, model, raw, request, settings};

#[tokio::test]
async fn an_endpoint_that_is_down_is_tried_again_and_named() {
    let address = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap()
    };
    let (model, pauses) = model(&settings(&format!("http://{address}/v1")));
    let error =
        model.chat(&request()).await.unwrap_err().to_string().replace(&address.to_string(), "endpoint");
    assert_snapshot!(error, @"the model endpoint http://endpoint/v1 cannot be reached: Connection refused (os error 111). Check `[model] base_url` and that the server runs");
    assert_eq!(pauses.seconds().len(), 5);
}

#[tokio::test]
async fn a_refused_key_is_told_at_once_and_never_shown() {
    let answer = || error(401, "Incorrect API key provided: sk-secret-1. Find yours at https://example.com.");
    let with_key = |settings| ModelSettings { api_key: Some("sk-secret-1".to_owned().into()), ..settings };
    let outcome = call_with(vec![answer()], with_key).await;
    assert_snapshot!(outcome.error(), @"the model endpoint http://endpoint/v1 refuses the key (401): Incorrect API key provided: [key]. Find yours at https://example.com. Check the key that `[model] api_key_env` names, or ACQUIRE_MODEL__API_KEY");
    assert_eq!((outcome.requests, outcome.class()), (1, "model_unauthorized"));

    // Where the text is shortened, no part of the key is left either.
    let padded = format!("{}sk-secret-1", "x".repeat(495));
    let outcome = call_with(vec![error(403, &padded)], with_key).await;
    assert!(!outcome.error().contains("sk-"), "{}", outcome.error());

    let placeholder = |settings| ModelSettings { api_key: Some("one".to_owned().into()), ..settings };
    assert!(call_with(vec![error(400, "no one")], placeholder).await.error().ends_with("no one"));

    let echoed = error(400, "no").insert_header("request-id", "sk-secret-1");
    assert!(call_with(vec![echoed], with_key).await.error().ends_with("(400): no"));

    let model = model(&with_key(settings("http://127.0.0.1:1/v1"))).0;
    assert!(!format!("{model:?}").contains("sk-"));
}

#[tokio::test]
async fn a_rate_limit_with_retry_after_is_obeyed() {
    let limited = |header, value| error(429, "slow down").insert_header(header, value);
    let answers = vec![
        limited("retry-after", "7"),
        limited("retry-after-ms", "1500"),
        limited("retry-after", "Mon, 30 Nov 2026 10:01:00 GMT"),
        fine(),
    ];
    let outcome = call(answers).await;
    assert!(outcome.result.is_ok());
    let asked = [7.0, 1.5, 60.0];
    assert_eq!(outcome.pauses.len(), asked.len());
    for (number, (pause, asked)) in outcome.pauses.iter().zip(asked).enumerate() {
        // On top comes a tenth of the pause that would have been made otherwise.
        let most = 0.1 * 2_f64.powi(number as i32);
        assert!(asked <= *pause && *pause <= asked + most, "{pause} for {asked}");
    }
}

#[tokio::test]
async fn a_rate_limit_without_retry_after_is_waited_out_with_growing_pauses() {
    let outcome = call(vec![error(429, "slow down"), error(429, "slow down"), fine()]).await;
    assert!(outcome.result.is_ok());
    let [first, second] = outcome.pauses[..] else { panic!("{:?}", outcome.pauses) };
    assert!((0.5..=1.0).contains(&first) && (1.0..=2.0).contains(&second), "{:?}", outcome.pauses);

    let outcome = call((0..9).map(|_| error(429, "slow down")).collect()).await;
    assert_snapshot!(outcome.error(), @"the model endpoint http://endpoint/v1 still answers 429 after 6 tries: slow down. Try again later");
    assert_eq!((outcome.requests, outcome.class()), (6, "model_unavailable"));
}

#[tokio::test]
async fn a_wait_that_is_longer_than_a_call_waits_is_told_instead() {
    let outcome = call(vec![error(429, "come back tomorrow").insert_header("retry-after", "86400")]).await;
    assert_snapshot!(outcome.error(), @"the model endpoint http://endpoint/v1 still answers 429 after 1 try: come back tomorrow. It asks to wait 86400 s, which is longer than a call waits. Try again then");
    assert_eq!((outcome.requests, outcome.pauses.len()), (1, 0));
}

#[tokio::test]
async fn a_server_error_is_repeated() {
    assert!(call(vec![error(500, "oops"), error(503, "overloaded"), fine()]).await.result.is_ok());
    let outcome =
        call_with((0..3).map(|_| error(500, "oops")).collect(), |s| ModelSettings { retries: 2, ..s });
    assert_snapshot!(outcome.await.error(), @"the model endpoint http://endpoint/v1 still answers 500 after 3 tries: oops. Try again later");
}

#[tokio::test]
async fn a_slow_endpoint_is_tried_once_more_only() {
    let slow = || fine().set_delay(Duration::from_secs(60));
    let quick = |s| ModelSettings { timeout_seconds: 1.0, ..s };
    let outcome = call_with(vec![slow(), slow(), slow()], quick).await;
    assert_snapshot!(outcome.error(), @"the model endpoint http://endpoint/v1 gave no whole answer within 1 s (2 tries). Raise `[model] timeout_seconds`, or take a faster model");
    assert_eq!((outcome.requests, outcome.class()), (2, "model_timeout"));
    assert!(call_with(vec![slow(), fine()], quick).await.result.is_ok());
}

#[tokio::test]
async fn a_truncated_body_is_repeated() {
    let base_url = raw(
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 900\r\n\r\n{\"choices\": [{",
    )
    .await;
    let (client, pauses) = model(&settings(&base_url));
    let error =
        client.chat(&request()).await.unwrap_err().to_string().replace(&base_url, "http://endpoint/v1");
    assert_snapshot!(error, @"the model endpoint http://endpoint/v1 answered with something that is no chat completion (6 tries): the answer ends early (end of file before message length reached). Check that `[model] base_url` is right, or try again later");
    assert_eq!(pauses.seconds().len(), 5);

    let whole = completion("done").to_string();
    let cut = ResponseTemplate::new(200).set_body_string(&whole[..40]);
    assert!(call(vec![cut.clone(), fine()]).await.result.is_ok());
    let outcome = call_with(vec![cut], |s| ModelSettings { retries: 0, ..s }).await;
    assert_snapshot!(outcome.error(), @r#"the model endpoint http://endpoint/v1 answered with something that is no chat completion (1 try): JSON that is cut off or broken after 40 bytes: {"id":"chatcmpl-1","object":"chat.comple. Check that `[model] base_url` is right, or try again later"#);
}

#[tokio::test]
async fn a_connection_that_closes_without_an_answer_is_repeated() {
    let base_url = raw(b"").await;
    let (client, pauses) = model(&settings(&base_url));
    let error =
        client.chat(&request()).await.unwrap_err().to_string().replace(&base_url, "http://endpoint/v1");
    assert_snapshot!(error, @"the model endpoint http://endpoint/v1 cannot be reached: connection closed before message completed. Check `[model] base_url` and that the server runs");
    assert_eq!(pauses.seconds().len(), 5);
}

#[tokio::test]
async fn an_html_page_is_no_reply() {
    let page = "<!DOCTYPE html>\n<html><head><TITLE>Welcome to\n nginx!</TITLE></head><body>…</body></html>";
    let answer = |status| ResponseTemplate::new(status).set_body_raw(page, "text/html");
    let outcome = call(vec![answer(200), answer(502), fine()]).await;
    assert!(outcome.result.is_ok());
    let once = |s| ModelSettings { retries: 0, ..s };
    assert_snapshot!(call_with(vec![answer(200)], once).await.error(), @"the model endpoint http://endpoint/v1 answered with something that is no chat completion (1 try): an HTML page: Welcome to nginx!. Check that `[model] base_url` is right, or try again later");
    assert_snapshot!(call_with(vec![answer(502)], once).await.error(), @"the model endpoint http://endpoint/v1 still answers 502 after 1 try: an HTML page: Welcome to nginx!. Try again later");
    assert_snapshot!(call_with(vec![answer(404)], once).await.error(), @"the model endpoint http://endpoint/v1 refuses the request (404): an HTML page: Welcome to nginx!. Check `[model] name`, and `base_url`, which usually ends in /v1");
}

#[tokio::test]
async fn empty_choices_are_repeated() {
    let empty = || ResponseTemplate::new(200).set_body_json(json!({ "choices": [] }));
    assert!(call(vec![empty(), fine()]).await.result.is_ok());
    let outcome = call_with(vec![empty(), empty()], |s| ModelSettings { retries: 1, ..s }).await;
    assert_snapshot!(outcome.error(), @"the model endpoint http://endpoint/v1 answered with something that is no chat completion (2 tries): `choices` is empty. Check that `[model] base_url` is right, or try again later");
}

#[tokio::test]
async fn an_error_with_status_200_is_read_as_the_error_it_is() {
    let answer = |error| ResponseTemplate::new(200).set_body_json(json!({ "error": error }));
    let once = |s| ModelSettings { retries: 0, ..s };
    assert!(call(vec![answer(json!({ "message": "upstream hiccup" })), fine()]).await.result.is_ok());
    let outcome = call_with(vec![answer(json!({ "message": "upstream hiccup" }))], once).await;
    assert_snapshot!(outcome.error(), @"the model endpoint http://endpoint/v1 answered with something that is no chat completion (1 try): an error in its place: upstream hiccup. Try again later");
    let outcome = call(vec![answer(json!({ "message": "No auth credentials found", "code": 401 }))]).await;
    assert_eq!((outcome.requests, outcome.class()), (1, "model_unauthorized"));
    let outcome = call(vec![answer(json!({ "message": "maximum context length is 9", "code": 400 }))]).await;
    assert_eq!((outcome.requests, outcome.class()), (1, "context_overflow"));
}

#[tokio::test]
async fn what_cannot_succeed_is_not_repeated() {
    let quota = ResponseTemplate::new(429)
        .set_body_json(json!({ "error": { "message": "You exceeded your current quota", "type": "insufficient_quota" } }))
        .insert_header("retry-after", "1");
    let answers = [
        quota,
        error(402, "Insufficient Balance"),
        error(404, "The model `test-model` does not exist"),
        error(400, "Invalid 'messages[1]'"),
        ResponseTemplate::new(400),
        ResponseTemplate::new(307).insert_header("location", "https://elsewhere.example/v1"),
    ];
    let mut errors = Vec::new();
    for answer in answers {
        let outcome = call(vec![answer]).await;
        assert_eq!((outcome.requests, outcome.pauses.len()), (1, 0));
        errors.push(outcome.error());
    }
    assert_snapshot!(errors.join("\n"), @r#"
    the model endpoint http://endpoint/v1 refuses the request (429): You exceeded your current quota. The account has no credit left: top it up at the provider
    the model endpoint http://endpoint/v1 refuses the request (402): Insufficient Balance. The account has no credit left: top it up at the provider
    the model endpoint http://endpoint/v1 refuses the request (404): The model `test-model` does not exist. Check `[model] name`, and `base_url`, which usually ends in /v1
    the model endpoint http://endpoint/v1 refuses the request (400): Invalid 'messages[1]'
    the model endpoint http://endpoint/v1 refuses the request (400): an empty answer
    the model endpoint http://endpoint/v1 refuses the request (307): it redirects to https://elsewhere.example/v1, which is not followed. Set `[model] base_url` to where the model is
    "#);
}

#[tokio::test]
async fn an_endless_body_is_cut_off() {
    let huge = ResponseTemplate::new(200).set_body_bytes(vec![b' '; (16 << 20) + 1]);
    let outcome = call(vec![huge]).await;
    assert_snapshot!(outcome.error(), @"the model endpoint http://endpoint/v1 answered with something that is no chat completion (1 try): an answer of more than 16 MiB");
    assert_eq!(outcome.requests, 1);
}

#[tokio::test]
async fn terminal_codes_of_an_endpoint_do_not_reach_people() {
    let outcome = call(vec![error(400, "bad\u{1b}[2J\u{7} \r\n\t request")]).await;
    let Err(ModelError::Refused { message, .. }) = outcome.result else { panic!("{:?}", outcome.result) };
    assert_eq!(message, "bad[2J request");
}

#[tokio::test]
async fn dropping_a_call_ends_it() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (client, pauses) = model(&settings(&format!("http://{}/v1", listener.local_addr().unwrap())));
    let request = request();
    let mut call = Box::pin(client.chat(&request));
    let mut connection = tokio::select! {
        answer = &mut call => panic!("{answer:?} before the endpoint answered"),
        connection = listener.accept() => connection.unwrap().0,
    };
    drop(call);
    let mut rest = Vec::new();
    connection.read_to_end(&mut rest).await.unwrap();
    assert!(pauses.seconds().is_empty());
}
