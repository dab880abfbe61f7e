//! The `[model]` section of the operator's settings.

use std::{fmt, time::Duration};

use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Deserializer, de};
use url::Url;

use super::price;
use crate::domain::{Price, is_loopback};

/// Where the model is asked and how. Every key may also come as `ACQUIRE_MODEL__KEY`.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ModelSettings {
    /// The wire format.
    pub protocol: Protocol,
    /// The model as its provider calls it, such as `gpt-5-mini`. Required.
    pub name: String,
    /// The address that the protocol's path is appended to; it usually ends in `/v1`. Empty: that of the
    /// protocol's maker.
    pub base_url: String,
    /// Name of the environment variable that holds the key.
    pub api_key_env: Option<String>,
    /// The key itself, meant to come from `ACQUIRE_MODEL__API_KEY` and not from a file. Goes before
    /// `api_key_env`.
    #[serde(deserialize_with = "secret")]
    pub api_key: Option<SecretString>,
    /// Takes the place of every agent's own temperature; from 0 to 2.
    pub temperature: Option<f64>,
    /// Most tokens of one reply, where the agent sets no limit of its own.
    pub max_tokens: u32,
    /// Longest wait for one whole reply, in seconds; a part of a second is allowed.
    pub timeout_seconds: f64,
    /// How often a call is repeated that failed for a reason that may pass.
    pub retries: u32,
    /// In US dollars for a million tokens. Goes before the built-in list prices.
    pub price: Option<Price>,
}

impl Default for ModelSettings {
    fn default() -> Self {
        Self {
            protocol: Protocol::OpenAi,
            name: String::new(),
            base_url: String::new(),
            api_key_env: None,
            api_key: None,
            temperature: None,
            max_tokens: 8192,
            timeout_seconds: 600.0,
            retries: 5,
            price: None,
        }
    }
}

/// A wire format that models are asked in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum Protocol {
    /// OpenAI's chat completions, which DeepSeek, Gemini, Mistral, Ollama, vLLM, OpenRouter and others speak
    /// as well.
    OpenAi,
    /// Anthropic's messages.
    Anthropic,
}

impl Protocol {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::Anthropic => "anthropic",
        }
    }

    /// What is appended to the base URL.
    pub(super) fn path(self) -> &'static str {
        match self {
            Self::OpenAi => "chat/completions",
            Self::Anthropic => "messages",
        }
    }

    /// The maker's own base URL.
    fn home(self) -> &'static str {
        match self {
            Self::OpenAi => "https://api.openai.com/v1",
            Self::Anthropic => "https://api.anthropic.com/v1",
        }
    }
}

impl TryFrom<String> for Protocol {
    type Error = String;
    fn try_from(name: String) -> Result<Self, String> {
        match name.as_str() {
            "openai" => Ok(Self::OpenAi),
            "anthropic" => Ok(Self::Anthropic),
            other => Err(format!(
                "this version does not speak the protocol {other:?}; use \"openai\", which most providers offer, or \"anthropic\""
            )),
        }
    }
}

/// A setting that cannot be used: which, why, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("settings: `model.{key}`: {reason}")]
pub struct SettingsError {
    pub key: &'static str,
    pub reason: String,
}

impl SettingsError {
    pub(super) fn new(key: &'static str, reason: impl Into<String>) -> Self {
        Self { key, reason: reason.into() }
    }
}

impl ModelSettings {
    /// Refuses values that no call could be made with.
    pub fn validate(&self) -> Result<(), SettingsError> {
        self.endpoint()?;
        let wrong = |key, reason: &str| Err(SettingsError::new(key, reason));
        if self.name.trim().is_empty() {
            return wrong(
                "name",
                "no model is named. Set `name` in `[model]`, or ACQUIRE_MODEL__NAME, to a model of the endpoint",
            );
        }
        if self.temperature.is_some_and(|t| !(0.0..=2.0).contains(&t)) {
            return wrong("temperature", "must be a number from 0 to 2");
        }
        if !(16..=1_000_000).contains(&self.max_tokens) {
            return wrong("max_tokens", "must be from 16 to 1000000");
        }
        if !(0.1..=86_400.0).contains(&self.timeout_seconds) {
            return wrong("timeout_seconds", "must be from 0.1 to 86400 (a day)");
        }
        if self.retries > 20 {
            return wrong("retries", "must be at most 20");
        }
        if let Some(price) = self.price {
            let fine = |dollars: f64| (0.0..=1e6).contains(&dollars);
            let all = [Some(price.input), Some(price.cached), price.cache_write, Some(price.output)];
            if !all.into_iter().flatten().all(fine) {
                return wrong(
                    "price",
                    "input, cached, cache_write and output are dollars for a million tokens, from 0",
                );
            }
        }
        Ok(())
    }

