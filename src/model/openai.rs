//! A chat model behind an endpoint that speaks OpenAI's chat completions.
//!
//! A call ends in a reply, or in one error that says what was tried: failures that may pass are repeated with
//! growing pauses, optional parameters that the provider refuses are left out from then on, and everything
//! else is told at once. Dropping the call's future ends it and closes its connection.

mod dialect;
mod failure;
mod reply;
mod request;
mod retry;

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use backon::Retryable;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue, LOCATION};
use secrecy::{ExposeSecret, SecretString};
use url::Url;

pub use self::retry::{SystemTimer, Timer};
use self::{
    dialect::Dialect,
    failure::{Failure, ProviderError},
    request::Parameters,
    retry::Patience,
};
use super::settings::{ModelSettings, SettingsError};
use crate::{
    domain::{Price, is_loopback},
    method::ports::{ChatModel, ChatReply, ChatRequest, ModelError},
};

/// Longest body that is read, in bytes.
const LONGEST_BODY: usize = 16 << 20;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// One model of one endpoint. What its provider refuses is remembered as long as this lives, so agents share
/// one.
pub struct OpenAiModel {
    name: String,
    /// The base URL as errors show it: without its query.
    shown: String,
    endpoint: Url,
    http: reqwest::Client,
    key: Option<SecretString>,
    temperature: Option<f64>,
    max_tokens: u32,
    timeout: Duration,
    retries: u32,
    price: Option<Price>,
    timer: Arc<dyn Timer>,
    dialect: Mutex<Dialect>,
}

impl OpenAiModel {
    /// Checks the settings and prepares the HTTP client; nothing is sent. `variable` reads the environment.
    pub fn new(
        settings: &ModelSettings,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, SettingsError> {
        settings.validate()?;
        let base = settings.endpoint()?;
        let mut endpoint = base.clone();
        endpoint.set_path(&format!("{}/chat/completions", base.path().trim_end_matches('/')));
        let mut shown = base.clone();
        shown.set_query(None);
        shown.set_fragment(None);
        let key = settings.key(variable)?;
        if key.is_some() && base.scheme() == "http" && !is_loopback(&base) {
            tracing::warn!(url = %shown, "the model's key travels without encryption: `model.base_url` is not https");
        }
        Ok(Self {
            name: settings.name.clone(),
            shown: shown.to_string().trim_end_matches('/').to_owned(),
            endpoint,
            http: http_client(&base)?,
            key,
            temperature: settings.temperature,
            max_tokens: settings.max_tokens,
            timeout: settings.timeout(),
            retries: settings.retries,
            price: settings.price(),
            timer: Arc::new(SystemTimer),
            dialect: Mutex::default(),
        })
    }

    /// Takes time from elsewhere.
    pub fn with_timer(self, timer: Arc<dyn Timer>) -> Self {
        Self { timer, ..self }
    }

    /// Sends the body until it is answered, or until another try would be in vain.
    async fn ask(&self, body: Bytes, request: &ChatRequest) -> Result<ChatReply, GaveUp> {
        let mut tries = 0;
        let mut patience = Patience::default();
        let timer = Arc::clone(&self.timer);
        // Boxed with its type named: the compiler cannot show that the bare one may move between threads.
        let answer: BoxFuture<'_, Result<ChatReply, Failure>> = Box::pin(
            (|| {
                tries += 1;
                self.try_once(body.clone(), request)
            })
            .retry(retry::pauses(self.retries))
            .sleep(move |pause| timer.sleep(pause))
            .when(|failure: &Failure| failure.may_pass())
            .adjust(|failure: &Failure, planned| patience.next(failure, planned))
            .notify(|failure: &Failure, pause| {
                let (agent, reason) = (&request.agent, failure.reason());
                tracing::debug!(model = self.name, %agent, reason, ?pause, "a model call is repeated");
            }),
        );
        let answer = answer.await;
        answer.map_err(|failure| GaveUp { failure, tries, too_long: patience.too_long })
    }

