//! Turns that a resumed run cuts off: the model made them and was paid for them.

use crate::{
    domain::{Account, AgentName},
    method::ports::{StoreError, Turn},
};

use super::run::Services;

/// Adds the turns that are about to be cut to what was cut before, and gives the sum. Stored before the cut: a
/// kill in between counts them twice, which is the safe side of a limit.
pub(super) async fn remember(
    services: &Services,
    agent: &AgentName,
    dropped: &[Turn],
) -> Result<Account, StoreError> {
    let name = stage(agent);
    let mut sum: Account = match services.store.stage(&name).await? {
        Some(stored) => serde_json::from_value(stored)
            .map_err(|e| StoreError { what: format!("the stored `{name}`"), reason: e.to_string() })?,
        None => Account::default(),
    };
    if dropped.is_empty() {
        return Ok(sum);
    }
    for turn in dropped {
        sum += turn.account;
    }
    let value = serde_json::to_value(sum)
        .map_err(|e| StoreError { what: format!("the account `{name}`"), reason: e.to_string() })?;
    services.store.put_stage(&name, &value).await?;
    Ok(sum)
}

/// Under which name it is stored, beside the outputs of stages.
pub fn stage(agent: &AgentName) -> String {
    format!("cut-{agent}")
}
