//! A chat model behind an HTTP endpoint, in any of the wire formats.
//!
//! A call ends in a reply, or in one error that says what was tried: failures that may pass are repeated with
//! growing pauses, optional parameters that the provider refuses are left out from then on, and everything
//! else is told at once. Dropping the call's future ends it and closes its connection.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use backon::Retryable;
use bytes::Bytes;
use futures_util::future::BoxFuture;

use super::{
    anthropic,
    dialect::{Dialect, Parameters},
    failure::Failure,
    http::Endpoint,
    openai,
    provider_state::Maker,
    retry::{self, Patience, SystemTimer, Timer},
    settings::{ModelSettings, Protocol, SettingsError},
    usage,
};
use crate::{
    domain::Price,
    method::ports::{ChatModel, ChatReply, ChatRequest, ModelError},
};

/// One model of one endpoint. What its provider refuses is remembered as long as this lives, so agents share
/// one.
pub struct HttpModel {
    name: String,
    protocol: Protocol,
    endpoint: Endpoint,
    maker: Maker,
    temperature: Option<f64>,
    max_tokens: u32,
    retries: u32,
    price: Option<Price>,
    timer: Arc<dyn Timer>,
    dialect: Mutex<Dialect>,
}

impl HttpModel {
    /// Checks the settings and prepares the HTTP client; nothing is sent. `variable` reads the environment.
    pub fn new(
        settings: &ModelSettings,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, SettingsError> {
        settings.validate()?;
        let endpoint = Endpoint::new(settings, variable)?;
        Ok(Self {
            name: settings.name.clone(),
            protocol: settings.protocol,
            maker: Maker::new(settings.protocol, &endpoint.shown, &settings.name),
            endpoint,
            temperature: settings.temperature,
            max_tokens: settings.max_tokens,
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

    fn body(&self, request: &ChatRequest, parameters: Parameters, dialect: Dialect) -> Bytes {
        let body = match self.protocol {
            Protocol::OpenAi => openai::body,
            Protocol::Anthropic => anthropic::body,
        };
        body(&self.name, request, parameters, dialect, &self.maker).into()
    }

    fn parse(&self, body: &[u8], request: &ChatRequest) -> Result<ChatReply, Failure> {
        match self.protocol {
            Protocol::OpenAi => openai::parse(body, request, &self.maker),
            Protocol::Anthropic => anthropic::parse(body, request, &self.maker),
        }
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
                let read = |body: &[u8]| self.parse(body, request);
                self.endpoint.exchange(body.clone(), self.timer.now(), read)
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

    fn known_dialect(&self) -> MutexGuard<'_, Dialect> {
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
impl ChatModel for HttpModel {
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
            let gave_up = match self.ask(self.body(request, parameters, dialect), request).await {
                Ok(mut reply) => {
                    if lasting {
                        let mut known = self.known_dialect();
                        *known = known.merge(dialect);
                    }
                    notes.append(&mut reply.notes);
                    notes.extend(usage::cut_note(request, reply.tokens));
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
                    match self.protocol {
                        Protocol::OpenAi => dialect.without(error, request, parameters),
                        Protocol::Anthropic => dialect.without_in_anthropics(error, parameters),
                    }
                }
                _ => None,
            };
            let Some((smaller, note)) = next else {
                let GaveUp { failure, too_long, .. } = gave_up;
                let url = &self.endpoint.shown;
                return Err(failure.into_error(url, self.endpoint.timeout, tries, too_long));
            };
            dialect = smaller;
            notes.push(note);
        }
    }
}

impl fmt::Debug for HttpModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpModel")
            .field("name", &self.name)
            .field("url", &self.endpoint.shown)
            .finish_non_exhaustive()
    }
}
