//! How many Nodes may be deleted: a cloud that forgets its machines, or a provider that asks the wrong account, must not cost
//! the cluster its Nodes before somebody looks. Each provider has a budget of its own, so that the Nodes of a large cloud do not
//! pay for what goes wrong in a small one.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::time::Duration;

use ccm_cloud::Keeper;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::history::Past;

/// How many Nodes of one provider may be deleted within a time. The larger of `percent` and `min` counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeletionBudget {
    /// Share of the Nodes that the provider takes care of, in percent, rounded down; more than 100 counts as 100. Default 10.
    pub percent: u8,
    /// Number of Nodes, for small clusters, but never more than half of the provider's, rounded up. Default 3. With 0 here and
    /// above each deletion has to be confirmed.
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
        (nodes.saturating_mul(percent) / 100).max(self.min.min(nodes.div_ceil(2)))
    }
}

/// For so long after all Nodes of a provider were counted, nobody counts them again only to be refused. Whoever may delete a Node is never
/// told so by an older count.
const COUNT_SERVES: Duration = Duration::from_secs(1);

/// Counts deletions of this process, and those of the last one that are known.
pub(crate) struct Deletions {
    settings: DeletionBudget,
    state: Mutex<State>,
}

/// What one provider's Nodes cost so far.
#[derive(Default)]
struct Account {
    /// The deletions of the last period: when, and the UID of the Node.
    spent: VecDeque<(Instant, String)>,
    /// Deletions that are being decided.
    reserved: usize,
    /// How many Nodes there were, what went included, and when that was counted. None after what went has changed.
    counted: Option<(Instant, usize)>,
}

impl Account {
    /// Deletions of a period ago count no more.
    fn forget(&mut self, period: Duration, now: Instant) {
        while self.spent.front().is_some_and(|(then, _)| now.duration_since(*then) >= period) {
            self.spent.pop_front();
            self.counted = None;
        }
    }

    /// Why there is no right to one more deletion, if there are so many Nodes, of which so many may go.
    fn refusal(&self, limit: usize, nodes: usize) -> Option<DeletionRefusal> {
        if self.spent.len() >= limit {
            return Some(DeletionRefusal::Spent(Spent { limit, nodes }));
        }
        (self.spent.len().saturating_add(self.reserved) >= limit).then_some(DeletionRefusal::Busy)
    }
}

#[derive(Default)]
struct State {
    accounts: HashMap<Keeper, Account>,
    /// Names that were confirmed and not used yet.
    confirmed: BTreeSet<String>,
    /// UIDs of the Nodes that these were used for, at most one for each name. They never count.
    free: BTreeSet<String>,
}

/// The right to delete one Node. Given back when it is dropped.
pub(crate) struct Grant<'b> {
    budget: &'b Deletions,
    keeper: Keeper,
    kind: Kind,
}

/// Why there is no right to delete one more Node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DeletionRefusal {
    /// As many as may be were deleted.
    Spent(Spent),
    /// Others are being decided, and may not be deleted after all.
    Busy,
}

/// A budget that is used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Spent {
    /// So many may be deleted.
    pub(crate) limit: usize,
    /// Of so many, those that were deleted in the period included.
    pub(crate) nodes: usize,
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

impl Deletions {
    pub(crate) fn new(settings: DeletionBudget, confirmed: BTreeSet<String>) -> Self {
        Self { settings, state: Mutex::new(State { confirmed, ..State::default() }) }
    }