    /// Own price before list price.
    pub fn price(&self) -> Option<Price> {
        self.price.or_else(|| price::list_price(&self.name))
    }

    pub(super) fn timeout(&self) -> Duration {
        Duration::from_secs_f64(self.timeout_seconds)
    }

    /// The base URL, taken apart and checked.
    pub(super) fn endpoint(&self) -> Result<Url, SettingsError> {
        let wrong = |reason: &str| Err(SettingsError::new("base_url", reason));
        let given = Some(self.base_url.as_str()).filter(|given| !given.is_empty());
        let Ok(url) = Url::parse(given.unwrap_or(self.protocol.home())) else {
            return wrong(&format!("not a URL. It looks like {}", self.protocol.home()));
        };
        if !matches!(url.scheme(), "https" | "http") || url.host().is_none() {
            return wrong("must begin with https:// or http:// and name a host");
        }
        if !url.username().is_empty() || url.password().is_some() {
            return wrong("must not hold a user or password. Put the key into ACQUIRE_MODEL__API_KEY");
        }
        let path = self.protocol.path();
        if url.path().trim_end_matches('/').ends_with(&format!("/{path}")) {
            return wrong(&format!("must end before /{path}, which is appended to it"));
        }
        Ok(url)
    }

    /// The key to ask with, in printable ASCII; none is needed on this machine itself. `variable` reads the
    /// environment.
    pub(super) fn key(
        &self,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<SecretString>, SettingsError> {
        let named = self.api_key_env.as_deref().filter(|name| !name.is_empty());
        let filled = |key: &SecretString| !key.expose_secret().is_empty();
        let own = self.api_key.clone().filter(filled).map(|key| ("api_key", key));
        let from_variable = || {
            let key = SecretString::from(variable(named?)?.trim().to_owned());
            filled(&key).then_some(("api_key_env", key))
        };
        if let Some((setting, key)) = own.or_else(from_variable) {
            if key.expose_secret().bytes().all(|b| b.is_ascii_graphic()) {
                return Ok(Some(key));
            }
            return Err(SettingsError::new(
                setting,
                "the key has a space, a line break or a character that is not ASCII. Copy it again",
            ));
        }
        let url = self.endpoint()?;
        if is_loopback(&url) {
            return Ok(None);
        }
        let host = url.host_str().unwrap_or_default();
        Err(match named {
            Some(name) => SettingsError::new(
                "api_key_env",
                format!(
                    "the environment variable {name} is empty or not set, and {host} asks for a key. Set {name} or ACQUIRE_MODEL__API_KEY"
                ),
            ),
            None => SettingsError::new(
                "api_key",
                format!(
                    "there is no key for {host}. Set ACQUIRE_MODEL__API_KEY, or name the variable that holds it in `api_key_env`; any text will do where the endpoint needs none"
                ),
            ),
        })
    }
}

/// Reads a key. Keys of digits alone arrive from the environment as numbers, and no error may show them.
fn secret<'de, D: Deserializer<'de>>(from: D) -> Result<Option<SecretString>, D::Error> {
    struct Key;
    impl<'de> de::Visitor<'de> for Key {
        type Value = Option<SecretString>;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a key as text")
        }
        fn visit_str<E: de::Error>(self, key: &str) -> Result<Self::Value, E> {
            Ok(Some(SecretString::from(key.trim().to_owned())))
        }
        fn visit_u64<E: de::Error>(self, key: u64) -> Result<Self::Value, E> {
            self.visit_str(&key.to_string())
        }
        fn visit_i64<E: de::Error>(self, key: i64) -> Result<Self::Value, E> {
            self.visit_str(&key.to_string())
        }
        fn visit_f64<E: de::Error>(self, _: f64) -> Result<Self::Value, E> {
            Err(E::custom("the key reads as a number with a fraction; put it in quotes"))
        }
        fn visit_none<E: de::Error>(self) -> Result<Self::Value, E> {
            Ok(None)
        }
        fn visit_unit<E: de::Error>(self) -> Result<Self::Value, E> {
            Ok(None)
        }
        fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
            from.deserialize_any(self)
        }
    }
    from.deserialize_any(Key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(json: &str) -> Result<ModelSettings, String> {
        serde_json::from_str(json).map_err(|e| e.to_string())
    }

    fn named() -> ModelSettings {
        ModelSettings { name: "m".into(), ..ModelSettings::default() }
    }

    #[test]
    fn base_url_and_name_suffice_on_loopback() {
        for base_url in ["http://127.0.0.1:8099/v1", "http://localhost:1/v1", "http://[::1]:1"] {
            let settings = ModelSettings { base_url: base_url.into(), ..named() };
            settings.validate().unwrap();
            assert!(settings.key(|_| None).unwrap().is_none(), "{base_url}");
        }
    }

    #[test]
    fn a_missing_key_names_the_variable_to_set() {
        let error = named().key(|_| None).unwrap_err().to_string();
        insta::assert_snapshot!(error, @"settings: `model.api_key`: there is no key for api.openai.com. Set ACQUIRE_MODEL__API_KEY, or name the variable that holds it in `api_key_env`; any text will do where the endpoint needs none");
        let settings = ModelSettings { api_key_env: Some("MY_KEY".into()), ..named() };
        let error = settings.key(|_| None).unwrap_err().to_string();
        insta::assert_snapshot!(error, @"settings: `model.api_key_env`: the environment variable MY_KEY is empty or not set, and api.openai.com asks for a key. Set MY_KEY or ACQUIRE_MODEL__API_KEY");
        let key = settings.key(|name| (name == "MY_KEY").then(|| "sk-1\n".into())).unwrap().unwrap();
        assert_eq!(key.expose_secret(), "sk-1");
        let error = settings.key(|_| Some("sk-1 sk-2".into())).unwrap_err().to_string();
        insta::assert_snapshot!(error, @"settings: `model.api_key_env`: the key has a space, a line break or a character that is not ASCII. Copy it again");
    }

    #[test]
    fn the_key_is_never_shown() {
        let settings = from(r#"{"name": "m", "api_key": "sk-secret"}"#).unwrap();
        assert_eq!(settings.key(|_| None).unwrap().unwrap().expose_secret(), "sk-secret");
        assert!(!format!("{settings:?}").contains("sk-secret"));
        // As a settings library hands it over when the key looks like a number.
        let settings = from(r#"{"name": "m", "api_key": 1234567890}"#).unwrap();
        assert_eq!(settings.key(|_| None).unwrap().unwrap().expose_secret(), "1234567890");
        assert!(!from(r#"{"api_key": 1234.5678}"#).unwrap_err().contains("1234"));
    }

    #[test]
    fn only_what_is_built_is_taken() {
        insta::assert_snapshot!(from(r#"{"protocol": "gemini"}"#).unwrap_err(), @r#"this version does not speak the protocol "gemini"; use "openai", which most providers offer, or "anthropic" at line 1 column 22"#);
        assert!(from(r#"{"nmae": "m"}"#).unwrap_err().contains("unknown field `nmae`"));
    }

    #[test]
    fn values_that_no_call_could_be_made_with_are_refused() {
        let refused = |settings: ModelSettings| settings.validate().unwrap_err().key;
        assert_eq!(refused(ModelSettings::default()), "name");
        for base_url in [
            "api.openai.com",
            "ftp://a/v1",
            "https://user:sk-1@a/v1",
            "http://127.0.0.1/v1/chat/completions/",
        ] {
            let settings = ModelSettings { base_url: base_url.into(), ..named() };
            assert_eq!(refused(settings.clone()), "base_url", "{base_url}");
            assert!(!settings.validate().unwrap_err().to_string().contains("sk-1"));
        }
        let base_url = "http://127.0.0.1/v1/messages".to_owned();
        assert_eq!(refused(ModelSettings { protocol: Protocol::Anthropic, base_url, ..named() }), "base_url");
        for temperature in [-0.1, 2.1, f64::NAN] {
            assert_eq!(refused(ModelSettings { temperature: Some(temperature), ..named() }), "temperature");
        }
        for max_tokens in [0, 15, 1_000_001] {
            assert_eq!(refused(ModelSettings { max_tokens, ..named() }), "max_tokens");
        }
        for timeout_seconds in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(refused(ModelSettings { timeout_seconds, ..named() }), "timeout_seconds");
        }
        assert_eq!(refused(ModelSettings { retries: 21, ..named() }), "retries");
        let free = Price { input: 0.0, cached: 0.0, cache_write: None, output: 0.0 };
        for price in [Price { input: -1.0, ..free }, Price { cache_write: Some(f64::NAN), ..free }] {
            assert_eq!(refused(ModelSettings { price: Some(price), ..named() }), "price");
        }
    }

    #[test]
    fn an_empty_base_url_is_that_of_the_protocols_maker() {
        let endpoint = |protocol| ModelSettings { protocol, ..named() }.endpoint().unwrap().to_string();
        assert_eq!(endpoint(Protocol::OpenAi), "https://api.openai.com/v1");
        assert_eq!(endpoint(Protocol::Anthropic), "https://api.anthropic.com/v1");
    }

    #[test]
    fn the_settings_price_goes_before_the_list() {
        let listed = ModelSettings { name: "gpt-5-mini".into(), ..ModelSettings::default() };
        assert_eq!(listed.price().unwrap().output, 2.0);
        let own = Price { input: 1.0, cached: 1.0, cache_write: None, output: 1.0 };
        assert_eq!(ModelSettings { price: Some(own), ..listed }.price(), Some(own));
        assert_eq!(named().price(), None);
    }
}
