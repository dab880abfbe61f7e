//! `[model]` and what `[model.questioner]`, `[model.answerer]`, `[model.resolver]` and `[model.judge]` override
//! of it.

use std::fmt;

use secrecy::SecretString;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::domain::Price;

use super::{ConfigError, Environment, Settings};

/// Who asks a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    Questioner,
    Answerer,
    Resolver,
    /// Marks the questions of a bench.
    Judge,
}

impl Role {
    pub const ALL: [Self; 4] = [Self::Questioner, Self::Answerer, Self::Resolver, Self::Judge];

    pub fn name(self) -> &'static str {
        match self {
            Self::Questioner => "questioner",
            Self::Answerer => "answerer",
            Self::Resolver => "resolver",
            Self::Judge => "judge",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A wire format that models are asked in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// OpenAI's chat completions, which most providers and local servers speak as well.
    OpenAi,
    /// Anthropic's messages.
    Anthropic,
}

impl Protocol {
    /// The endpoint of the protocol's maker, where none is set.
    fn home(self) -> &'static str {
        match self {
            Self::OpenAi => "https://api.openai.com/v1",
            Self::Anthropic => "https://api.anthropic.com/v1",
        }
    }
}

/// How a model calls tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Tools {
    /// By the provider's own tool calls.
    Native,
    /// By a fenced block of its text, for models without tool calls.
    Text,
}

/// The model that every role asks, unless it has one of its own.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelSection {
    pub protocol: Protocol,
    /// As the provider calls it.
    pub name: String,
    /// What the protocol's path is appended to. Empty: the endpoint of the protocol's maker.
    pub base_url: String,
    /// Name of the environment variable that holds the key; empty for none.
    pub api_key_env: String,
    /// The key itself, meant to come from `ACQUIRE_MODEL__API_KEY`; goes before `api_key_env`.
    #[serde(deserialize_with = "read_secret", serialize_with = "hide_secret")]
    pub api_key: Option<SecretString>,
    pub tools: Tools,
    /// Takes the place of the temperatures of `[method.temperature]`, for models that take one only.
    pub temperature: Option<f64>,
    /// Most tokens of one reply.
    pub max_tokens: u32,
    /// Longest wait for one whole reply.
    pub timeout_seconds: f64,
    /// How often a call is repeated that failed for a reason that may pass.
    pub retries: u32,
    /// Goes before the built-in list prices.
    pub price: Option<Price>,
    pub questioner: ModelOverride,
    pub answerer: ModelOverride,
    pub resolver: ModelOverride,
    pub judge: ModelOverride,
}

impl Default for ModelSection {
    fn default() -> Self {
        Self {
            protocol: Protocol::OpenAi,
            name: String::new(),
            base_url: String::new(),
            api_key_env: String::new(),
            api_key: None,
            tools: Tools::Native,
            temperature: None,
            max_tokens: 8_192,
            timeout_seconds: 600.0,
            retries: 5,
            price: None,
            questioner: ModelOverride::default(),
            answerer: ModelOverride::default(),
            resolver: ModelOverride::default(),
            judge: ModelOverride::default(),
        }
    }
}

/// What one role's model differs in. The keys mean the same as in [`ModelSection`].
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelOverride {
    pub protocol: Option<Protocol>,
    pub name: Option<String>,
    pub base_url: Option<String>,
    pub api_key_env: Option<String>,
    #[serde(deserialize_with = "read_secret", serialize_with = "hide_secret")]
    pub api_key: Option<SecretString>,
    pub tools: Option<Tools>,
    pub temperature: Option<f64>,
    pub max_tokens: Option<u32>,
    pub timeout_seconds: Option<f64>,
    pub retries: Option<u32>,
    pub price: Option<Price>,
}

/// The model that one role asks, everything filled in.
#[derive(Debug, Clone)]
pub struct RoleModel {
    pub protocol: Protocol,
    pub name: String,
    pub base_url: String,
    /// `None` where none is set, as local servers need none.
    pub api_key: Option<SecretString>,
    pub tools: Tools,
    pub temperature: f64,
    pub max_tokens: u32,
    pub timeout_seconds: f64,
    pub retries: u32,
    /// Set by the operator; list prices are the model client's business.
    pub price: Option<Price>,
}

