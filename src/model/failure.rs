//! Why one try of a call failed: whether it may succeed when repeated, and what to tell people.

use std::{error::Error as _, time::Duration};

use serde_json::Value;

use crate::method::ports::ModelError;

/// One failed try. Its text is the endpoint's own until [`Failure::reworded`] has made it presentable.
#[derive(Debug)]
pub(super) enum Failure {
    /// No connection, or it broke before an answer came.
    Unreachable(String),
    TimedOut,
    /// The endpoint says that it failed.
    Provider(ProviderError),
    /// The answer is no chat completion; `again`: asking once more may help.
    NotAReply {
        what: String,
        again: bool,
    },
}

/// An error as the endpoint words it.
#[derive(Debug)]
pub(super) struct ProviderError {
    /// The HTTP status, or the one inside an error that came with 200.
    pub status: u16,
    /// For people.
    pub message: String,
    /// Everything in the error that says what is wrong, in lower case.
    pub evidence: String,
    pub retry_after: Option<Duration>,
    /// By which the provider's support finds the request.
    pub request_id: Option<String>,
}

impl ProviderError {
    /// Reads the error out of a decoded body: `{"error": {…}}` of OpenAI and Anthropic, also as text or inside
    /// a list (Gemini), and the `message` and `detail` of others. `None` when there is no error in it.
    pub fn from_json(status: u16, body: &Value) -> Option<Self> {
        let body = body.get(0).unwrap_or(body);
        let error = match body.get("error") {
            Some(error) if !error.is_null() => error,
            _ if status >= 400 => body,
            _ => return None,
        };
        let words = |value: Option<&Value>| match value {
            None | Some(Value::Null) => None,
            Some(Value::String(text)) => Some(text.clone()),
            Some(other) => Some(other.to_string()),
        };
        let message = words(error.get("message"))
            .or_else(|| words(error.get("detail")))
            .or_else(|| words(Some(error)))
            .unwrap_or_default();
        let mut evidence = message.to_lowercase();
        // OpenRouter passes the upstream provider's own words on in `metadata.raw`.
        let raw = error.get("metadata").and_then(|metadata| metadata.get("raw"));
        for more in [error.get("code"), error.get("type"), error.get("param"), raw] {
            if let Some(more) = words(more) {
                evidence.push('\n');
                evidence.push_str(&more.to_lowercase());
            }
        }
        // A gateway that has answered 200 already puts the real status into the error.
        let code = error.get("code").and_then(|code| code.as_u64().or_else(|| code.as_str()?.parse().ok()));
        let status = match code {
            Some(code @ 400..=599) if status < 400 => code as u16,
            _ => status,
        };
        Some(Self { status, message, evidence, retry_after: None, request_id: None })
    }

    /// An error whose body is no JSON: an empty one, HTML of a proxy, plain text.
    pub fn from_text(status: u16, what: String) -> Self {
        Self { status, evidence: what.to_lowercase(), message: what, retry_after: None, request_id: None }
    }

    /// Whether the error names this parameter. `name` is in lower case.
    pub fn names(&self, name: &str) -> bool {
        self.evidence.contains(name)
    }

    /// Whether the conversation is longer than the model or its rate limit can ever take.
    pub fn is_overflow(&self) -> bool {
        if matches!(self.status, 401..=404) {
            return false;
        }
        let has = |part: &str| self.evidence.contains(part);
        // In the words of OpenAI, vLLM, Mistral, DeepSeek and OpenRouter; Anthropic; llama.cpp; Gemini;
        // Alibaba; Amazon.
        let worded = [
            "context_length_exceeded",
            "maximum context length",
            "max context length",
            "context length exceeded",
            "exceeds the context length",
            "exceeds the context window",
            "exceeds the model's context",
            "reduce the length of the messages",
            "prompt is too long",
            "exceed context limit",
            "exceed_context_size",
            "exceeds the available context size",
            "range of input length should be",
            "input is too long",
            // Anthropic's type for a body above 32 MB.
            "request_too_large",
        ];
        worded.into_iter().any(has)
            || (has("input token count") && has("exceeds the maximum"))
            // OpenAI and Groq: one request above the whole minute's allowance never passes.
            || (has("request too large") && has("tokens per min"))
    }

