//! One exchange with a model's endpoint over HTTP: the key goes out in a header, a bounded body comes back.
//!
//! No redirects, no proxy on loopback, and no text of the endpoint leaves here with the key in it.

use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use url::Url;

use super::{
    failure::{Failure, ProviderError},
    retry,
    settings::{ModelSettings, Protocol, SettingsError},
};
use crate::domain::is_loopback;

/// Longest body that is read, in bytes.
const LONGEST_BODY: usize = 16 << 20;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The version of Anthropic's API that requests and replies are shaped after.
const ANTHROPIC_VERSION: &str = "2023-06-01";

/// Where requests go, with everything that each of them carries beside its body.
pub(super) struct Endpoint {
    /// The base URL as errors show it: without its query.
    pub shown: String,
    /// Longest wait for one whole answer.
    pub timeout: Duration,
    url: Url,
    http: reqwest::Client,
    headers: HeaderMap,
    key: Option<SecretString>,
}

/// What the endpoint says beside the body.
#[derive(Debug, Default)]
pub(super) struct Aside {
    retry_after: Option<Duration>,
    /// By which the provider's support finds the request.
    request_id: Option<String>,
}

impl Endpoint {
    /// Checks the settings and prepares the HTTP client; nothing is sent. `variable` reads the environment.
    pub fn new(
        settings: &ModelSettings,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, SettingsError> {
        let base = settings.endpoint()?;
        let mut url = base.clone();
        let path = settings.protocol.path();
        url.set_path(&format!("{}/{path}", base.path().trim_end_matches('/')));
        let mut shown = base.clone();
        shown.set_query(None);
        shown.set_fragment(None);
        let key = settings.key(variable)?;
        if key.is_some() && base.scheme() == "http" && !is_loopback(&base) {
            tracing::warn!(url = %shown, "the model's key travels without encryption: `model.base_url` is not https");
        }
        Ok(Self {
            shown: shown.to_string().trim_end_matches('/').to_owned(),
            timeout: settings.timeout(),
            url,
            http: http_client(&base)?,
            headers: headers(settings.protocol, key.as_ref()),
            key,
        })
    }

    /// Sends one body and has `read` make something of a successful answer's.
    pub async fn exchange<T>(
        &self,
        body: Bytes,
        now: Timestamp,
        read: impl Fn(&[u8]) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let answer = self.send(body, now).await;
        let parsed = answer.and_then(|(status, aside, body)| {
            let parsed = if (200..300).contains(&status) {
                read(&body)
            } else {
                Err(Failure::Provider(error_of(status, &body)))
            };
            parsed.map_err(|failure| aside.told_with(failure))
        });
        // The key goes out before anything is cut, so that no part of it can stay.
        parsed.map_err(|failure| failure.reworded(|text| excerpt(&self.scrub(text))))
    }

    async fn send(&self, body: Bytes, now: Timestamp) -> Result<(u16, Aside, Vec<u8>), Failure> {
        let message =
            self.http.post(self.url.clone()).headers(self.headers.clone()).timeout(self.timeout).body(body);
        let mut answer = message.send().await.map_err(|e| Failure::from_http(&e))?;
        let status = answer.status();
        if status.is_redirection() {
            let target = answer.headers().get(LOCATION).and_then(|l| l.to_str().ok()).unwrap_or("elsewhere");
            let what = format!(
                "it redirects to {target}, which is not followed. Set `[model] base_url` to where the model is"
            );
            return Err(Failure::Provider(ProviderError::from_text(status.as_u16(), what)));
        }
        let aside = Aside {
            retry_after: retry::retry_after(answer.headers(), now),
            request_id: request_id(answer.headers()).filter(|id| self.scrub(id) == *id),
        };
        Ok((status.as_u16(), aside, read(&mut answer).await?))
    }

    /// Takes the key out of text that the endpoint wrote: some repeat it in their errors. A few characters are
    /// a placeholder for endpoints that ask for none, and may be part of any word.
    fn scrub(&self, text: &str) -> String {
        const SHORTEST_SECRET: usize = 8;
        match &self.key {
            Some(key) if key.expose_secret().len() >= SHORTEST_SECRET => {
                text.replace(key.expose_secret(), "[key]")
            }
            _ => text.to_owned(),
        }
    }
}

impl Aside {
    fn told_with(self, failure: Failure) -> Failure {
        match failure {
            Failure::Provider(mut error) => {
                error.retry_after = self.retry_after;
                error.request_id = self.request_id;
                Failure::Provider(error)
            }
            other => other,
        }
    }
}

fn headers(protocol: Protocol, key: Option<&SecretString>) -> HeaderMap {
    let mut headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static("application/json"))]);
    let secret = |text: &str| {
        let mut value = HeaderValue::from_str(text).expect("`ModelSettings::key` takes printable ASCII only");
        value.set_sensitive(true);
        value
    };
    match protocol {
        Protocol::OpenAi => {
            headers
                .extend(key.map(|key| (AUTHORIZATION, secret(&format!("Bearer {}", key.expose_secret())))));
        }
        Protocol::Anthropic => {
            let version = HeaderName::from_static("anthropic-version");
            headers.insert(version, HeaderValue::from_static(ANTHROPIC_VERSION));
            let name = HeaderName::from_static("x-api-key");
            headers.extend(key.map(|key| (name, secret(key.expose_secret()))));
        }
    }
    headers
}

