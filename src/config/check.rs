//! Which numbers make sense.

use std::{fmt::Display, ops::RangeInclusive};

use crate::domain::Price;

use super::{AgentLimits, Role, Settings};

/// A value that does not.
#[derive(Debug)]
pub struct OutOfRange {
    /// Such as `limits.run.usd`.
    pub key: String,
    pub found: String,
    pub expected: String,
}

const TEMPERATURE: RangeInclusive<f64> = 0.0..=2.0;
/// US dollars that a run, or one of its agents, may be allowed.
pub const RUN_USD: RangeInclusive<f64> = 0.01..=10_000.0;
const DAY: u64 = 86_400;

/// The first value that is out of its range.
pub fn check(settings: &Settings) -> Result<(), OutOfRange> {
    let Settings { model, method, limits, sandbox, git, paths } = settings;

    within("model.max_tokens", model.max_tokens, 16..=1_000_000)?;
    within("model.timeout_seconds", model.timeout_seconds, 0.1..=DAY as f64)?;
    within("model.retries", model.retries, 0..=20)?;
    within_if_set("model.temperature", model.temperature, TEMPERATURE)?;
    price("model", model.price)?;
    for role in Role::ALL {
        let own = settings.model_override(role);
        let key = |name: &str| format!("model.{role}.{name}");
        within_if_set(&key("max_tokens"), own.max_tokens, 16..=1_000_000)?;
        within_if_set(&key("timeout_seconds"), own.timeout_seconds, 0.1..=DAY as f64)?;
        within_if_set(&key("retries"), own.retries, 0..=20)?;
        within_if_set(&key("temperature"), own.temperature, TEMPERATURE)?;
        price(&format!("model.{role}"), own.price)?;
    }

    within("method.questions", method.questions, 0..=8)?;
    within("method.baseline_seconds", method.baseline_seconds, 0..=DAY)?;
    within("method.temperature.questioner", method.temperature.questioner, TEMPERATURE)?;
    within("method.temperature.answerer", method.temperature.answerer, TEMPERATURE)?;
    within("method.temperature.resolver", method.temperature.resolver, TEMPERATURE)?;

    within("limits.format_errors", limits.format_errors, 1..=20)?;
    within("limits.observation_chars", limits.observation_chars, 1_000..=1_000_000)?;
    agent("limits.answerer", &limits.answerer)?;
    agent("limits.resolver", &limits.resolver)?;
    within("limits.run.usd", limits.run.usd, RUN_USD)?;
    within("limits.run.seconds", limits.run.seconds, 1..=7 * DAY)?;

    within("sandbox.memory_mib", sandbox.memory_mib, 128..=1 << 20)?;
    within("sandbox.cpus", sandbox.cpus, 0.1..=1_024.0)?;
    within("sandbox.pids", sandbox.pids, 16..=32_768)?;
    within("sandbox.tmp_mib", sandbox.tmp_mib, 1..=1 << 20)?;
    within_if_set("sandbox.workspace_mib", sandbox.workspace_mib, 1..=1 << 20)?;
    filled("sandbox.image", &sandbox.image, "the name of an image")?;

    within("git.max_mib", git.max_mib, 1..=1 << 20)?;
    within("git.seconds", git.seconds, 1..=DAY)?;
    within("git.history_mib", git.history_mib, 1..=1 << 20)?;
    filled("paths.runs", &paths.runs.to_string_lossy(), "a folder")
}

fn agent(section: &str, limits: &AgentLimits) -> Result<(), OutOfRange> {
    within(&format!("{section}.steps"), limits.steps, 1..=100_000)?;
    within(&format!("{section}.usd"), limits.usd, RUN_USD)?;
    within(&format!("{section}.seconds"), limits.seconds, 1..=DAY)?;
    within(&format!("{section}.command_seconds"), limits.command_seconds, 1..=DAY)?;
    within(&format!("{section}.tokens"), limits.tokens, 1_000..=1_000_000_000_000)
}

fn price(section: &str, price: Option<Price>) -> Result<(), OutOfRange> {
    let Some(Price { input, cached, cache_write, output }) = price else { return Ok(()) };
    let all = [
        ("input", Some(input)),
        ("cached", Some(cached)),
        ("cache_write", cache_write),
        ("output", Some(output)),
    ];
    for (name, usd) in all {
        within_if_set(&format!("{section}.price.{name}"), usd, 0.0..=1_000_000.0)?;
    }
    Ok(())
}

fn within_if_set<T: PartialOrd + Display>(
    key: &str,
    value: Option<T>,
    range: RangeInclusive<T>,
) -> Result<(), OutOfRange> {
    value.map_or(Ok(()), |value| within(key, value, range))
}

/// Not-a-number is in no range.
fn within<T: PartialOrd + Display>(key: &str, value: T, range: RangeInclusive<T>) -> Result<(), OutOfRange> {
    if range.contains(&value) {
        return Ok(());
    }
    let expected = format!("from {} to {}", range.start(), range.end());
    Err(OutOfRange { key: key.to_owned(), found: value.to_string(), expected })
}

fn filled(key: &str, value: &str, what: &str) -> Result<(), OutOfRange> {
    if value.trim().is_empty() {
        return Err(OutOfRange { key: key.to_owned(), found: "empty".into(), expected: what.to_owned() });
    }
    Ok(())
}
