//! What the cloud said of the machines of Nodes that are not Ready, and when they are looked at again. A Node that is Ready,
//! gone, or another one of the same name is forgotten, so memory is bounded by the Nodes that are not Ready.
//!
//! All of it is gone with the process: a new one begins with a first look.

use std::collections::{HashMap, hash_map};
use std::sync::Arc;
use std::time::Duration;

use ccm_cloud::FailedRequest;
use parking_lot::Mutex;
use prometheus_client::metrics::gauge::Gauge;
use tokio::time::Instant;

use super::deletion_budget::Spent;
use super::metrics::NodeLifecycleMetrics;
use super::node_state::{Identity, digest};
use super::settings::NodeLifecycleSettings;
use crate::explain::{HeldDeletion, LifecycleExplanation, Next, ago};
use crate::shrink::shrink;
use crate::store::Node;
use crate::troubles::{self, HeldNode, Listed, Lister};

/// Longest time that anything is put off by. Longer settings count as this one, so that no sum is beyond the clock's end.
const MAX_WAIT: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// What is to be done with a Node that is not Ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NextLook {
    /// Nothing for so long.
    Wait(Duration),
    /// Ask the cloud; nothing is known.
    Look,
    /// Ask the cloud; it said that the machine is absent, and nothing else since, long enough ago.
    LookAgain,
    /// It was deleted by us, which the store does not show yet.
    Deleted,
}

/// Something that is told once and then only now and then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Topic {
    Unknown,
    Held,
    Deleting,
    DeletionFailed,
    NoProviderId,
}

