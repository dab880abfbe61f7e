//! From the operator's settings to what each room takes.

use std::time::Duration;

use crate::{
    agent::ledger::{Cap, Ledger},
    config::{AgentLimits, ConfigError, Environment, Protocol, Role, RoleModel, Settings},
    domain::{AgentName, Money},
    method::context::{self, AgentSettings, QuestionerSettings},
    model::{self, ModelSettings},
};

/// The model that each role asks.
pub struct RoleModels {
    pub questioner: RoleModel,
    pub answerer: RoleModel,
    pub resolver: RoleModel,
}

impl RoleModels {
    pub fn of(settings: &Settings, environment: &Environment) -> Result<Self, ConfigError> {
        let of = |role| settings.model_of(role, environment);
        Ok(Self {
            questioner: of(Role::Questioner)?,
            answerer: of(Role::Answerer)?,
            resolver: of(Role::Resolver)?,
        })
    }

    /// Temperatures and limits where replies come from a recording: no model and no key are needed then.
    pub fn of_recording(settings: &Settings, environment: &Environment) -> Result<Self, ConfigError> {
        let mut settings = settings.clone();
        let model = &mut settings.model;
        model.name = "recorded".into();
        for own in [&mut model.questioner, &mut model.answerer, &mut model.resolver] {
            (own.name, own.base_url, own.api_key, own.api_key_env) = (None, None, None, None);
        }
        model.api_key_env.clear();
        Self::of(&settings, environment)
    }
}

/// A model of whose price nobody knows; no limit on money holds where there is one.
pub fn unpriced_model(settings: &Settings, environment: &Environment) -> Result<Option<String>, ConfigError> {
    let RoleModels { questioner, answerer, resolver } = RoleModels::of(settings, environment)?;
    let is_unpriced = |model: &RoleModel| model.price.or_else(|| model::list_price(&model.name)).is_none();
    Ok([questioner, answerer, resolver].into_iter().find(is_unpriced).map(|model| model.name))
}

pub fn method_settings(settings: &Settings, models: &RoleModels, questions: usize) -> context::Settings {
    let limits = &settings.limits;
    context::Settings {
        questions,
        questioner: QuestionerSettings {
            temperature: models.questioner.temperature,
            reply_tokens: models.questioner.max_tokens,
        },
        answerer: agent_settings(&limits.answerer, &models.answerer),
        resolver: agent_settings(&limits.resolver, &models.resolver),
        format_errors: limits.format_errors,
        observation_chars: limits.observation_chars,
        baseline: Duration::from_secs(settings.method.baseline_seconds),
    }
}

fn agent_settings(limits: &AgentLimits, model: &RoleModel) -> AgentSettings {
    AgentSettings {
        temperature: model.temperature,
        reply_tokens: model.max_tokens,
        steps: limits.steps,
        cap: Cap { usd: Money::from_usd(limits.usd), tokens: limits.tokens },
        time: Duration::from_secs(limits.seconds),
        command_time: Duration::from_secs(limits.command_seconds),
    }
}

/// The ledger of one run. The Questioner, which makes at most three calls, has an Answerer's cap.
pub fn ledger(settings: &Settings) -> Ledger {
    let cap = |limits: &AgentLimits| Cap { usd: Money::from_usd(limits.usd), tokens: limits.tokens };
    let (answerer, resolver) = (cap(&settings.limits.answerer), cap(&settings.limits.resolver));
    Ledger::new(Money::from_usd(settings.limits.run.usd), move |agent| {
        if *agent == AgentName::resolver() { resolver } else { answerer }
    })
}

pub fn model_settings(model: &RoleModel) -> ModelSettings {
    ModelSettings {
        protocol: match model.protocol {
            Protocol::OpenAi => model::Protocol::OpenAi,
            Protocol::Anthropic => model::Protocol::Anthropic,
        },
        name: model.name.clone(),
        base_url: model.base_url.clone(),
        api_key: model.api_key.clone(),
        max_tokens: model.max_tokens,
        timeout_seconds: model.timeout_seconds,
        retries: model.retries,
        price: model.price,
        ..ModelSettings::default()
    }
}