    /// Whether the account has no credit left; some providers say it with 429.
    fn is_out_of_credit(&self) -> bool {
        self.status == 402
            || self.names("insufficient_quota")
            || self.names("billing_not_active")
            // Anthropic, with 400.
            || self.names("credit balance is too low")
    }

    /// Whether the endpoint takes no tools for this model.
    fn refuses_tools(&self) -> bool {
        let has = |part: &str| self.names(part);
        // In the words of Ollama; OpenRouter; vLLM without a parser for tool calls, and as it wrote it earlier;
        // Mistral and others.
        has("does not support tools")
            || has("support tool use")
            || has("enable-auto-tool-choice")
            || (has("tool choice") && has("tool-call-parser"))
            || has("does not support function calling")
            || has("function calling is not enabled")
    }

    fn may_pass(&self) -> bool {
        if self.is_overflow() || self.is_out_of_credit() {
            return false;
        }
        // 200: an error in place of a reply that does not say which. 408 and 409: OpenAI asks to repeat them.
        matches!(self.status, 200 | 408 | 409 | 429 | 500 | 502..=504 | 506..=599)
    }
}

impl Failure {
    /// Sorts what the HTTP library reports; its text never holds the URL.
    pub fn from_http(error: &reqwest::Error) -> Self {
        let mut root: &dyn std::error::Error = error;
        while let Some(source) = root.source() {
            root = source;
        }
        let reason = if error.source().is_some() { root.to_string() } else { "no answer came".into() };
        if error.is_connect() {
            Self::Unreachable(reason)
        } else if error.is_timeout() {
            Self::TimedOut
        } else if error.is_body() || error.is_decode() {
            Self::NotAReply { what: format!("the answer ends early ({reason})"), again: true }
        } else {
            Self::Unreachable(reason)
        }
    }

    /// The reason in the endpoint's words.
    pub fn reason(&self) -> &str {
        match self {
            Self::Unreachable(reason) => reason,
            Self::TimedOut => "timed out",
            Self::Provider(error) => &error.message,
            Self::NotAReply { what, .. } => what,
        }
    }

    /// The same with its text passed through `word`.
    pub fn reworded(self, word: impl Fn(&str) -> String) -> Self {
        match self {
            Self::Unreachable(reason) => Self::Unreachable(word(&reason)),
            Self::TimedOut => Self::TimedOut,
            Self::Provider(error) => Self::Provider(ProviderError { message: word(&error.message), ..error }),
            Self::NotAReply { what, again } => Self::NotAReply { what: word(&what), again },
        }
    }

    pub fn may_pass(&self) -> bool {
        match self {
            Self::Unreachable(_) | Self::TimedOut => true,
            Self::Provider(error) => error.may_pass(),
            Self::NotAReply { again, .. } => *again,
        }
    }