    /// The right to delete the Node called `name` with this UID. `others` counts all Nodes of its provider, but for those with these UIDs.
    /// That takes a while in a large cluster, so it is not asked where a count of a moment ago says no already.
    pub(crate) fn reserve(
        &self,
        keeper: Keeper,
        name: &str,
        uid: &str,
        others: impl FnOnce(&HashSet<&str>) -> usize,
        now: Instant,
    ) -> Result<Grant<'_>, DeletionRefusal> {
        let mut state = self.state.lock();
        let granted = |kind| Ok(Grant { budget: self, keeper, kind });
        if let Some(name) = state.confirmed.take(name) {
            return granted(Kind::Confirmed { name, uid: uid.to_owned() });
        }
        if state.free.contains(uid) {
            return granted(Kind::Paid);
        }
        let account = state.accounts.entry(keeper).or_default();
        account.forget(self.settings.period, now);
        if account.spent.iter().any(|(_, spent)| spent == uid) {
            return granted(Kind::Paid);
        }
        if let Some((then, nodes)) = account.counted
            && now.duration_since(then) < COUNT_SERVES
            && let Some(refusal) = account.refusal(self.settings.limit(nodes), nodes)
        {
            return Err(refusal);
        }
        // What went is counted in, else the limit would shrink with each deletion. Some of it may still be there.
        let gone: HashSet<&str> = account.spent.iter().map(|(_, uid)| uid.as_str()).collect();
        let nodes = gone.len().saturating_add(others(&gone));
        account.counted = Some((now, nodes));
        if let Some(refusal) = account.refusal(self.settings.limit(nodes), nodes) {
            return Err(refusal);
        }
        account.reserved = account.reserved.saturating_add(1);
        granted(Kind::Counted(uid.to_owned()))
    }

    /// Counts a deletion from before the start. The oldest come first.
    pub(crate) fn recall(&self, keeper: Keeper, past: &Past) {
        let mut state = self.state.lock();
        let account = state.accounts.entry(keeper).or_default();
        account.spent.push_back((past.at, past.uid.clone()));
        account.counted = None;
    }

    pub(crate) const fn settings(&self) -> &DeletionBudget {
        &self.settings
    }
}

