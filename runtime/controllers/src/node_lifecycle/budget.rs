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

/// Counts deletions of this process, and those of the last one that are known.
pub(crate) struct Budget {
    settings: DeletionBudget,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The deletions of the last period: when, and the UID of the Node.
    spent: VecDeque<(Instant, String)>,
    /// Deletions that are being decided.
    reserved: usize,
    /// Names that were confirmed and not used yet.
    confirmed: BTreeSet<String>,
    /// UIDs of the Nodes that these were used for, at most one for each name. They never count.
    free: BTreeSet<String>,
}

/// The right to delete one Node. Given back when it is dropped.
pub(crate) struct Grant<'b> {
    budget: &'b Budget,
    kind: Kind,
}

/// Why there is no right to delete one more Node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// As many as this were deleted.
    Spent(usize),
    /// Others are being decided, and may not be deleted after all.
    Busy,
}

/// What a deletion costs.
enum Kind {
    /// One of the limit: the UID.
    Counted(String),
    /// Nothing: this name was confirmed.
    Confirmed {
        name: String,
        uid: String,
    },
    /// Nothing more: it was counted, or confirmed, when the last attempt had no answer.
    Paid,
    Spent,
}

impl Budget {
    pub(crate) fn new(settings: DeletionBudget, confirmed: BTreeSet<String>) -> Self {
        Self { settings, state: Mutex::new(State { confirmed, ..State::default() }) }
    }

    /// The right to delete the Node called `name` with this UID, one of so many `nodes`.
    pub(crate) fn reserve(&self, name: &str, uid: &str, nodes: usize, now: Instant) -> Result<Grant<'_>, Refusal> {
        let mut state = self.state.lock();
        if let Some(name) = state.confirmed.take(name) {
            return Ok(Grant { budget: self, kind: Kind::Confirmed { name, uid: uid.to_owned() } });
        }
        if state.free.contains(uid) {
            return Ok(Grant { budget: self, kind: Kind::Paid });
        }
        let period = self.settings.period;
        while state.spent.front().is_some_and(|(then, _)| now.duration_since(*then) >= period) {
            state.spent.pop_front();
        }
        if state.spent.iter().any(|(_, paid)| paid == uid) {
            return Ok(Grant { budget: self, kind: Kind::Paid });
        }
        let limit = self.settings.limit(nodes);
        if state.spent.len() >= limit {
            return Err(Refusal::Spent(limit));
        }
        if state.spent.len().saturating_add(state.reserved) >= limit {
            return Err(Refusal::Busy);
        }
        state.reserved = state.reserved.saturating_add(1);
        Ok(Grant { budget: self, kind: Kind::Counted(uid.to_owned()) })
    }

    /// Counts deletions from before the start, the oldest first.
    pub(crate) fn recall(&self, deletions: Vec<(Instant, String)>) {
        self.state.lock().spent.extend(deletions);
    }

    pub(crate) const fn settings(&self) -> &DeletionBudget {
        &self.settings
    }
}

impl Grant<'_> {
    /// The Node was deleted, or may have been.
    pub(crate) fn spend(mut self, now: Instant) {
        let mut state = self.budget.state.lock();
        match std::mem::replace(&mut self.kind, Kind::Spent) {
            Kind::Counted(uid) => {
                state.reserved = state.reserved.saturating_sub(1);
                state.spent.push_back((now, uid));
            }
            Kind::Confirmed { uid, .. } => drop(state.free.insert(uid)),
            Kind::Paid | Kind::Spent => {}
        }
    }
}

impl Drop for Grant<'_> {
    fn drop(&mut self) {
        let mut state = self.budget.state.lock();
        match std::mem::replace(&mut self.kind, Kind::Spent) {
            Kind::Counted(_) => state.reserved = state.reserved.saturating_sub(1),
            Kind::Confirmed { name, .. } => drop(state.confirmed.insert(name)),
            Kind::Paid | Kind::Spent => {}
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
        for uid in ["u1", "u2"] {
            budget.reserve("n", uid, 10, Instant::now()).ok().unwrap().spend(Instant::now());
        }
        let period = DeletionBudget::default().period;
        tokio::time::advance(period - Duration::from_secs(1)).await;
        assert_eq!(budget.reserve("n", "u3", 10, Instant::now()).err(), Some(Refusal::Spent(2)));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(budget.reserve("n", "u3", 10, Instant::now()).is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_being_decided_counts_and_is_given_back() {
        let budget = budget(0, 1, &[]);
        let now = Instant::now();
        let grant = budget.reserve("a", "u-a", 10, now);
        assert_eq!(budget.reserve("b", "u-b", 10, now).err(), Some(Refusal::Busy));
        drop(grant);
        assert!(budget.reserve("b", "u-b", 10, now).is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_confirmed_name_is_good_for_one_deletion_and_does_not_count() {
        let budget = budget(0, 1, &["a"]);
        let now = Instant::now();
        drop(budget.reserve("a", "u1", 10, now));
        budget.reserve("a", "u1", 10, now).ok().unwrap().spend(now);
        budget.reserve("a", "u2", 10, now).ok().unwrap().spend(now);
        assert_eq!(
            budget.reserve("a", "u3", 10, now).err(),
            Some(Refusal::Spent(1)),
            "confirmed once, then one of the budget"
        );
    }

    /// It was held, although somebody had said that it may go.
    #[tokio::test(start_paused = true)]
    async fn a_confirmed_node_whose_deletion_had_no_answer_is_tried_again_and_does_not_count() {
        let budget = budget(0, 1, &["a"]);
        for _ in 0..10 {
            budget.reserve("a", "u1", 10, Instant::now()).ok().unwrap().spend(Instant::now());
            tokio::time::advance(DeletionBudget::default().period / 5).await;
        }
        let now = Instant::now();
        assert!(budget.reserve("b", "u-b", 10, now).is_ok(), "the limit is untouched");
        budget.reserve("a", "u2", 10, now).ok().unwrap().spend(now);
        assert_eq!(
            budget.reserve("a", "u3", 10, now).err(),
            Some(Refusal::Spent(1)),
            "another Node of this name counts"
        );
    }

    /// An API server without answers once used up the whole budget with one Node.
    #[tokio::test(start_paused = true)]
    async fn the_same_node_counts_once_however_often_its_deletion_is_tried() {
        let budget = budget(0, 2, &[]);
        let now = Instant::now();
        for _ in 0..10 {
            budget.reserve("a", "u-a", 10, now).ok().unwrap().spend(now);
        }
        budget.reserve("b", "u-b", 10, now).ok().unwrap().spend(now);
        assert_eq!(budget.reserve("c", "u-c", 10, now).err(), Some(Refusal::Spent(2)));
    }
}
