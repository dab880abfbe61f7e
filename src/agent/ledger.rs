//! The one ledger of a run: every agent's money and tokens, reserved before a call and settled after.

use std::{collections::HashMap, sync::Mutex};

use crate::{
    domain::{AgentName, Money, Tokens},
    method::ports::{Budget, Left, OverBudget, Reservation},
};

/// Most that one agent may use. Tokens (input and output together) count only where a call had no price.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cap {
    pub usd: Money,
    pub tokens: u64,
}

#[derive(Debug, Default, Clone, Copy)]
struct Used {
    usd: Money,
    reserved_usd: Money,
    /// Tokens of calls without a price.
    tokens: u64,
    reserved_tokens: u64,
}

/// An in-memory [`Budget`]. A resumed run restores it from the stored turns.
pub struct Ledger {
    run_usd: Money,
    cap_of: Box<dyn Fn(&AgentName) -> Cap + Send + Sync>,
    agents: Mutex<HashMap<AgentName, Used>>,
}

impl Ledger {
    /// `run_usd` caps all agents together; `cap_of` gives each agent its own cap.
    pub fn new(run_usd: Money, cap_of: impl Fn(&AgentName) -> Cap + Send + Sync + 'static) -> Self {
        Self { run_usd, cap_of: Box::new(cap_of), agents: Mutex::default() }
    }

    fn agents(&self) -> std::sync::MutexGuard<'_, HashMap<AgentName, Used>> {
        // A panic while the lock was held cannot leave a half-made change: each is one assignment.
        self.agents.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Budget for Ledger {
    fn reserve(&self, agent: &AgentName, worst: Money, tokens: u64) -> Result<Reservation, OverBudget> {
        let cap = (self.cap_of)(agent);
        let unpriced = worst == Money::ZERO;
        let tokens = if unpriced { tokens } else { 0 };
        let mut agents = self.agents();
        let run: Money = agents.values().map(|u| u.usd + u.reserved_usd).sum();
        let mine = agents.entry(agent.clone()).or_default();
        if mine.usd + mine.reserved_usd + worst > cap.usd
            || unpriced && mine.tokens + mine.reserved_tokens + tokens > cap.tokens
        {
            return Err(OverBudget::Agent);
        }
        if run + worst > self.run_usd {
            return Err(OverBudget::Run);
        }
        mine.reserved_usd += worst;
        mine.reserved_tokens += tokens;
        Ok(Reservation { agent: agent.clone(), worst, tokens })
    }

    fn settle(&self, reservation: Reservation, used: Money, tokens: Tokens) {
        let mut agents = self.agents();
        let mine = agents.entry(reservation.agent).or_default();
        mine.reserved_usd = mine.reserved_usd.saturating_sub(reservation.worst);
        mine.reserved_tokens = mine.reserved_tokens.saturating_sub(reservation.tokens);
        mine.usd += used;
        if reservation.worst == Money::ZERO {
            mine.tokens += tokens.total();
        }
    }

    fn restore(&self, agent: &AgentName, used: Money, tokens: Tokens) {
        let mut agents = self.agents();
        let mine = agents.entry(agent.clone()).or_default();
        mine.usd += used;
        if used == Money::ZERO {
            mine.tokens += tokens.total();
        }
    }

    fn spent(&self) -> Money {
        self.agents().values().map(|u| u.usd).sum()
    }

    fn left(&self, agent: &AgentName) -> Left {
        let cap = (self.cap_of)(agent);
        let agents = self.agents();
        let mine = agents.get(agent).copied().unwrap_or_default();
        let all: Money = agents.values().map(|u| u.usd + u.reserved_usd).sum();
        let own = cap.usd.saturating_sub(mine.usd + mine.reserved_usd);
        let run = self.run_usd.saturating_sub(all);
        let tokens = cap.tokens.saturating_sub(mine.tokens + mine.reserved_tokens);
        // Nobody comes near to the end of nothing.
        let part = |left: f64, of: f64| if of > 0.0 { left / of } else { 1.0 };
        let share = part(own.usd(), cap.usd.usd())
            .min(part(run.usd(), self.run_usd.usd()))
            .min(part(tokens as f64, cap.tokens as f64));
        Left { agent: own, run, tokens, share }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usd(x: f64) -> Money {
        Money::from_usd(x)
    }

    fn ledger(run: f64, agent: f64, tokens: u64) -> Ledger {
        Ledger::new(usd(run), move |_| Cap { usd: usd(agent), tokens })
    }

    #[test]
    fn agents_that_ask_at_once_cannot_overshoot_the_run() {
        let ledger = ledger(1.0, 1.0, 0);
        let (a, b) = (AgentName::answerer(1), AgentName::answerer(2));
        let first = ledger.reserve(&a, usd(0.6), 1).unwrap();
        assert_eq!(ledger.reserve(&b, usd(0.6), 1).unwrap_err(), OverBudget::Run);
        ledger.settle(first, usd(0.1), Tokens::default());
        let second = ledger.reserve(&b, usd(0.6), 1).unwrap();
        ledger.settle(second, usd(0.6), Tokens::default());
        assert_eq!(ledger.spent(), usd(0.7));
    }

    #[test]
    fn an_agents_own_cap_is_told_apart_from_the_runs() {
        let ledger = ledger(10.0, 0.5, 0);
        assert_eq!(ledger.reserve(&AgentName::resolver(), usd(0.6), 1).unwrap_err(), OverBudget::Agent);
    }

    #[test]
    fn tokens_stand_in_where_the_price_is_unknown() {
        let ledger = ledger(1.0, 1.0, 1_000);
        let agent = AgentName::resolver();
        let call = ledger.reserve(&agent, Money::ZERO, 900).unwrap();
        ledger.settle(call, Money::ZERO, Tokens { input: 400, cached: 0, output: 300 });
        assert_eq!(ledger.reserve(&agent, Money::ZERO, 400).unwrap_err(), OverBudget::Agent);
        let call = ledger.reserve(&agent, Money::ZERO, 300).unwrap();
        ledger.settle(call, Money::ZERO, Tokens::default());
    }

    #[test]
    fn s_09_what_is_left_is_the_least_of_all_limits() {
        let ledger = ledger(1.0, 0.8, 1_000);
        let (a, b) = (AgentName::answerer(1), AgentName::answerer(2));
        ledger.restore(&b, usd(0.7), Tokens::default());
        let reserved = ledger.reserve(&a, usd(0.2), 1).unwrap();
        let left = ledger.left(&a);
        assert_eq!((left.agent, left.run, left.tokens), (usd(0.6), usd(0.1), 1_000));
        assert!((left.share - 0.1).abs() < 1e-9, "{left:?}");
        assert_eq!(left.covers(usd(0.1), 0), Ok(()));
        assert_eq!(left.covers(usd(0.2), 0), Err(OverBudget::Run));
        assert_eq!(left.covers(usd(0.7), 0), Err(OverBudget::Agent));
        assert_eq!(left.covers(Money::ZERO, 1_001), Err(OverBudget::Agent));
        ledger.settle(reserved, usd(0.0), Tokens::default());
    }

    #[test]
    fn what_an_earlier_process_spent_counts() {
        let ledger = ledger(1.0, 1.0, 0);
        let agent = AgentName::resolver();
        ledger.restore(&agent, usd(0.9), Tokens::default());
        assert_eq!(ledger.reserve(&agent, usd(0.2), 1).unwrap_err(), OverBudget::Agent);
        assert_eq!(ledger.spent(), usd(0.9));
    }
}