struct UnreadyNode {
    identity: Identity,
    digest: u64,
    /// When the cloud said that the machine is absent, with no other answer since.
    first_absent: Option<Instant>,
    /// The last answer, and when it came.
    last: Option<(&'static str, Instant)>,
    /// Until the next look; doubles while the answer stays the same.
    pause: Duration,
    next: Instant,
    /// Not even a change of the Node brings the next look before.
    not_before: Instant,
    /// The last look had no answer: a cloud that is back is asked at once.
    is_unknown: bool,
    /// The cloud answers again since the last look began.
    is_recovered: bool,
    /// Its deletion is held: the gauge that counts it.
    held: Option<Gauge>,
    /// By which budget.
    held_by: Option<HeldBy>,
    /// Why the last look had no answer, and the request to the cloud behind that.
    failure: Option<(String, Option<Arc<FailedRequest>>)>,
    is_deleted: bool,
    told: HashMap<Topic, (&'static str, Instant)>,
}

/// A budget that is used up.
#[derive(Clone)]
pub(crate) struct HeldBy {
    /// Whose; empty for Nodes without a provider ID.
    pub(crate) provider: String,
    pub(crate) spent: Spent,
}

impl HeldBy {
    /// For those who ask. `period` is that of the budget.
    fn explained(&self, period: Duration) -> HeldDeletion {
        let Spent { limit, nodes } = self.spent;
        HeldDeletion { provider: self.provider.clone(), limit, nodes, period_seconds: period.as_secs() }
    }
}

/// By name of the Node.
pub(crate) struct Memory {
    nodes: Mutex<HashMap<String, UnreadyNode>>,
    /// Nodes whose taint could not be corrected, Ready ones as well: what was told of that, and when.
    taints: Mutex<HashMap<String, (&'static str, Instant)>>,
    metrics: NodeLifecycleMetrics,
    period: Duration,
    max_period: Duration,
    second_look: Duration,
    repeat: Duration,
    begun: Instant,
    /// When it is asked next what was deleted before the start; none where no Node waits for that.
    recall: Mutex<Option<Instant>>,
}

impl Memory {
    pub(crate) fn new(metrics: NodeLifecycleMetrics, settings: &NodeLifecycleSettings) -> Self {
        let period = settings.monitor_period.clamp(Duration::from_millis(1), MAX_WAIT);
        Self {
            nodes: Mutex::default(),
            taints: Mutex::default(),
            metrics,
            period,
            max_period: settings.max_monitor_period.clamp(period, MAX_WAIT),
            second_look: settings.second_look.min(MAX_WAIT),
            repeat: settings.repeat_warning,
            begun: Instant::now(),
            recall: Mutex::default(),
        }
    }

    /// Nodes that are not Ready wait until it is known what was deleted before the start, which is asked `next`. None: they wait no longer.
    pub(crate) fn wait_for_recall(&self, next: Option<Instant>) {
        *self.recall.lock() = next;
    }

    /// When that is asked next; none where nobody waits for it.
    pub(crate) fn recalled_next(&self) -> Option<Instant> {
        *self.recall.lock()
    }

    /// A Node that is not Ready was seen: what is to be done with it now.
    pub(crate) fn step(&self, node: &Node, now: Instant) -> NextLook {
        let (identity, digest) = (Identity::of(node), digest(node));
        let mut nodes = self.nodes.lock();
        let name = node.name_any();
        if nodes.get(&name).is_some_and(|entry| entry.identity != identity) {
            self.removed(nodes.remove(&name));
        }
        let entry = nodes.entry(name).or_insert_with(|| {
            self.metrics.not_ready.inc();
            UnreadyNode {
                identity,
                digest,
                first_absent: None,
                last: None,
                pause: self.period,
                next: now,
                not_before: now,
                is_unknown: false,
                is_recovered: false,
                held: None,
                held_by: None,
                failure: None,
                is_deleted: false,
                told: HashMap::new(),
            }
        });
        if entry.is_deleted {
            return NextLook::Deleted;
        }
        if std::mem::replace(&mut entry.digest, digest) != digest {
            // What was true of the machine may have changed with the Node.
            entry.pause = self.period;
            if let Some((_, looked)) = entry.last {
                entry.next = entry.next.min(self.tick(looked, self.period)).max(entry.not_before);
            }
        }
        let wait = entry.next.saturating_duration_since(now);
        if !wait.is_zero() {
            return NextLook::Wait(wait);
        }
        entry.is_recovered = false;
        if entry.first_absent.is_some() { NextLook::LookAgain } else { NextLook::Look }
    }

    /// The cloud gave an answer other than absent: the first look is void. Returns the time until the next look.
    pub(crate) fn found(&self, name: &str, answer: &'static str, now: Instant) -> Duration {
        self.answered(name, answer, now, |entry| {
            entry.first_absent = None;
            entry.not_before = now;
            Self::release(entry);
        })
    }

    /// The cloud gave no answer: the first look is void. Returns the time until the next look, which is no earlier than
    /// `at_least` from now; none where the cloud has [recovered](Self::recovered) since the look began.
    pub(crate) fn unknown(&self, name: &str, reaction: &'static str, at_least: Duration, now: Instant) -> Duration {
        let wait = self.answered(name, reaction, now, |entry| {
            entry.first_absent = None;
            entry.not_before = now + at_least;
            entry.is_unknown = true;
            Self::release(entry);
        });
        let mut nodes = self.nodes.lock();
        match nodes.get_mut(name).filter(|entry| entry.is_recovered) {
            Some(entry) => {
                entry.pause = self.period;
                (entry.next, entry.not_before) = (now, now);
                Duration::ZERO
            }
            None => wait,
        }
    }

    /// The cloud answers again that did not. Whether the Node waited for that: then it is to be looked at now.
    pub(crate) fn recovered(&self, name: &str, now: Instant) -> bool {
        let mut nodes = self.nodes.lock();
        let Some(entry) = nodes.get_mut(name) else { return false };
        // A look that is under way may have begun with what did not work.
        entry.is_recovered = true;
        if !entry.is_unknown {
            return false;
        }
        entry.pause = self.period;
        (entry.next, entry.not_before) = (now, now);
        true
    }

    /// The cloud said for the first time that the machine is absent.
    pub(crate) fn first_absent(&self, name: &str, now: Instant) -> Duration {
        self.answered(name, "absent", now, |_| {});
        let mut nodes = self.nodes.lock();
        let Some(entry) = nodes.get_mut(name) else { return self.period };
        entry.first_absent = Some(now);
        // The second look is bound to this time, whatever happens to the Node.
        entry.not_before = now + self.second_look;
        // Not at a common time: those that were looked at together are so again.
        entry.next = entry.not_before;
        self.second_look
    }

    /// Absent again, and the Node is still there: it may not be deleted, or could not.
    pub(crate) fn still_absent(&self, name: &str, at_least: Duration, now: Instant) -> Duration {
        self.answered(name, "absent", now, |entry| entry.not_before = now + at_least)
    }

    /// The second look has to wait for those of other Nodes.
    pub(crate) fn postponed(&self, name: &str, now: Instant) -> Duration {
        let mut nodes = self.nodes.lock();
        let Some(entry) = nodes.get_mut(name) else { return self.period };
        entry.next = self.tick(now, self.period);
        entry.next.saturating_duration_since(now)
    }

    /// Absent again, but too many of this provider's Nodes were deleted before.
    pub(crate) fn held(&self, name: &str, by: HeldBy, now: Instant) -> Duration {
        self.answered(name, "absent", now, |entry| {
            entry.pause = self.max_period;
            entry.not_before = now;
            if entry.held.is_none() {
                let held = self.metrics.held(&by.provider);
                held.inc();
                entry.held = Some(held);
            }
            entry.held_by = Some(by);
        })
    }

    /// Why the last look at this Node had no answer.
    pub(crate) fn has_no_answer(&self, name: &str, why: String, request: Option<Arc<FailedRequest>>) {
        if let Some(entry) = self.nodes.lock().get_mut(name) {
            entry.failure = Some((why, request));
        }
    }

    /// What is remembered of a Node, for those who ask; nothing of another one that had its name. `period` is that of the budget.
    pub(crate) fn explained(&self, node: &Node, period: Duration) -> LifecycleExplanation {
        let nodes = self.nodes.lock();
        let entry = nodes.get(&node.name_any()).filter(|entry| entry.identity == Identity::of(node));
        let Some(entry) = entry else { return LifecycleExplanation::default() };
        let (failure, request) = entry.failure.clone().unzip();
        LifecycleExplanation {
            answer: entry.last.map(|(answer, _)| answer.to_owned()),
            answered_seconds_ago: entry.last.map(|(_, at)| ago(at)),
            failure,
            request: request.flatten().as_deref().map(Into::into),
            absent_seconds_ago: entry.first_absent.map(ago),
            held: entry.held_by.as_ref().map(|by| by.explained(period)),
            ..LifecycleExplanation::default()
        }
    }

    /// Nodes that are not Ready, and those of them whose deletion is held, each the first by name. `period` is that of the budget.
    pub(crate) fn troubles(&self, most: usize, period: Duration) -> (Listed<troubles::UnreadyNode>, Listed<HeldNode>) {
        let (mut unready, mut held) = (Lister::new(most), Lister::new(most));
        for (name, entry) in self.nodes.lock().iter() {
            if let Some(by) = &entry.held_by {
                held.add(name.clone(), |name| HeldNode { name, by: by.explained(period) });
            }
            unready.add(name.clone(), |name| troubles::UnreadyNode {
                name,
                answer: entry.last.map(|(answer, _)| answer),
                failure: entry.failure.as_ref().map(|(why, _)| why.clone()),
                next: Next::Unknown,
            });
        }
        (unready.listed(), held.listed())
    }

    /// Deleted by us.
    pub(crate) fn deleted(&self, name: &str) {
        if let Some(entry) = self.nodes.lock().get_mut(name) {
            entry.is_deleted = true;
            Self::release(entry);
        }
    }

    /// Whether it was deleted by us.
    pub(crate) fn is_deleted(&self, name: &str) -> bool {
        self.nodes.lock().get(name).is_some_and(|entry| entry.is_deleted)
    }

    /// The Node is being deleted, gone, none of ours, or another one.
    pub(crate) fn forget(&self, name: &str) {
        self.taint_is_right(name);
        self.forget_machine(name);
    }

    /// The Node is Ready: whatever the cloud said of its machine is void.
    pub(crate) fn forget_machine(&self, name: &str) {
        let mut nodes = self.nodes.lock();
        let removed = nodes.remove(name);
        shrink(&mut nodes);
        drop(nodes);
        self.removed(removed);
    }

    /// There is no taint of the Node to correct any more.
    pub(crate) fn taint_is_right(&self, name: &str) {
        self.taints.lock().remove(name);
    }

    /// Why the taint of the Node could not be corrected the last time; none where it is right.
    pub(crate) fn wrong_taint(&self, name: &str) -> Option<&'static str> {
        self.taints.lock().get(name).map(|(what, _)| *what)
    }

    /// Whether it is to be told that the taint could not be corrected, as [`is_news`](Self::is_news).
    pub(crate) fn is_taint_news(&self, name: &str, what: &'static str, now: Instant) -> bool {
        self.is_due(self.taints.lock().entry(name.to_owned()), what, now)
    }

    /// Whether `what` is to be told: when it is something else than the last time, or that was a while ago.
    pub(crate) fn is_news(&self, name: &str, topic: Topic, what: &'static str, now: Instant) -> bool {
        let mut nodes = self.nodes.lock();
        let Some(entry) = nodes.get_mut(name) else { return true };
        self.is_due(entry.told.entry(topic), what, now)
    }

    fn is_due<K>(
        &self,
        told: hash_map::Entry<'_, K, (&'static str, Instant)>,
        what: &'static str,
        now: Instant,
    ) -> bool {
        if let hash_map::Entry::Occupied(told) = &told
            && let (last, at) = told.get()
            && *last == what
            && now.duration_since(*at) < self.repeat
        {
            return false;
        }
        told.insert_entry((what, now));
        true
    }

    fn answered(
        &self,
        name: &str,
        answer: &'static str,
        now: Instant,
        change: impl FnOnce(&mut UnreadyNode),
    ) -> Duration {
        let mut nodes = self.nodes.lock();
        let Some(entry) = nodes.get_mut(name) else { return self.period };
        let is_same = entry.last.is_some_and(|(last, _)| last == answer);
        entry.pause = if is_same { entry.pause.saturating_mul(2).min(self.max_period) } else { self.period };
        entry.last = Some((answer, now));
        entry.is_unknown = false;
        entry.failure = None;
        change(entry);
        entry.next = self.tick(now, entry.pause).max(entry.not_before);
        entry.next.saturating_duration_since(now)
    }

    /// A time about `pause` after `now`, at most one period earlier. All Nodes have these times in common, so that those
    /// that failed one after the other are asked about in one call.
    fn tick(&self, now: Instant, pause: Duration) -> Instant {
        let since = now.saturating_duration_since(self.begun);
        let (then, period) = (since.saturating_add(pause).as_nanos(), self.period.as_nanos());
        let late = u64::try_from(then.checked_rem(period).unwrap_or_default()).unwrap_or_default();
        let tick = (now + pause).checked_sub(Duration::from_nanos(late)).unwrap_or(now);
        if tick > now { tick } else { tick + self.period }
    }

    fn release(entry: &mut UnreadyNode) {
        entry.held_by = None;
        if let Some(held) = entry.held.take() {
            held.dec();
        }
    }

    fn removed(&self, entry: Option<UnreadyNode>) {
        if let Some(mut entry) = entry {
            Self::release(&mut entry);
            self.metrics.not_ready.dec();
        }
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.nodes.lock().len()
    }
}
