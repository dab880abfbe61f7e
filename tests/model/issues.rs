//! Issues read from GitHub's REST API.

use acquire::{
    domain::{IssueNumber, RepoId},
    github::{IssueError, IssueReader},
};
use insta::assert_snapshot;
use serde_json::{Value, json};
use url::Url;
use wiremock::{
    Mock, MockServer, ResponseTemplate,
    matchers::{any, method, path},
};

fn repo() -> RepoId {
    RepoId::from_url("https://github.com/octo/hello").unwrap()
}

fn issue() -> Value {
    json!({ "number": 12, "title": "It breaks", "body": "When I…\r\n", "user": { "login": "x" }, "state": "open" })
}

fn reader(server: &MockServer) -> IssueReader {
    IssueReader::new().unwrap().with_api(Url::parse(&server.uri()).unwrap())
}

async fn answering(answer: ResponseTemplate) -> MockServer {
    let server = MockServer::start().await;
    Mock::given(any()).respond_with(answer).mount(&server).await;
    server
}

async fn error(answer: ResponseTemplate) -> String {
    let server = answering(answer).await;
    let error = reader(&server).read(&repo(), IssueNumber(12)).await.unwrap_err();
    error.to_string().replace(&server.uri(), "http://api")
}

fn json_answer(status: u16, body: Value) -> ResponseTemplate {
    ResponseTemplate::new(status).set_body_json(body)
}

#[tokio::test]
async fn an_issue_is_read_as_its_author_wrote_it() {
    let server = MockServer::start().await;
    Mock::given(method("GET"))
        .and(path("/repos/octo/hello/issues/12"))
        .respond_with(json_answer(200, issue()))
        .mount(&server)
        .await;
    let issue = reader(&server).read(&repo(), IssueNumber(12)).await.unwrap();
    assert_eq!(
        (issue.number, &*issue.title, &*issue.body),
        (Some(IssueNumber(12)), "It breaks", "When I…\r\n")
    );
    let request = &server.received_requests().await.unwrap()[0];
    assert!(request.headers.get("authorization").is_none());
    assert!(request.headers["user-agent"].to_str().unwrap().starts_with("acquire/"));
}

#[tokio::test]
async fn a_token_is_sent_to_its_own_github_only() {
    let server = answering(json_answer(200, issue())).await;
    let ours = reader(&server).with_token("https://github.com", "t0k3n".to_owned().into());
    ours.read(&repo(), IssueNumber(12)).await.unwrap();
    let elsewhere = RepoId::from_url("https://git.example.org/octo/hello").unwrap();
    ours.read(&elsewhere, IssueNumber(12)).await.unwrap();
    let requests = server.received_requests().await.unwrap();
    assert_eq!(requests[0].headers["authorization"], "Bearer t0k3n");
    assert!(requests[1].headers.get("authorization").is_none());
}

#[tokio::test]
async fn an_issue_without_a_body_has_an_empty_one() {
    for body in [json!(null), json!("")] {
        let mut issue = issue();
        issue["body"] = body;
        let server = answering(json_answer(200, issue)).await;
        assert_eq!(reader(&server).read(&repo(), IssueNumber(12)).await.unwrap().body, "");
    }
}

#[tokio::test]
async fn a_pull_request_is_no_issue() {
    let mut pull = issue();
    pull["pull_request"] = json!({ "url": "https://api.github.com/…" });
    assert_snapshot!(error(json_answer(200, pull)).await, @"issue 12 of https://github.com/octo/hello is a pull request. Name an issue");
}

#[tokio::test]
async fn a_renamed_repository_is_followed_on_the_same_host() {
    let server = MockServer::start().await;
    Mock::given(path("/repos/octo/hello/issues/12"))
        .respond_with(
            ResponseTemplate::new(301)
                .insert_header("location", format!("{}/repositories/9/issues/12", server.uri())),
        )
        .mount(&server)
        .await;
    Mock::given(path("/repositories/9/issues/12"))
        .respond_with(json_answer(200, issue()))
        .mount(&server)
        .await;
    let reader = reader(&server).with_token("https://github.com", "t0k3n".to_owned().into());
    assert!(reader.read(&repo(), IssueNumber(12)).await.is_ok());
}