    async fn try_once(&self, body: Bytes, request: &ChatRequest) -> Result<ChatReply, Failure> {
        let answer = self.exchange(body, request).await;
        // The key goes out before anything is cut, so that no part of it can stay.
        answer.map_err(|failure| failure.reworded(|text| excerpt(&self.scrub(text))))
    }

    async fn exchange(&self, body: Bytes, request: &ChatRequest) -> Result<ChatReply, Failure> {
        let mut message = self
            .http
            .post(self.endpoint.clone())
            .header(CONTENT_TYPE, "application/json")
            .timeout(self.timeout)
            .body(body);
        if let Some(key) = &self.key {
            message = message.header(AUTHORIZATION, bearer(key));
        }
        let mut answer = message.send().await.map_err(|e| Failure::from_http(&e))?;
        let status = answer.status();
        if status.is_redirection() {
            let target = answer.headers().get(LOCATION).and_then(|l| l.to_str().ok()).unwrap_or("elsewhere");
            let what = format!(
                "it redirects to {target}, which is not followed. Set `[model] base_url` to where the model is"
            );
            return Err(Failure::Provider(ProviderError::from_text(status.as_u16(), what)));
        }
        let retry_after = retry::retry_after(answer.headers(), self.timer.now());
        let body = read(&mut answer).await?;
        let parsed = if status.is_success() {
            reply::parse(&body, request)
        } else {
            Err(Failure::Provider(error_of(status.as_u16(), &body)))
        };
        parsed.map_err(|failure| match failure {
            Failure::Provider(error) => Failure::Provider(ProviderError { retry_after, ..error }),
            other => other,
        })
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

    fn known_dialect(&self) -> std::sync::MutexGuard<'_, Dialect> {
        // The value is copied in and out whole, so a panic elsewhere cannot leave it half-written.
        self.dialect.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The last failure of a call that is not repeated any more.
struct GaveUp {
    failure: Failure,
    tries: u32,
    too_long: Option<Duration>,
}

#[async_trait]
impl ChatModel for OpenAiModel {
    fn name(&self) -> &str {
        &self.name
    }

    fn price(&self) -> Option<Price> {
        self.price
    }

    async fn chat(&self, request: &ChatRequest) -> Result<ChatReply, ModelError> {
        let parameters = Parameters {
            temperature: self.temperature.or(request.temperature),
            max_tokens: request.max_tokens.unwrap_or(self.max_tokens),
        };
        let mut dialect = *self.known_dialect();
        let mut lasting = true;
        let mut notes = Vec::new();
        let mut tries = 0;
        loop {
            let body = request::body(&self.name, request, parameters, dialect);
            let gave_up = match self.ask(body.into(), request).await {
                Ok(mut reply) => {
                    if lasting {
                        let mut known = self.known_dialect();
                        *known = known.merge(dialect);
                    }
                    notes.append(&mut reply.notes);
                    return Ok(ChatReply { notes, ..reply });
                }
                Err(gave_up) => gave_up,
            };
            tries += gave_up.tries;
            let next = match &gave_up.failure {
                Failure::Provider(error) => {
                    // A limit that is too large only because the conversation has grown long is no trait of
                    // the model.
                    lasting &= !error.is_overflow();
                    dialect.without(error, request, parameters.temperature.is_some())
                }
                _ => None,
            };
            let Some((smaller, note)) = next else {
                return Err(gave_up.failure.into_error(&self.shown, self.timeout, tries, gave_up.too_long));
            };
            dialect = smaller;
            notes.push(note.to_owned());
        }
    }
}

impl fmt::Debug for OpenAiModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenAiModel")
            .field("name", &self.name)
            .field("url", &self.shown)
            .finish_non_exhaustive()
    }
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

fn bearer(key: &SecretString) -> HeaderValue {
    let mut header = HeaderValue::from_str(&format!("Bearer {}", key.expose_secret()))
        .expect("`ModelSettings::key` takes printable ASCII only");
    header.set_sensitive(true);
    header
}

fn error_of(status: u16, body: &[u8]) -> ProviderError {
    let json = serde_json::from_slice(body).ok();
    json.and_then(|json| ProviderError::from_json(status, &json))
        .unwrap_or_else(|| ProviderError::from_text(status, reply::describe(body)))
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
