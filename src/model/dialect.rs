//! Which optional parameters a model's provider takes.
//!
//! Providers that refuse `temperature`, `max_tokens` or `response_format` say so with a 400 or 422 that names
//! the parameter. The call is made once more without it, or with less. A dialect only ever shrinks, so a call
//! ends.

use super::failure::ProviderError;
use crate::method::ports::ChatRequest;

/// What is sent beside the conversation: the request's own values with the settings' laid over.
#[derive(Debug, Clone, Copy)]
pub(super) struct Parameters {
    pub temperature: Option<f64>,
    pub max_tokens: u32,
}

/// What one model's provider has refused so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Dialect {
    pub temperature_refused: bool,
    pub limit: TokenLimit,
    pub schema_refused: bool,
    /// The largest limit that the provider takes, where it has said so and the limit has to be sent.
    pub most_tokens: Option<u32>,
    pub stand_in: Option<StandIn>,
}

/// What is sent for state that a provider asks for in replies which another model wrote, or which have lost
/// it: a resumed conversation would be refused for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StandIn {
    /// DeepSeek's `reasoning_content`, empty.
    Reasoning,
    /// The signature that Gemini takes for histories of other models ("Thought signatures", ai.google.dev).
    Signature,
}

impl StandIn {
    fn asked_for(error: &ProviderError) -> Option<Self> {
        if error.names("thought_signature") {
            Some(Self::Signature)
        } else {
            (error.names("reasoning_content") && error.names("passed back")).then_some(Self::Reasoning)
        }
    }
}

/// How the limit on a reply's length is sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum TokenLimit {
    #[default]
    MaxTokens,
    /// Newer models of OpenAI.
    MaxCompletionTokens,
    LeftOut,
}

impl Dialect {
    /// The dialect to try next and what to say of it; `None` when the error names nothing that was sent.
    pub fn without(
        self,
        error: &ProviderError,
        request: &ChatRequest,
        parameters: Parameters,
    ) -> Option<(Self, String)> {
        if !matches!(error.status, 400 | 422) {
            return None;
        }
        if let Some(next) = self.without_temperature(error, parameters) {
            return Some(next);
        }
        if let (None, Some(stand_in)) = (self.stand_in, StandIn::asked_for(error)) {
            let note = "the provider asks for reasoning with replies that have none of its own: a placeholder was sent";
            return Some((Self { stand_in: Some(stand_in), ..self }, note.to_owned()));
        }
        if error.names("max_tokens") || error.names("max_completion_tokens") {
            match self.limit {
                TokenLimit::MaxTokens if error.names("max_completion_tokens") => {
                    let next = Self { limit: TokenLimit::MaxCompletionTokens, ..self };
                    return Some((
                        next,
                        "the provider refused `max_tokens`: sent as `max_completion_tokens`".to_owned(),
                    ));
                }
                TokenLimit::MaxTokens | TokenLimit::MaxCompletionTokens => {
                    let next = Self { limit: TokenLimit::LeftOut, ..self };
                    return Some((
                        next,
                        "the provider refused `max_tokens`: its own limit on a reply's length applies"
                            .to_owned(),
                    ));
                }
                TokenLimit::LeftOut => {}
            }
        }
        if request.response_schema.is_some()
            && !self.schema_refused
            && ["response_format", "json_schema", "structured output"].iter().any(|name| error.names(name))
        {
            let next = Self { schema_refused: true, ..self };
            return Some((
                next,
                "the provider refused `response_format`: the reply's shape is only asked for".to_owned(),
            ));
        }
        None
    }

    /// The same for Anthropic's messages, where `max_tokens` has to be sent: one above what the model can
    /// write is lowered to the number that the error gives.
    pub fn without_in_anthropics(
        self,
        error: &ProviderError,
        parameters: Parameters,
    ) -> Option<(Self, String)> {
        if !matches!(error.status, 400 | 422) || error.is_overflow() {
            return None;
        }
        if let Some(next) = self.without_temperature(error, parameters) {
            return Some(next);
        }
        let sent = self.most_tokens.map_or(parameters.max_tokens, |most| most.min(parameters.max_tokens));
        let most = error.names("max_tokens").then(|| number_after(&error.evidence, "> "))?;
        let most = most.filter(|most| (1..sent).contains(most))?;
        let note = format!("the provider refused `max_tokens` = {sent}: its limit of {most} applies");
        Some((Self { most_tokens: Some(most), ..self }, note))
    }

    fn without_temperature(self, error: &ProviderError, sent: Parameters) -> Option<(Self, String)> {
        let refused = sent.temperature.is_some() && !self.temperature_refused && error.names("temperature");
        let note = "the provider refused `temperature`: its default applies";
        refused.then(|| (Self { temperature_refused: true, ..self }, note.to_owned()))
    }

    /// What either has been refused.
    pub fn merge(self, other: Self) -> Self {
        Self {
            temperature_refused: self.temperature_refused || other.temperature_refused,
            limit: self.limit.max(other.limit),
            schema_refused: self.schema_refused || other.schema_refused,
            stand_in: self.stand_in.or(other.stand_in),
            most_tokens: self.most_tokens.into_iter().chain(other.most_tokens).min(),
        }
    }
}

fn number_after(text: &str, before: &str) -> Option<u32> {
    let (_, after) = text.split_once(before)?;
    let digits = after.find(|c: char| !c.is_ascii_digit()).map_or(after, |end| &after[..end]);
    digits.parse().ok()
}