fn http_client(base: &Url) -> Result<reqwest::Client, SettingsError> {
    super::install_tls();
    let mut http = reqwest::Client::builder()
        .user_agent(concat!("acquire/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_keepalive(Duration::from_secs(30))
        .redirect(reqwest::redirect::Policy::none());
    if base.scheme() == "http" {
        // A machine without root certificates can still ask a local model.
        http = http.tls_certs_only([]);
    }
    if is_loopback(base) {
        // A proxy would look for the model on its own machine.
        http = http.no_proxy();
    }
    http.build().map_err(|_| {
        SettingsError::new(
            "base_url",
            "https needs the system's root certificates, and none can be read. Install them (Debian: ca-certificates)",
        )
    })
}

/// Anthropic's name for it first, then OpenAI's. Only what looks like an identifier is taken.
fn request_id(headers: &HeaderMap) -> Option<String> {
    const LONGEST: usize = 100;
    let id = ["request-id", "x-request-id"].into_iter().find_map(|name| headers.get(name)?.to_str().ok())?;
    let fine = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
    ((1..=LONGEST).contains(&id.len()) && id.bytes().all(fine)).then(|| id.to_owned())
}

fn error_of(status: u16, body: &[u8]) -> ProviderError {
    let json = serde_json::from_slice::<Value>(body).ok();
    json.and_then(|json| ProviderError::from_json(status, &json))
        .unwrap_or_else(|| ProviderError::from_text(status, describe(body)))
}

/// Says for people what a body is that is no JSON.
pub(super) fn describe(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let text = text.trim();
    if text.is_empty() {
        return "an empty answer".into();
    }
    if text.starts_with('<') {
        let lower = text.to_ascii_lowercase();
        let title = lower.find("<title>").zip(lower.find("</title>"));
        let title = title.and_then(|(start, end)| text.get(start + "<title>".len()..end));
        return format!("an HTML page: {}", title.unwrap_or(text));
    }
    if text.starts_with(['{', '[']) {
        return format!("JSON that is cut off or broken after {} bytes: {}", body.len(), text);
    }
    format!("text: {text}")
}

/// Reads the body up to its limit.
async fn read(answer: &mut reqwest::Response) -> Result<Vec<u8>, Failure> {
    let mut body = Vec::new();
    while let Some(part) = answer.chunk().await.map_err(|e| Failure::from_http(&e))? {
        if body.len() + part.len() > LONGEST_BODY {
            let what = format!("an answer of more than {} MiB", LONGEST_BODY >> 20);
            return Err(Failure::NotAReply { what, again: false });
        }
        body.extend_from_slice(&part);
    }
    Ok(body)
}

/// Foreign text for a one-line message: white space folded, control characters left out, shortened.
fn excerpt(text: &str) -> String {
    const LONGEST: usize = 500;
    let mut words = String::new();
    for word in text.split_whitespace() {
        if !words.is_empty() {
            words.push(' ');
        }
        words.extend(word.chars().filter(|c| !c.is_control()));
        if words.len() > 4 * LONGEST {
            break;
        }
    }
    match words.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &words[..end]),
        // More is said after it.
        None => words.trim_end_matches('.').to_owned(),
    }
}
