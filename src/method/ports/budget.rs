//! What a run may spend.

use crate::domain::{AgentName, Money, Tokens};

/// Why a call may not be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OverBudget {
    #[error("the agent's limit is reached")]
    Agent,
    #[error("the run's limit is reached")]
    Run,
}

/// What an agent may still spend, calls under way taken off.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Left {
    /// Of the agent's own limit.
    pub agent: Money,
    /// Of the run's.
    pub run: Money,
    /// Where the price is unknown.
    pub tokens: u64,
    /// The smallest part of any of these limits that is left, from 0 to 1.
    pub share: f64,
}

impl Left {
    /// Whether it suffices; `tokens` stands in for money where that is zero.
    pub fn covers(&self, usd: Money, tokens: u64) -> Result<(), OverBudget> {
        if usd > self.agent || usd == Money::ZERO && tokens > self.tokens {
            Err(OverBudget::Agent)
        } else if usd > self.run {
            Err(OverBudget::Run)
        } else {
            Ok(())
        }
    }
}

/// The one ledger of a run. A call's worst case is reserved before it and settled after, so that all
/// agents together overshoot by no more than one call.
pub trait Budget: Send + Sync {
    /// `worst` is an upper bound; `tokens` stands in for money where the price is unknown.
    fn reserve(&self, agent: &AgentName, worst: Money, tokens: u64) -> Result<Reservation, OverBudget>;
    /// Every reservation is settled, a failed call's with nothing used.
    fn settle(&self, reservation: Reservation, used: Money, tokens: Tokens);
    /// Counts what an earlier process of this run spent.
    fn restore(&self, agent: &AgentName, used: Money, tokens: Tokens);
    fn spent(&self) -> Money;
    fn left(&self, agent: &AgentName) -> Left;
}

/// A promise to [`Budget::settle`].
#[derive(Debug)]
#[must_use]
pub struct Reservation {
    pub agent: AgentName,
    pub worst: Money,
    pub tokens: u64,
}
