//! How many Nodes may be deleted: a cloud that forgets its machines, or a provider that asks the wrong account, must not cost
//! the cluster its Nodes before somebody looks.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// How many Nodes may be deleted within a time. The larger of `percent` and `min` counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeletionBudget {
    /// Share of the Nodes that the providers of this process take care of, in percent, rounded down; more than 100 counts
    /// as 100. Default 10.
    pub percent: u8,
    /// Number of Nodes, for small clusters. Default 3. With 0 here and above each deletion has to be confirmed.
    pub min: usize,
    /// The time within which so many may be deleted. Default 10 min: what an autoscaler does stays below it, what an
    /// outage does does not.
    pub period: Duration,
}

impl Default for DeletionBudget {
    fn default() -> Self {
        Self { percent: 10, min: 3, period: Duration::from_secs(10 * 60) }
    }
}

impl DeletionBudget {
    /// The most deletions within the period, among `nodes`.
    pub(crate) fn limit(&self, nodes: usize) -> usize {
        let percent = usize::from(self.percent.min(100));
        (nodes.saturating_mul(percent) / 100).max(self.min)
    }
}

/// Counts deletions of this process.
pub(crate) struct Budget {
    settings: DeletionBudget,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Times of the deletions of the last period.
    spent: VecDeque<Instant>,
    /// Deletions that are being decided.
    reserved: usize,
    /// Names that were confirmed and not used yet.
    confirmed: BTreeSet<String>,
}

/// The right to delete one Node. Given back when it is dropped.
pub(crate) struct Grant<'b> {
    budget: &'b Budget,
    /// The name that was confirmed: this one does not count.
    confirmed: Option<String>,
    is_spent: bool,
}

impl Budget {
    pub(crate) fn new(settings: DeletionBudget, confirmed: BTreeSet<String>) -> Self {
        Self { settings, state: Mutex::new(State { confirmed, ..State::default() }) }
    }

    /// The right to delete the Node called `name`, one of so many `nodes`. The limit when there is none left.
    pub(crate) fn reserve(&self, name: &str, nodes: usize, now: Instant) -> Result<Grant<'_>, usize> {
        let mut state = self.state.lock();
        let confirmed = state.confirmed.take(name);
        if confirmed.is_none() {
            let period = self.settings.period;
            while state.spent.front().is_some_and(|then| now.duration_since(*then) >= period) {
                state.spent.pop_front();
            }
            let limit = self.settings.limit(nodes);
            if state.spent.len().saturating_add(state.reserved) >= limit {
                return Err(limit);
            }
            state.reserved = state.reserved.saturating_add(1);
        }
        Ok(Grant { budget: self, confirmed, is_spent: false })
    }

    pub(crate) const fn settings(&self) -> &DeletionBudget {
        &self.settings
    }
}

impl Grant<'_> {
    /// The Node was deleted, or may have been.
    pub(crate) fn spend(mut self, now: Instant) {
        self.is_spent = true;
        if self.confirmed.is_none() {
            self.budget.state.lock().spent.push_back(now);
        }
    }
}

impl Drop for Grant<'_> {
    fn drop(&mut self) {
        let mut state = self.budget.state.lock();
        match self.confirmed.take() {
            Some(name) if !self.is_spent => drop(state.confirmed.insert(name)),
            Some(_) => {}
            None => state.reserved = state.reserved.saturating_sub(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(percent: u8, min: usize, confirmed: &[&str]) -> Budget {
        let settings = DeletionBudget { percent, min, ..DeletionBudget::default() };
        Budget::new(settings, confirmed.iter().map(|&name| name.to_owned()).collect())
    }

    #[test]
    fn the_larger_of_share_and_number_counts() {
        let cases =
            [(10, 3, 0, 3), (10, 3, 39, 3), (10, 3, 40, 4), (10, 3, 5_000, 500), (0, 0, 5_000, 0), (200, 0, 7, 7)];
        for (percent, min, nodes, limit) in cases {
            assert_eq!(DeletionBudget { percent, min, ..DeletionBudget::default() }.limit(nodes), limit, "{nodes}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_deletion_counts_for_the_period_and_then_no_more() {
        let budget = budget(0, 2, &[]);
        for _ in 0..2 {
            budget.reserve("n", 10, Instant::now()).ok().unwrap().spend(Instant::now());
        }
        let period = DeletionBudget::default().period;
        tokio::time::advance(period - Duration::from_secs(1)).await;
        assert_eq!(budget.reserve("n", 10, Instant::now()).err(), Some(2));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(budget.reserve("n", 10, Instant::now()).is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_being_decided_counts_and_is_given_back() {
        let budget = budget(0, 1, &[]);
        let now = Instant::now();
        let grant = budget.reserve("a", 10, now);
        assert_eq!(budget.reserve("b", 10, now).err(), Some(1));
        drop(grant);
        assert!(budget.reserve("b", 10, now).is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_confirmed_name_is_good_for_one_deletion_and_does_not_count() {
        let budget = budget(0, 1, &["a"]);
        let now = Instant::now();
        drop(budget.reserve("a", 10, now));
        budget.reserve("a", 10, now).ok().unwrap().spend(now);
        budget.reserve("a", 10, now).ok().unwrap().spend(now);
        assert_eq!(budget.reserve("a", 10, now).err(), Some(1), "confirmed once, then one of the budget");
    }
}
