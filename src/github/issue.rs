//! Reads one issue from GitHub's public REST API.
//!
//! A token goes to the API of the one GitHub it was made for, and nowhere else: not to another host that an
//! issue's URL names, and not along a redirect to another origin.

use std::time::Duration;

use jiff::Timestamp;
use reqwest::{
    Method, StatusCode,
    header::{ACCEPT, AUTHORIZATION, HeaderMap, HeaderValue, LOCATION},
};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use url::Url;

use crate::domain::{InvalidName, Issue, IssueNumber, RepoId, is_loopback};

/// Longest answer that is read, in bytes. GitHub's own limit on an issue's body is 65,536 characters.
const LONGEST_ANSWER: usize = 1_000_000;
/// A renamed or transferred repository answers with one redirect.
const MOST_REDIRECTS: usize = 3;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const TIMEOUT: Duration = Duration::from_secs(30);

/// What a user names an issue by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IssueRef {
    /// `12` or `#12`: of the repository that is worked on.
    Number(IssueNumber),
    /// `https://github.com/owner/name/issues/12`
    Url { repo: RepoId, number: IssueNumber },
}

impl IssueRef {
    pub fn parse(text: &str) -> Result<Self, InvalidName> {
        let bad = |reason| InvalidName { kind: "issue", text: text.chars().take(200).collect(), reason };
        let number = |digits: &str| match digits.parse() {
            Ok(number) if number > 0 && !digits.starts_with('+') => Ok(IssueNumber(number)),
            Ok(_) => Err(bad("its number must be a whole number from 1")),
            Err(_) => {
                Err(bad("it is neither a number nor a URL; what stands in a file goes to --issue-file"))
            }
        };
        let text = text.trim();
        if !text.contains('/') {
            return Ok(Self::Number(number(text.strip_prefix('#').unwrap_or(text))?));
        }
        let url = Url::parse(text).map_err(|_| {
            bad("it is neither a number nor a URL; what stands in a file goes to --issue-file")
        })?;
        let parts: Vec<&str> = url.path().trim_matches('/').split('/').collect();
        match parts[..] {
            [_, _, "issues", digits] => {
                let number = number(digits).map_err(|_| bad("its number must be a whole number from 1"))?;
                Ok(Self::Url { repo: RepoId::from_url(text)?, number })
            }
            [_, _, "pull", _] => Err(bad("it is a pull request; name an issue")),
            _ => Err(bad("the URL must look like https://github.com/owner/name/issues/12")),
        }
    }
}

/// An issue that could not be read: what, where, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IssueError {
    /// The issue that was named is at fault.
    #[error("{0}")]
    Input(String),
    /// The token is missing, wrong, or may not read it.
    #[error("{0}")]
    Authentication(String),
    /// GitHub allows no more requests for now.
    #[error("{0}")]
    RateLimited(String),
    /// GitHub does not answer, or not as documented.
    #[error("{0}")]
    Unavailable(String),
}

/// The parts of GitHub's answer that are used.
#[derive(Deserialize)]
struct Wire {
    number: u64,
    title: String,
    body: Option<String>,
    pull_request: Option<serde_json::Value>,
}

#[derive(Deserialize)]
struct WireError {
    message: String,
}

struct Token {
    web: String,
    secret: SecretString,
}

/// Reads issues.
pub struct IssueReader {
    http: reqwest::Client,
    api: Option<Url>,
    token: Option<Token>,
}