    /// What to tell the caller after `tries` tries of at most `timeout` each. `too_long` is a wait that the
    /// provider asked for and that was not granted.
    pub fn into_error(
        self,
        url: &str,
        timeout: Duration,
        tries: u32,
        too_long: Option<Duration>,
    ) -> ModelError {
        let url = url.to_owned();
        let error = match self {
            Self::Unreachable(reason) => return ModelError::Unreachable { url, reason },
            Self::TimedOut => return ModelError::TimedOut { url, after: timeout, tries },
            Self::NotAReply { mut what, again } => {
                if again {
                    what.push_str(". Check that `[model] base_url` is right, or try again later");
                }
                return ModelError::NotAReply { url, tries, what };
            }
            Self::Provider(error) => error,
        };
        let (overflow, out_of_credit, may_pass) =
            (error.is_overflow(), error.is_out_of_credit(), error.may_pass());
        let (refuses_tools, bad_key) = (error.refuses_tools(), error.names("api key not valid"));
        let ProviderError { status, mut message, request_id, .. } = error;
        if let Some(id) = request_id {
            message.push_str(&format!(" (request {id})"));
        }
        if overflow {
            return ModelError::ContextOverflow { message };
        }
        if out_of_credit {
            message.push_str(". The account has no credit left: top it up at the provider");
            return ModelError::Refused { url, status, message };
        }
        if refuses_tools && !may_pass {
            message.push_str(
                ". The endpoint takes no tool calls for this model. Set `tools = \"text\"` in `[model]`, or take another model",
            );
            return ModelError::Refused { url, status, message };
        }
        match status {
            // Gemini tells a wrong key with 400.
            400 if bad_key => ModelError::Unauthorized { url, status, message },
            200 => ModelError::NotAReply {
                url,
                tries,
                what: format!("an error in its place: {message}. Try again later"),
            },
            401 | 403 => ModelError::Unauthorized { url, status, message },
            404 => {
                message.push_str(". Check `[model] name`, and `base_url`, which usually ends in /v1");
                ModelError::Refused { url, status, message }
            }
            _ if may_pass => {
                message.push_str(&match too_long {
                    None => ". Try again later".to_owned(),
                    Some(wait) => format!(
                        ". It asks to wait {} s, which is longer than a call waits. Try again then",
                        wait.as_secs()
                    ),
                });
                ModelError::Unavailable { url, status, tries, message }
            }
            _ => ModelError::Refused { url, status, message },
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn error(status: u16, body: Value) -> ProviderError {
        ProviderError::from_json(status, &body).unwrap()
    }

    #[test]
    fn context_overflow_is_recognised_in_every_providers_words() {
        for (status, message) in [
            (
                400,
                "This model's maximum context length is 128000 tokens. However, your messages resulted in 130000 tokens.",
            ),
            (
                400,
                "Your input exceeds the context window of this model. Please adjust your input and try again.",
            ),
            (400, "prompt is too long: 203456 tokens > 200000 maximum"),
            (400, "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."),
            (
                400,
                "the request exceeds the available context size. try increasing the context size or enable context shift",
            ),
            (
                400,
                "Prompt contains 40001 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
            ),
            (400, "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 98304]"),
            (413, "Request too large for model `m` on tokens per minute (TPM): Limit 6000, Requested 7000"),
            (429, "Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 50000."),
            (500, "input length exceeds the context length"),
        ] {
            let error = error(status, json!({ "error": { "message": message } }));
            assert!(error.is_overflow() && !error.may_pass(), "{message}");
        }
        let coded =
            error(400, json!({ "error": { "message": "too long", "code": "context_length_exceeded" } }));
        assert!(coded.is_overflow());
        let upstream = json!({ "error": { "message": "Provider returned error", "code": 400,
            "metadata": { "raw": "{\"message\": \"This endpoint's maximum context length is 9 tokens\"}" } } });
        assert!(error(400, upstream).is_overflow());
        assert!(
            !error(429, json!({ "error": { "message": "Rate limit reached on tokens per min (TPM)" } }))
                .is_overflow()
        );
    }

    #[test]
    fn what_cannot_succeed_is_not_repeated() {
        let quota =
            json!({ "error": { "message": "You exceeded your quota", "type": "insufficient_quota" } });
        assert!(!error(429, quota).may_pass());
        for status in [400, 401, 402, 403, 404, 405, 413, 422, 451, 501, 505] {
            assert!(!error(status, json!({ "error": "no" })).may_pass(), "{status}");
        }
        // Gemini words a limit a minute in this way: it does pass.
        let minute = json!([{ "error": { "code": 429, "message": "You exceeded your current quota, please check your plan and billing details. Please retry in 33s." } }]);
        assert!(error(429, minute).may_pass());
        for status in [408, 409, 429, 500, 502, 503, 504, 524, 529] {
            assert!(error(status, json!({ "error": "later" })).may_pass(), "{status}");
        }
    }

    #[test]
    fn errors_are_read_in_every_shape() {
        for body in [
            json!({ "error": { "message": "why" } }),
            json!({ "error": "why" }),
            json!([{ "error": { "message": "why" } }]),
            json!({ "message": "why" }),
            json!({ "object": "error", "message": "why", "code": 40001 }),
            json!({ "detail": "why" }),
        ] {
            assert_eq!(error(400, body.clone()).message, "why", "{body}");
        }
        assert_eq!(
            error(422, json!({ "detail": [{ "loc": ["temperature"] }] })).message,
            r#"[{"loc":["temperature"]}]"#
        );
        assert!(ProviderError::from_json(200, &json!({ "choices": [], "error": null })).is_none());
        let inside = error(200, json!({ "error": { "code": 502, "message": "upstream" } }));
        assert_eq!((inside.status, inside.may_pass()), (502, true));
    }
}