impl Settings {
    /// The role's model. Fails when no name is set, or a variable that should hold the key is not there.
    ///
    /// Three things are not inherited: a price by a model of another name, an endpoint by another protocol,
    /// and a key by another endpoint, which would hand it to somebody it was not made for.
    pub fn model_of(&self, role: Role, environment: &Environment) -> Result<RoleModel, ConfigError> {
        let base = &self.model;
        let own = self.model_override(role);
        let name = own.name.as_ref().unwrap_or(&base.name).clone();
        if name.trim().is_empty() {
            return Err(ConfigError::Missing {
                key: "model.name".into(),
                why: format!("the {role} needs a model"),
                example: "gpt-5-mini".into(),
            });
        }
        let protocol = own.protocol.unwrap_or(base.protocol);
        let endpoint = |protocol: Protocol, url: &str| {
            if url.is_empty() { protocol.home().to_owned() } else { url.to_owned() }
        };
        let common = endpoint(base.protocol, &base.base_url);
        let base_url = match &own.base_url {
            Some(own) => endpoint(protocol, own),
            None if protocol == base.protocol => common.clone(),
            None => endpoint(protocol, ""),
        };
        let own_key = own.api_key.is_some() || own.api_key_env.is_some();
        let (prefix, key, variable) = if own_key || base_url != common {
            (format!("model.{role}"), &own.api_key, own.api_key_env.as_deref().unwrap_or_default())
        } else {
            ("model".to_owned(), &base.api_key, base.api_key_env.as_str())
        };
        let same_name = name == base.name;
        Ok(RoleModel {
            protocol,
            name,
            base_url,
            api_key: read_key(&prefix, key, variable, environment)?,
            tools: own.tools.unwrap_or(base.tools),
            temperature: own.temperature.or(base.temperature).unwrap_or(self.temperature(role)),
            max_tokens: own.max_tokens.unwrap_or(base.max_tokens),
            timeout_seconds: own.timeout_seconds.unwrap_or(base.timeout_seconds),
            retries: own.retries.unwrap_or(base.retries),
            price: own.price.or(base.price.filter(|_| same_name)),
        })
    }

    pub(super) fn model_override(&self, role: Role) -> &ModelOverride {
        match role {
            Role::Questioner => &self.model.questioner,
            Role::Answerer => &self.model.answerer,
            Role::Resolver => &self.model.resolver,
            Role::Judge => &self.model.judge,
        }
    }

    fn temperature(&self, role: Role) -> f64 {
        match role {
            Role::Questioner => self.method.temperature.questioner,
            Role::Answerer => self.method.temperature.answerer,
            Role::Resolver => self.method.temperature.resolver,
            // The same questions are to get the same marks.
            Role::Judge => 0.0,
        }
    }
}

fn read_key(
    section: &str,
    key: &Option<SecretString>,
    variable: &str,
    environment: &Environment,
) -> Result<Option<SecretString>, ConfigError> {
    if key.is_some() || variable.is_empty() {
        return Ok(key.clone());
    }
    match environment.variable(variable).map(str::trim) {
        Some(value) if !value.is_empty() => Ok(Some(value.to_owned().into())),
        _ => Err(ConfigError::NoKey { key: format!("{section}.api_key_env"), variable: variable.to_owned() }),
    }
}

/// An empty key is none, so that an empty variable switches a key off.
fn read_secret<'de, D: Deserializer<'de>>(from: D) -> Result<Option<SecretString>, D::Error> {
    let text = Option::<String>::deserialize(from)?;
    Ok(text.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty()).map(SecretString::from))
}