impl IssueReader {
    pub fn new() -> Result<Self, IssueError> {
        // The HTTP library takes the process's TLS provider; the error says that there is one already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder()
            .user_agent(concat!("acquire/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(TIMEOUT)
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .map_err(|_| {
                IssueError::Unavailable(
                    "https needs the system's root certificates, and none can be read. Install them (Debian: ca-certificates)"
                        .into(),
                )
            })?;
        Ok(Self { http, api: None, token: None })
    }

    /// Asks this API in place of the one that belongs to the repository's host.
    pub fn with_api(self, api: Url) -> Self {
        Self { api: Some(api), ..self }
    }

    /// Uses the token for repositories of this GitHub only; `web` as in [`RepoId::web`].
    pub fn with_token(self, web: &str, secret: SecretString) -> Self {
        Self { token: Some(Token { web: web.to_owned(), secret }), ..self }
    }

    /// Reads title and body as their author wrote them. A pull request is refused.
    pub async fn read(&self, repo: &RepoId, number: IssueNumber) -> Result<Issue, IssueError> {
        let what = format!("issue {number} of {repo}");
        let api = match &self.api {
            Some(api) => api.clone(),
            None => api_of(repo)?,
        };
        let authorization = self.authorization(repo, &api)?;
        let mut url = api.clone();
        let base = api.path().trim_end_matches('/');
        url.set_path(&format!("{base}/repos/{}/{}/issues/{number}", repo.owner, repo.name));

        for _ in 0..=MOST_REDIRECTS {
            let mut request = self
                .http
                .request(Method::GET, url.clone())
                .header(ACCEPT, "application/vnd.github+json")
                .header("x-github-api-version", "2022-11-28");
            if let Some(value) = &authorization {
                request = request.header(AUTHORIZATION, value.clone());
            }
            let mut answer = request.send().await.map_err(|e| unreachable(&what, &url, &e))?;
            if answer.status().is_redirection() {
                url = self.target(&what, &url, answer.headers())?;
                continue;
            }
            let (status, headers) = (answer.status(), answer.headers().clone());
            let mut body = Vec::new();
            while let Some(part) = answer.chunk().await.map_err(|e| unreachable(&what, &url, &e))? {
                if body.len() + part.len() > LONGEST_ANSWER {
                    return Err(IssueError::Unavailable(format!(
                        "{what}: GitHub's answer is larger than 1 MB"
                    )));
                }
                body.extend_from_slice(&part);
            }
            if !status.is_success() {
                return Err(refused(&what, status, &headers, &body, authorization.is_some()));
            }
            return issue(&what, &body);
        }
        Err(IssueError::Unavailable(format!(
            "{what}: GitHub redirects more than {MOST_REDIRECTS} times. Give the repository's present name"
        )))
    }

    fn authorization(&self, repo: &RepoId, api: &Url) -> Result<Option<HeaderValue>, IssueError> {
        let Some(token) = self.token.as_ref().filter(|token| token.web == repo.web) else {
            return Ok(None);
        };
        if api.scheme() != "https" && !is_loopback(api) {
            return Err(IssueError::Input(format!(
                "the token is not sent to {} without encryption. Use https",
                api.host_str().unwrap_or_default()
            )));
        }
        let text = format!("Bearer {}", token.secret.expose_secret().trim());
        let mut value = HeaderValue::from_str(&text).map_err(|_| {
            IssueError::Authentication(
                "the GitHub token has characters that no token has. Copy it again".into(),
            )
        })?;
        value.set_sensitive(true);
        Ok(Some(value))
    }

    fn target(&self, what: &str, from: &Url, headers: &HeaderMap) -> Result<Url, IssueError> {
        let target = headers.get(LOCATION).and_then(|l| l.to_str().ok()).and_then(|l| from.join(l).ok());
        match target {
            Some(target) if target.origin() == from.origin() => Ok(target),
            _ => Err(IssueError::Unavailable(format!(
                "{what}: {} redirects to another host, which is not followed. Give the repository's present address",
                from.host_str().unwrap_or_default()
            ))),
        }
    }
}

/// The API that belongs to the repository's web host: github.com, an enterprise's own `*.ghe.com`, or a GitHub
/// Enterprise Server.
fn api_of(repo: &RepoId) -> Result<Url, IssueError> {
    let wrong = || IssueError::Input(format!("{} is no web address of a GitHub", repo.web));
    let web = Url::parse(&repo.web).map_err(|_| wrong())?;
    let host = web.host_str().ok_or_else(wrong)?;
    let api = match host {
        "github.com" | "www.github.com" => "https://api.github.com".to_owned(),
        _ if host.ends_with(".ghe.com") => format!("https://api.{host}"),
        _ => format!("{}/api/v3", repo.web),
    };
    Url::parse(&api).map_err(|_| wrong())
}

fn issue(what: &str, body: &[u8]) -> Result<Issue, IssueError> {
    let wire: Wire = serde_json::from_slice(body).map_err(|error| {
        IssueError::Unavailable(format!("{what}: the answer is no issue as GitHub documents it ({error})"))
    })?;
    if wire.pull_request.is_some() {
        return Err(IssueError::Input(format!("{what} is a pull request. Name an issue")));
    }
    Ok(Issue {
        number: Some(IssueNumber(wire.number)),
        title: wire.title,
        body: wire.body.unwrap_or_default(),
    })
}

fn unreachable(what: &str, url: &Url, error: &reqwest::Error) -> IssueError {
    let mut root: &dyn std::error::Error = error;
    while let Some(source) = root.source() {
        root = source;
    }
    let reason = if error.is_timeout() { "no answer in time".to_owned() } else { root.to_string() };
    let host = url.host_str().unwrap_or_default();
    IssueError::Unavailable(format!(
        "{what}: {host} cannot be reached: {reason}. Check the network, or give the issue as a file"
    ))
}

fn refused(what: &str, status: StatusCode, headers: &HeaderMap, body: &[u8], with_token: bool) -> IssueError {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let message = serde_json::from_slice::<WireError>(body).map(|error| error.message).unwrap_or_default();
    let message: String = message.chars().filter(|c| !c.is_control()).take(200).collect();
    let said =
        if message.is_empty() { status.to_string() } else { format!("{}: {message}", status.as_u16()) };
    let limited = text("x-ratelimit-remaining") == Some("0") || text("retry-after").is_some();
    match status.as_u16() {
        403 | 429 if limited => {
            let at = text("x-ratelimit-reset")
                .and_then(|seconds| Timestamp::from_second(seconds.parse().ok()?).ok())
                .map(|time| format!(" until {time}"))
                .or_else(|| text("retry-after").map(|seconds| format!(" for {seconds} s")))
                .unwrap_or_default();
            let advice = if with_token { "Wait" } else { "Set GITHUB_TOKEN, or wait" };
            IssueError::RateLimited(format!("{what}: GitHub allows no more requests{at} ({said}). {advice}"))
        }
        401 => IssueError::Authentication(format!(
            "{what}: GitHub refuses the token ({said}). Check GITHUB_TOKEN, or unset it for a public repository"
        )),
        403 | 451 => IssueError::Authentication(format!(
            "{what}: GitHub does not let it be read ({said}). The token needs read access to issues"
        )),
        404 if with_token => IssueError::Input(format!(
            "{what} does not exist, or the token in GITHUB_TOKEN may not read it. Check owner, name and number"
        )),
        404 => IssueError::Input(format!(
            "{what} does not exist, or its repository is private. Check owner, name and number; set GITHUB_TOKEN to read a private one"
        )),
        410 => IssueError::Input(format!("{what} was deleted, or the repository has issues switched off")),
        _ => IssueError::Unavailable(format!("{what}: GitHub answers {said}. Try again later")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repo(url: &str) -> RepoId {
        RepoId::from_url(url).unwrap()
    }

    #[test]
    fn an_issue_is_named_by_number_or_url() {
        let parsed = |text| IssueRef::parse(text).unwrap();
        assert_eq!(parsed("12"), IssueRef::Number(IssueNumber(12)));
        assert_eq!(parsed(" #12 "), IssueRef::Number(IssueNumber(12)));
        let url = IssueRef::Url { repo: repo("https://github.com/o/n"), number: IssueNumber(7) };
        for text in [
            "https://github.com/o/n/issues/7",
            "https://github.com/o/n/issues/7/",
            "https://github.com/o/n/issues/7?x=1#issuecomment-5",
        ] {
            assert_eq!(parsed(text), url);
        }
    }

    #[test]
    fn what_names_no_issue_is_refused_with_the_reason() {
        let error = |text| IssueRef::parse(text).unwrap_err().to_string();
        insta::assert_snapshot!(error("https://github.com/o/n/pull/7"), @r#"not a valid issue: "https://github.com/o/n/pull/7": it is a pull request; name an issue"#);
        insta::assert_snapshot!(error("https://github.com/o/n"), @r#"not a valid issue: "https://github.com/o/n": the URL must look like https://github.com/owner/name/issues/12"#);
        insta::assert_snapshot!(error("bug.md"), @r#"not a valid issue: "bug.md": it is neither a number nor a URL; what stands in a file goes to --issue-file"#);
        for bad in [
            "",
            "0",
            "-1",
            "+1",
            "#",
            "1.5",
            "99999999999999999999",
            "./issue.md",
            "o/n#7",
            "ssh://github.com/o/n/issues/7",
            "https://github.com/../n/issues/7",
            "https://github.com/o/n/issues/x",
            "https://github.com/o/n/issues/7/8",
        ] {
            assert!(IssueRef::parse(bad).is_err(), "{bad:?} was taken");
        }
    }

    #[test]
    fn each_github_has_its_own_api() {
        let api = |web| api_of(&repo(&format!("{web}/o/n"))).unwrap().to_string();
        assert_eq!(api("https://github.com"), "https://api.github.com/");
        assert_eq!(api("https://acme.ghe.com"), "https://api.acme.ghe.com/");
        assert_eq!(api("https://git.acme.org:8443"), "https://git.acme.org:8443/api/v3");
        // Hosts that only look like GitHub get no special treatment.
        assert_eq!(api("https://github.com.evil.org"), "https://github.com.evil.org/api/v3");
    }

    #[test]
    fn a_token_stays_with_its_github_and_never_travels_in_the_clear() {
        let reader = IssueReader::new().unwrap().with_token("https://github.com", "t".to_owned().into());
        let sent = |web: &str, api: &str| {
            reader.authorization(&repo(&format!("{web}/o/n")), &Url::parse(api).unwrap())
        };
        assert!(sent("https://github.com", "https://api.github.com").unwrap().is_some());
        assert!(sent("https://github.com.evil.org", "https://x.org").unwrap().is_none());
        assert!(sent("http://github.com", "https://api.github.com").unwrap().is_none());
        assert!(sent("https://github.com", "http://api.github.com").is_err());
    }
}
