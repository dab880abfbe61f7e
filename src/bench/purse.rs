//! The money of a whole bench: what runs have cost, and what those under way still may.

use std::collections::HashMap;

use crate::domain::Money;

/// Counts every run of a bench, under a limit that is never passed by more than a run passes its own cap.
#[derive(Debug)]
pub struct Purse {
    limit: Option<Money>,
    /// The most that one run may cost.
    cap: Money,
    /// What each run has cost, or holds reserved.
    taken: HashMap<usize, Money>,
}

impl Purse {
    pub fn new(limit: Option<Money>, cap: Money) -> Self {
        Self { limit, cap, taken: HashMap::new() }
    }

    /// A run of which nobody knows what it has cost, since it was killed or another process has it.
    pub fn unknown(&mut self, run: usize) {
        self.taken.insert(run, self.cap);
    }

    /// Reserves a run's cap before it starts, which covers what an earlier part of it has cost. False where
    /// that is more than is left.
    #[must_use]
    pub fn reserve(&mut self, run: usize) -> bool {
        let others: Money = self.taken.iter().filter(|(one, _)| **one != run).map(|(_, money)| *money).sum();
        // Its cap may have been higher when it cost what it has.
        let most = self.taken.get(&run).copied().unwrap_or_default().max(self.cap);
        let fits = self.limit.is_none_or(|limit| others + most <= limit);
        if fits {
            self.taken.insert(run, most);
        }
        fits
    }

    /// What a run has cost that has ended, here or in an earlier process.
    pub fn settle(&mut self, run: usize, cost: Money) {
        self.taken.insert(run, cost);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usd(amount: f64) -> Money {
        Money::from_usd(amount)
    }

    #[test]
    fn s_09_no_run_starts_whose_cap_is_more_than_is_left() {
        let mut purse = Purse::new(Some(usd(5.0)), usd(2.0));
        assert!(purse.reserve(0) && purse.reserve(1));
        assert!(!purse.reserve(2), "two are under way, and might cost 4");
        purse.settle(0, usd(0.5));
        assert!(purse.reserve(2));
        purse.settle(1, usd(1.9));
        purse.settle(2, usd(1.9));
        assert!(!purse.reserve(3));
    }

    #[test]
    fn s_09_what_a_run_has_cost_counts_where_the_cap_is_lower_by_now() {
        let mut purse = Purse::new(Some(usd(3.6)), usd(0.6));
        purse.settle(0, usd(8.0));
        assert!((0..6).all(|run| !purse.reserve(run)), "more than the limit is spent");
    }

    #[test]
    fn s_09_what_a_run_has_cost_already_is_within_its_cap() {
        let mut purse = Purse::new(Some(usd(3.0)), usd(2.0));
        purse.settle(0, usd(1.0));
        purse.unknown(1);
        assert!(!purse.reserve(2), "the killed one counts in full");
        assert!(purse.reserve(1), "it goes on within its own cap");
        purse.settle(1, usd(0.1));
        assert!(!purse.reserve(2));
        purse.settle(0, usd(0.0));
        assert!(purse.reserve(2));
        assert!((3..100).all(|run| Purse::new(None, usd(2.0)).reserve(run)), "without a limit all fit");
    }
}
