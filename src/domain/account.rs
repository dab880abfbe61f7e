//! Money, tokens, and what an agent used.

use std::{
    fmt,
    iter::Sum,
    ops::{Add, AddAssign},
};

use serde::{Deserialize, Serialize};

/// US dollars, held as whole nanodollars so that sums are exact. Serialised as a number of dollars.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Money(u64);

impl Money {
    pub const ZERO: Self = Self(0);

    /// Negative and not-a-number become zero; limits come through settings, which refuse them first.
    pub fn from_usd(usd: f64) -> Self {
        Self((usd * 1e9).round() as u64)
    }

    pub fn usd(self) -> f64 {
        self.0 as f64 / 1e9
    }

    pub fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Add for Money {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Money {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sum for Money {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::ZERO, Add::add)
    }
}

impl fmt::Display for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "${:.3}", self.usd())
    }
}

impl Serialize for Money {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_f64(self.usd())
    }
}

impl<'de> Deserialize<'de> for Money {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        f64::deserialize(from).map(Self::from_usd)
    }
}

/// Tokens as a provider counts them. `input` includes `cached`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tokens {
    pub input: u64,
    /// The part of `input` that the provider read from its cache.
    pub cached: u64,
    pub output: u64,
}

impl Tokens {
    /// Input and output together.
    pub fn total(self) -> u64 {
        self.input + self.output
    }
}

impl AddAssign for Tokens {
    fn add_assign(&mut self, other: Self) {
        self.input += other.input;
        self.cached += other.cached;
        self.output += other.output;
    }
}

/// Price of a model, in US dollars for a million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    pub input: f64,
    /// Of input that is read from the provider's cache.
    pub cached: f64,
    /// Of input that is written to it, where that costs something else than `input`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<f64>,
    pub output: f64,
}

impl Price {
    /// Where nothing was written to a cache.
    pub fn of(&self, tokens: Tokens) -> Money {
        self.with_writes(tokens, 0)
    }

    /// `written`: the part of the input that was written to the cache; no token is read and written at once.
    pub fn with_writes(&self, tokens: Tokens, written: u64) -> Money {
        let uncached = tokens.input.saturating_sub(tokens.cached);
        let written = written.min(uncached);
        let dollars = (uncached - written) as f64 * self.input
            + written as f64 * self.cache_write.unwrap_or(self.input)
            + tokens.cached as f64 * self.cached
            + tokens.output as f64 * self.output;
        Money::from_usd(dollars / 1e6)
    }

    /// The most that these tokens can cost.
    pub fn worst(&self, tokens: Tokens) -> Money {
        let written = if self.cache_write.is_some_and(|price| price > self.input) { tokens.input } else { 0 };
        self.with_writes(tokens, written)
    }
}

/// What one agent, stage or run used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Account {
    /// Model calls whose reply was used, malformed ones included.
    pub steps: u32,
    /// Wall-clock seconds.
    pub seconds: f64,
    pub usd: Money,
    pub tokens: Tokens,
}

impl AddAssign for Account {
    fn add_assign(&mut self, other: Self) {
        self.steps += other.steps;
        self.seconds += other.seconds;
        self.usd += other.usd;
        self.tokens += other.tokens;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cached_tokens_are_charged_at_their_own_price() {
        let price = Price { input: 0.25, cached: 0.025, cache_write: None, output: 2.0 };
        let used = Tokens { input: 1_000_000, cached: 600_000, output: 100_000 };
        assert_eq!(price.of(used), Money::from_usd(0.1 + 0.015 + 0.2));
        assert_eq!(price.with_writes(used, 300_000), price.of(used), "writing costs nothing more");
        assert_eq!(price.worst(used), price.of(used));
    }

    #[test]
    fn what_is_written_to_the_cache_is_charged_at_its_own_price() {
        let price = Price { input: 4.0, cached: 0.2, cache_write: Some(5.0), output: 20.0 };
        let used = Tokens { input: 1_000_000, cached: 600_000, output: 100_000 };
        assert_eq!(price.with_writes(used, 300_000), Money::from_usd(0.4 + 1.5 + 0.12 + 2.0));
        assert_eq!(
            price.with_writes(used, 900_000),
            Money::from_usd(2.0 + 0.12 + 2.0),
            "only what is not read"
        );
        assert_eq!(price.worst(Tokens { cached: 0, ..used }), Money::from_usd(5.0 + 2.0));
    }

    #[test]
    fn money_is_exact_and_serialises_as_dollars() {
        let sum: Money = (0..10).map(|_| Money::from_usd(0.1)).sum();
        assert_eq!(sum, Money::from_usd(1.0));
        assert_eq!(serde_json::to_string(&sum).unwrap(), "1.0");
        assert_eq!(Money::from_usd(-1.0), Money::ZERO);
    }
}
