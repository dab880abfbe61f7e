//! What ends an agent before it submits, and when it is told so.
//!
//! No limit is overshot: what an agent is granted at the end (a warning, a last call) lies within its limits.

use std::time::Duration;

use crate::{
    domain::{Money, Price, Tokens},
    method::ports::{Left, OverBudget},
};

/// Characters of a model's words that are told where it declines.
const MAX_DECLINED_CHARS: usize = 300;

/// Limits of one agent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// Model calls.
    pub steps: u32,
    /// Wall-clock time of all turns together, earlier processes of a resumed run included.
    pub time: Duration,
    /// Replies in a row without one well-formed call.
    pub format_errors: u32,
    /// Tokens that one reply may have.
    pub reply_tokens: u32,
}

/// Of its time, an agent that has a last call keeps a tenth for it, and not more than this.
const MAX_LAST_CALL: Duration = Duration::from_secs(120);
/// What a conversation grows by before a last call, beside the reply; two long observations.
const GROWTH_TOKENS: u64 = 8_000;

impl Limits {
    /// What of the time is kept for the last call.
    pub(super) fn last_call_time(&self) -> Duration {
        (self.time / 10).min(MAX_LAST_CALL)
    }

    /// Whether about a tenth is left, of steps or time.
    pub(super) fn nearly_over(&self, steps: u32, time_left: Duration) -> bool {
        let steps_left = self.steps.saturating_sub(steps);
        steps_left <= self.steps.div_ceil(10) || time_left <= self.time / 10
    }
}

/// Whether about a tenth of the money is left, or only enough for one or two calls that cost `worst` at most.
pub(super) fn money_nearly_over(left: &Left, worst: Tokens, price: Option<Price>) -> bool {
    let two = Tokens { input: 2 * worst.input, cached: 0, output: 2 * worst.output };
    left.share <= 0.1 || left.covers(worst_cost(two, price), two.total()).is_err()
}

/// Most that a call and the last one after it can cost together, where one now costs `worst` at most.
pub(super) fn with_last_call(worst: Tokens) -> Tokens {
    Tokens { input: 2 * worst.input + worst.output + GROWTH_TOKENS, cached: 0, output: 2 * worst.output }
}

/// The most that tokens can cost; zero where the price is unknown and tokens stand in.
pub(super) fn worst_cost(tokens: Tokens, price: Option<Price>) -> Money {
    price.map_or(Money::ZERO, |price| price.worst(tokens))
}

/// Why an agent ended. The names are the contract of `run.json`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    Submitted,
    StepLimit,
    CostLimit,
    TimeLimit,
    FormatErrors,
    Cancelled,
    Failed,
}

impl Exit {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Submitted => "submitted",
            Self::StepLimit => "step_limit",
            Self::CostLimit => "cost_limit",
            Self::TimeLimit => "time_limit",
            Self::FormatErrors => "format_errors",
            Self::Cancelled => "cancelled",
            Self::Failed => "failed",
        }
    }
}

/// A limit that was reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reached {
    Steps,
    Money(OverBudget),
    /// The agent's own.
    Time,
    RunTime,
}

impl Reached {
    pub(super) fn exit(self) -> Exit {
        match self {
            Self::Steps => Exit::StepLimit,
            Self::Money(_) => Exit::CostLimit,
            Self::Time | Self::RunTime => Exit::TimeLimit,
        }
    }

    /// The limit, for the run's notes and for the agent itself.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Steps => "its limit on steps",
            Self::Money(OverBudget::Agent) => "its limit on money (on tokens where no price is known)",
            Self::Money(OverBudget::Run) => "the run's limit on money",
            Self::Time => "its limit on time",
            Self::RunTime => "the run's limit on time",
        }
    }
}

/// What a model said that declines to go on, for people. It would say so again.
pub fn declined(text: Option<&str>) -> String {
    let words = text.unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ");
    let words: String = words.chars().take(MAX_DECLINED_CHARS).collect();
    match words.as_str() {
        "" => "the model declined to answer, and gave no reason".to_owned(),
        words => format!("the model declined to answer: {words:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits =
        Limits { steps: 150, time: Duration::from_secs(1_800), format_errors: 3, reply_tokens: 100 };

    #[test]
    fn s_09_the_end_is_near_when_a_tenth_is_left() {
        let long = Duration::from_secs(900);
        assert!(!LIMITS.nearly_over(134, long));
        assert!(LIMITS.nearly_over(135, long));
        assert!(LIMITS.nearly_over(1, Duration::from_secs(180)));
        let few = Limits { steps: 3, ..LIMITS };
        assert!(!few.nearly_over(1, long) && few.nearly_over(2, long));

        let price = Some(Price { input: 1.0, cached: 1.0, output: 1.0, cache_write: None });
        let worst = Tokens { input: 400_000, cached: 0, output: 100_000 };
        let left = |usd, share| Left {
            agent: Money::from_usd(usd),
            run: Money::from_usd(9.0),
            tokens: 1_000_000,
            share,
        };
        assert!(money_nearly_over(&left(5.0, 0.1), worst, price));
        assert!(!money_nearly_over(&left(1.0, 0.5), worst, price));
        assert!(money_nearly_over(&left(0.9, 0.5), worst, price), "one such call is left, not two");
        assert!(!money_nearly_over(&left(0.0, 0.5), worst, None), "tokens stand in for money");
    }

    #[test]
    fn s_09_a_last_call_lies_within_the_time() {
        assert_eq!(LIMITS.last_call_time(), Duration::from_secs(120));
        let short = Limits { time: Duration::from_secs(60), ..LIMITS };
        assert_eq!(short.last_call_time(), Duration::from_secs(6));
    }
}