#[tokio::test]
async fn redirects_to_other_hosts_and_in_circles_are_not_followed() {
    let other = answering(json_answer(200, issue())).await;
    let away = ResponseTemplate::new(302).insert_header("location", format!("{}/x", other.uri()));
    assert_snapshot!(error(away).await, @"issue 12 of https://github.com/octo/hello: 127.0.0.1 redirects to another host, which is not followed. Give the repository's present address");
    assert!(other.received_requests().await.unwrap().is_empty());

    let server = answering(ResponseTemplate::new(307).insert_header("location", "/again")).await;
    let error = reader(&server).read(&repo(), IssueNumber(12)).await.unwrap_err();
    assert_snapshot!(error, @"issue 12 of https://github.com/octo/hello: GitHub redirects more than 3 times. Give the repository's present name");
    assert_eq!(server.received_requests().await.unwrap().len(), 4);
}

#[tokio::test]
async fn errors_say_what_where_and_what_to_do() {
    let limited = json_answer(403, json!({ "message": "API rate limit exceeded for 1.2.3.4." }))
        .insert_header("x-ratelimit-remaining", "0")
        .insert_header("x-ratelimit-reset", "1796040000");
    let secondary =
        json_answer(429, json!({ "message": "secondary rate limit" })).insert_header("retry-after", "60");
    let answers = [
        json_answer(404, json!({ "message": "Not Found" })),
        json_answer(401, json!({ "message": "Bad credentials" })),
        json_answer(403, json!({ "message": "Resource not accessible\u{1b}[2J" })),
        limited,
        secondary,
        json_answer(410, json!({ "message": "This issue was deleted" })),
        ResponseTemplate::new(502).set_body_string("<html>"),
        ResponseTemplate::new(200).set_body_string("<html>"),
        ResponseTemplate::new(200).set_body_bytes(vec![b' '; 1_000_001]),
    ];
    let mut errors = Vec::new();
    for answer in answers {
        errors.push(error(answer).await);
    }
    assert_snapshot!(errors.join("\n"), @r#"
    issue 12 of https://github.com/octo/hello does not exist, or its repository is private. Check owner, name and number; set GITHUB_TOKEN to read a private one
    issue 12 of https://github.com/octo/hello: GitHub refuses the token (401: Bad credentials). Check GITHUB_TOKEN, or unset it for a public repository
    issue 12 of https://github.com/octo/hello: GitHub does not let it be read (403: Resource not accessible[2J). The token needs read access to issues
    issue 12 of https://github.com/octo/hello: GitHub allows no more requests until 2026-11-30T12:00:00Z (403: API rate limit exceeded for 1.2.3.4.). Set GITHUB_TOKEN, or wait
    issue 12 of https://github.com/octo/hello: GitHub allows no more requests for 60 s (429: secondary rate limit). Set GITHUB_TOKEN, or wait
    issue 12 of https://github.com/octo/hello was deleted, or the repository has issues switched off
    issue 12 of https://github.com/octo/hello: GitHub answers 502 Bad Gateway. Try again later
    issue 12 of https://github.com/octo/hello: the answer is no issue as GitHub documents it (expected value at line 1 column 1)
    issue 12 of https://github.com/octo/hello: GitHub's answer is larger than 1 MB
    "#);
}

#[tokio::test]
async fn an_api_that_is_down_is_named() {
    let reader = IssueReader::new().unwrap().with_api(Url::parse("http://127.0.0.1:1").unwrap());
    let error = reader.read(&repo(), IssueNumber(12)).await.unwrap_err();
    assert!(matches!(error, IssueError::Unavailable(_)));
    assert_snapshot!(error, @"issue 12 of https://github.com/octo/hello: 127.0.0.1 cannot be reached: Connection refused (os error 111). Check the network, or give the issue as a file");
}