fn hide_secret<S: Serializer>(_: &Option<SecretString>, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_none()
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret;

    use super::*;

    fn environment(variables: &[(&str, &str)]) -> Environment {
        Environment::new("/start".into(), variables.iter().copied())
    }

    fn base() -> Settings {
        let mut settings = Settings::default();
        settings.model.name = "big".into();
        settings.model.base_url = "https://a.example/v1".into();
        settings.model.api_key = Some("for-a".to_owned().into());
        settings.model.price = Some(Price { input: 1.0, cached: 0.5, cache_write: None, output: 2.0 });
        settings
    }

    fn key(model: &RoleModel) -> Option<&str> {
        model.api_key.as_ref().map(ExposeSecret::expose_secret)
    }

    #[test]
    fn a_role_takes_from_the_common_model_what_it_does_not_set() {
        let mut settings = base();
        settings.model.answerer.retries = Some(1);
        let answerer = settings.model_of(Role::Answerer, &environment(&[])).unwrap();
        assert_eq!((answerer.name.as_str(), answerer.retries, key(&answerer)), ("big", 1, Some("for-a")));
        assert_eq!(answerer.price, settings.model.price);
        assert_eq!(settings.model_of(Role::Resolver, &environment(&[])).unwrap().retries, 5);
    }

    #[test]
    fn a_key_goes_to_no_other_endpoint_and_a_price_to_no_other_model() {
        let mut settings = base();
        settings.model.answerer.base_url = Some("http://b.example/v1".into());
        settings.model.resolver.name = Some("small".into());
        settings.model.questioner.base_url = Some("https://a.example/v1".into());
        let of = |role| settings.model_of(role, &environment(&[])).unwrap();
        assert_eq!(key(&of(Role::Answerer)), None);
        assert_eq!(of(Role::Answerer).price, settings.model.price);
        assert_eq!((key(&of(Role::Resolver)), of(Role::Resolver).price), (Some("for-a"), None));
        assert_eq!(key(&of(Role::Questioner)), Some("for-a"));
    }

    #[test]
    fn without_a_base_url_the_protocols_maker_is_asked_and_an_endpoint_goes_to_no_other_protocol() {
        let of = |settings: &Settings| {
            let model = settings.model_of(Role::Resolver, &environment(&[])).unwrap();
            (model.base_url.clone(), key(&model).map(str::to_owned))
        };
        let mut settings = base();
        settings.model.base_url.clear();
        let for_a = || Some("for-a".to_owned());
        assert_eq!(of(&settings), ("https://api.openai.com/v1".into(), for_a()));
        settings.model.resolver.protocol = Some(Protocol::Anthropic);
        assert_eq!(of(&settings), ("https://api.anthropic.com/v1".into(), None));
        settings.model.base_url = "https://a.example/v1".into();
        assert_eq!(of(&settings), ("https://api.anthropic.com/v1".into(), None));
        settings.model.resolver.base_url = Some("https://a.example/v1".into());
        assert_eq!(of(&settings), ("https://a.example/v1".into(), for_a()));
        settings.model.protocol = Protocol::Anthropic;
        settings.model.base_url.clear();
        settings.model.resolver = ModelOverride::default();
        assert_eq!(of(&settings), ("https://api.anthropic.com/v1".into(), for_a()));
    }

    #[test]
    fn each_role_may_have_a_price_and_a_way_of_calling_tools() {
        let mut settings = base();
        let price = Price { input: 4.0, cached: 0.2, cache_write: Some(5.0), output: 20.0 };
        settings.model.resolver.price = Some(price);
        settings.model.resolver.tools = Some(Tools::Text);
        let of = |role| settings.model_of(role, &environment(&[])).unwrap();
        assert_eq!((of(Role::Resolver).price, of(Role::Resolver).tools), (Some(price), Tools::Text));
        assert_eq!(
            (of(Role::Answerer).price, of(Role::Answerer).tools),
            (settings.model.price, Tools::Native)
        );
    }

    #[test]
    fn a_key_is_read_from_the_variable_that_the_settings_name() {
        let mut settings = base();
        settings.model.resolver.api_key_env = Some("OTHER_KEY".into());
        let with = environment(&[("OTHER_KEY", " for-b\n")]);
        assert_eq!(key(&settings.model_of(Role::Resolver, &with).unwrap()), Some("for-b"));
        insta::assert_snapshot!(settings.model_of(Role::Resolver, &environment(&[])).unwrap_err(), @"settings: `model.resolver.api_key_env` says that the key is in the variable OTHER_KEY, which is not set or empty; set it");
    }

    #[test]
    fn the_temperature_is_the_roles_unless_the_model_takes_one_only() {
        let mut settings = base();
        let of = |settings: &Settings, role| settings.model_of(role, &environment(&[])).unwrap().temperature;
        assert_eq!(Role::ALL.map(|role| of(&settings, role)), [0.7, 0.0, 0.0, 0.0]);
        settings.model.temperature = Some(1.0);
        settings.model.resolver.temperature = Some(0.2);
        assert_eq!(Role::ALL.map(|role| of(&settings, role)), [1.0, 1.0, 0.2, 1.0]);
    }

    #[test]
    fn a_missing_name_is_told() {
        let error = Settings::default().model_of(Role::Questioner, &environment(&[])).unwrap_err();
        insta::assert_snapshot!(error, @"settings: `model.name` is not set and the questioner needs a model; set it, for example by ACQUIRE_MODEL__NAME=gpt-5-mini");
    }
}