impl Grant<'_> {
    /// Whether the deletion counts, and was not counted before.
    pub(crate) const fn is_counted(&self) -> bool {
        matches!(self.kind, Kind::Counted(_))
    }

    /// The Node was deleted, or may have been.
    pub(crate) fn spend(mut self, now: Instant) {
        let mut state = self.budget.state.lock();
        match std::mem::replace(&mut self.kind, Kind::Spent) {
            Kind::Counted(uid) => {
                let account = state.accounts.entry(self.keeper).or_default();
                account.reserved = account.reserved.saturating_sub(1);
                account.spent.push_back((now, uid));
                account.counted = None;
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
            Kind::Counted(_) => {
                let account = state.accounts.entry(self.keeper).or_default();
                account.reserved = account.reserved.saturating_sub(1);
            }
            Kind::Confirmed { name, .. } => drop(state.confirmed.insert(name)),
            Kind::Paid | Kind::Spent => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn budget(percent: u8, min: usize, confirmed: &[&str]) -> Deletions {
        let settings = DeletionBudget { percent, min, ..DeletionBudget::default() };
        Deletions::new(settings, confirmed.iter().map(|&name| name.to_owned()).collect())
    }

    const RED: Keeper = Keeper::Provider(0);
    const BLUE: Keeper = Keeper::Provider(1);

    impl Deletions {
        /// Of the first provider, which has so many Nodes beside those that were deleted.
        fn ask(&self, name: &str, uid: &str, nodes: usize, now: Instant) -> Result<Grant<'_>, DeletionRefusal> {
            self.ask_for(RED, name, uid, nodes, now)
        }

        fn ask_for(
            &self,
            keeper: Keeper,
            name: &str,
            uid: &str,
            nodes: usize,
            now: Instant,
        ) -> Result<Grant<'_>, DeletionRefusal> {
            let uids: Vec<String> = (0..nodes).map(|node| format!("{keeper:?}-{node}")).collect();
            self.reserve(keeper, name, uid, beside(uids.iter().map(String::as_str)), now)
        }
    }

    /// Counts these Nodes.
    fn beside<'n>(uids: impl Iterator<Item = &'n str>) -> impl FnOnce(&HashSet<&str>) -> usize {
        |gone| uids.filter(|uid| !gone.contains(uid)).count()
    }

    /// What a refusal says.
    fn spent(limit: usize, nodes: usize) -> Option<DeletionRefusal> {
        Some(DeletionRefusal::Spent(Spent { limit, nodes }))
    }

    #[test]
    fn the_larger_of_share_and_number_counts_and_the_number_is_half_of_the_nodes_at_most() {
        let shares = [(10, 3, 39, 3), (10, 3, 40, 4), (10, 3, 5_000, 500), (0, 0, 5_000, 0), (200, 0, 7, 7)];
        let halves =
            [(10, 3, 0, 0), (10, 3, 1, 1), (10, 3, 2, 1), (10, 3, 3, 2), (10, 3, 5, 3), (10, 3, 6, 3), (60, 9, 5, 3)];
        let cases = shares.into_iter().chain(halves);
        for (percent, min, nodes, limit) in cases {
            assert_eq!(DeletionBudget { percent, min, ..DeletionBudget::default() }.limit(nodes), limit, "{nodes}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_deletion_counts_for_the_period_and_then_no_more() {
        let budget = budget(0, 2, &[]);
        for uid in ["u1", "u2"] {
            budget.ask("n", uid, 10, Instant::now()).ok().unwrap().spend(Instant::now());
        }
        let period = DeletionBudget::default().period;
        tokio::time::advance(period - Duration::from_secs(1)).await;
        assert_eq!(budget.ask("n", "u3", 10, Instant::now()).err(), spent(2, 12));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(budget.ask("n", "u3", 10, Instant::now()).is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_being_decided_counts_and_is_given_back() {
        let budget = budget(0, 1, &[]);
        let now = Instant::now();
        let grant = budget.ask("a", "u-a", 10, now);
        assert_eq!(budget.ask("b", "u-b", 10, now).err(), Some(DeletionRefusal::Busy));
        drop(grant);
        assert!(budget.ask("b", "u-b", 10, now).is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_confirmed_name_is_good_for_one_deletion_and_does_not_count() {
        let budget = budget(0, 1, &["a"]);
        let now = Instant::now();
        drop(budget.ask("a", "u1", 10, now));
        budget.ask("a", "u1", 10, now).ok().unwrap().spend(now);
        budget.ask("a", "u2", 10, now).ok().unwrap().spend(now);
        assert_eq!(budget.ask("a", "u3", 10, now).err(), spent(1, 11), "confirmed once, then one of the budget");
    }

    /// It was held, although somebody had said that it may go.
    #[tokio::test(start_paused = true)]
    async fn a_confirmed_node_whose_deletion_had_no_answer_is_tried_again_and_does_not_count() {
        let budget = budget(0, 1, &["a"]);
        for _ in 0..10 {
            budget.ask("a", "u1", 10, Instant::now()).ok().unwrap().spend(Instant::now());
            tokio::time::advance(DeletionBudget::default().period / 5).await;
        }
        let now = Instant::now();
        assert!(budget.ask("b", "u-b", 10, now).is_ok(), "the limit is untouched");
        budget.ask("a", "u2", 10, now).ok().unwrap().spend(now);
        assert_eq!(budget.ask("a", "u3", 10, now).err(), spent(1, 11), "another Node of this name counts");
    }

    /// An API server without answers once used up the whole budget with one Node.
    #[tokio::test(start_paused = true)]
    async fn the_same_node_counts_once_however_often_its_deletion_is_tried() {
        let budget = budget(0, 2, &[]);
        let now = Instant::now();
        for _ in 0..10 {
            budget.ask("a", "u-a", 10, now).ok().unwrap().spend(now);
        }
        budget.ask("b", "u-b", 10, now).ok().unwrap().spend(now);
        assert_eq!(budget.ask("c", "u-c", 10, now).err(), spent(2, 12));
    }

    /// With 100 Nodes here and 8 there, a wrong token for the 8 once cost all of them.
    #[tokio::test(start_paused = true)]
    async fn each_provider_has_a_budget_of_its_own() {
        let budget = budget(10, 3, &[]);
        let now = Instant::now();
        for gone in 0..3 {
            budget.ask_for(BLUE, "n", &format!("u{gone}"), 8 - gone, now).ok().unwrap().spend(now);
        }
        assert_eq!(budget.ask_for(BLUE, "n", "u3", 5, now).err(), spent(3, 8));
        for gone in 0..10 {
            budget.ask_for(RED, "n", &format!("r{gone}"), 100 - gone, now).ok().unwrap().spend(now);
        }
        assert_eq!(budget.ask_for(RED, "n", "r10", 90, now).err(), spent(10, 100));
        assert_eq!(budget.ask_for(Keeper::Any, "n", "a", 0, now).err(), spent(0, 0));
    }

    /// It did, so that of three Nodes one could go, and of 5,000 not even a tenth.
    #[tokio::test(start_paused = true)]
    async fn the_limit_does_not_shrink_with_the_nodes_that_go() {
        for (nodes, limit) in [(3, 2), (40, 4), (5_000, 500)] {
            let budget = budget(10, 3, &[]);
            let now = Instant::now();
            let uids: Vec<String> = (0..nodes).map(|node| format!("u{node}")).collect();
            let gone = (0..nodes).take_while(|gone| {
                let left = uids.iter().skip(*gone).map(String::as_str);
                budget.reserve(RED, "n", &uids[*gone], beside(left), now).map(|grant| grant.spend(now)).is_ok()
            });
            assert_eq!(gone.count(), limit, "{nodes}");
        }
    }

    /// The store lags behind: what went may still be in it.
    #[tokio::test(start_paused = true)]
    async fn a_node_that_is_deleted_and_still_in_the_store_counts_once() {
        let budget = budget(0, 3, &[]);
        let now = Instant::now();
        let uids = ["a", "b"];
        budget.reserve(RED, "a", "a", beside(uids.into_iter()), now).ok().unwrap().spend(now);
        assert_eq!(budget.reserve(RED, "b", "b", beside(uids.into_iter()), now).err(), spent(1, 2));
    }

    /// All Nodes were counted for each Node whose machine was absent: 10,000 Nodes 10,000 times, while all others waited.
    #[tokio::test(start_paused = true)]
    async fn nodes_are_counted_for_those_that_may_go_and_not_for_each_one_that_may_not() {
        let budget = budget(10, 3, &[]);
        let counts = Cell::new(0);
        let ask = |node: usize| {
            let others = |gone: &HashSet<&str>| {
                counts.set(counts.get() + 1);
                1_000 - gone.len()
            };
            budget.reserve(RED, "n", &format!("u{node}"), others, Instant::now())
        };
        let grants: Vec<Grant<'_>> = (0..1_000).filter_map(|node| ask(node).ok()).collect();
        assert_eq!((grants.len(), counts.get()), (100, 100), "900 are told that others are being decided");
        grants.into_iter().for_each(|grant| grant.spend(Instant::now()));
        counts.set(0);
        for node in 100..1_000 {
            assert_eq!(ask(node).err(), spent(100, 1_000));
        }
        assert_eq!(counts.get(), 1);
        tokio::time::advance(COUNT_SERVES).await;
        assert_eq!((ask(100).err(), counts.get()), (spent(100, 1_000), 2), "there may be more by now");
    }

    /// An old count must not let go what a new one would hold.
    #[tokio::test(start_paused = true)]
    async fn the_right_to_delete_a_node_rests_on_the_nodes_of_this_moment() {
        let budget = budget(10, 3, &[]);
        let now = Instant::now();
        let ask = |uid: &str, nodes: usize| budget.reserve(RED, "n", uid, |_: &HashSet<&str>| nodes, now);
        let first = ask("u1", 100);
        assert!(first.is_ok());
        assert_eq!(ask("u2", 2).err(), Some(DeletionRefusal::Busy), "all but two have gone: one may be deleted");
        first.ok().unwrap().spend(now);
        assert_eq!(ask("u2", 1).err(), spent(1, 2));
    }
}
