//! Which optional parameters a model's provider takes.
//!
//! Providers that refuse `temperature`, `max_tokens` or `response_format` say so with a 400 or 422 that names
//! the parameter. The call is made once more without it. A dialect only ever shrinks, so a call ends.

use super::failure::ProviderError;
use crate::method::ports::ChatRequest;

/// What one model's provider has refused so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Dialect {
    pub temperature_refused: bool,
    pub limit: TokenLimit,
    pub schema_refused: bool,
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
        temperature_sent: bool,
    ) -> Option<(Self, &'static str)> {
        if !matches!(error.status, 400 | 422) {
            return None;
        }
        if temperature_sent && !self.temperature_refused && error.names("temperature") {
            let next = Self { temperature_refused: true, ..self };
            return Some((next, "the provider refused `temperature`: its default applies"));
        }
        if error.names("max_tokens") || error.names("max_completion_tokens") {
            match self.limit {
                TokenLimit::MaxTokens if error.names("max_completion_tokens") => {
                    let next = Self { limit: TokenLimit::MaxCompletionTokens, ..self };
                    return Some((
                        next,
                        "the provider refused `max_tokens`: sent as `max_completion_tokens`",
                    ));
                }
                TokenLimit::MaxTokens | TokenLimit::MaxCompletionTokens => {
                    let next = Self { limit: TokenLimit::LeftOut, ..self };
                    return Some((
                        next,
                        "the provider refused `max_tokens`: its own limit on a reply's length applies",
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
                "the provider refused `response_format`: the reply's shape is only asked for",
            ));
        }
        None
    }

    /// What either has been refused.
    pub fn merge(self, other: Self) -> Self {
        Self {
            temperature_refused: self.temperature_refused || other.temperature_refused,
            limit: self.limit.max(other.limit),
            schema_refused: self.schema_refused || other.schema_refused,
        }
    }
}
