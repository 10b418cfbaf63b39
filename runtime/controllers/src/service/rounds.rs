//! Who waits for a refresh, who is under way, and who goes next.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::service::digest::Digest;
use crate::service::key::Key;
use crate::service::provider::Provider;

/// Most at a time, once the first few have succeeded.
const AT_A_TIME: usize = 2;
/// From the first Service that waits until the first few are chosen, so that they are of several kinds.
const GATHERING: Duration = Duration::from_secs(1);
/// How far a Service is that was let go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// It is being ensured, or the cloud is at work.
    Running,
    Failed,
    Done,
}

/// What one provider has to do.
pub(super) struct Round {
    pub(super) provider: Arc<Provider>,
    since: Instant,
    /// In order of arrival. Some of them do not wait any more.
    order: VecDeque<Key>,
    pub(super) waiting: HashMap<Key, Digest>,
    pub(super) begun: HashMap<Key, (Digest, Progress)>,
    /// How many have succeeded.
    pub(super) done: usize,
}

impl Round {
    fn new(provider: &Arc<Provider>) -> Self {
        let (provider, since) = (Arc::clone(provider), Instant::now());
        Self { provider, since, order: VecDeque::new(), waiting: HashMap::new(), begun: HashMap::new(), done: 0 }
    }

    fn count(&self, progress: Progress) -> usize {
        self.begun.values().filter(|(_, at)| *at == progress).count()
    }

    /// Kinds of which one fails.
    fn failing(&self) -> HashSet<Digest> {
        self.begun.values().filter(|(_, at)| *at == Progress::Failed).map(|(kind, _)| *kind).collect()
    }

    /// Lets some go that may begin now.
    pub(super) fn release(&mut self, first: usize, is_proven: bool, has_places: bool) -> Vec<Key> {
        let (running, failed) = (self.count(Progress::Running), self.count(Progress::Failed));
        let keys = if self.waiting.is_empty() || self.since.elapsed() < GATHERING || failed >= first {
            vec![]
        } else if self.done < first {
            let most = first.saturating_sub(running + self.done.max(failed));
            self.of_all_kinds(most)
        } else if is_proven && has_places {
            self.next(AT_A_TIME.saturating_sub(running))
        } else {
            vec![]
        };
        for key in &keys {
            if let Some(kind) = self.waiting.remove(key) {
                self.begun.insert(key.clone(), (kind, Progress::Running));
            }
        }
        keys
    }

    /// Some of those that wait, of as many kinds as can be.
    fn of_all_kinds(&self, most: usize) -> Vec<Key> {
        if most == 0 {
            return vec![];
        }
        let failing = self.failing();
        let mut kinds: HashMap<Digest, Vec<&Key>> = HashMap::new();
        for key in self.order.iter().rev() {
            if let Some(kind) = self.waiting.get(key).filter(|kind| !failing.contains(kind)) {
                kinds.entry(*kind).or_default().push(key);
            }
        }
        let mut tried: HashMap<Digest, usize> = HashMap::new();
        self.begun.values().for_each(|(kind, _)| *tried.entry(*kind).or_default() += 1);
        let mut keys = vec![];
        while keys.len() < most {
            let rarest =
                kinds.keys().min_by_key(|kind| (tried.get(kind).copied().unwrap_or_default(), kind.to_string()));
            let Some(kind) = rarest.copied() else { break };
            match kinds.get_mut(&kind).and_then(Vec::pop) {
                Some(key) => {
                    keys.push(key.clone());
                    *tried.entry(kind).or_default() += 1;
                }
                None => drop(kinds.remove(&kind)),
            }
        }
        keys
    }

    /// The next ones in order.
    fn next(&mut self, most: usize) -> Vec<Key> {
        let (failing, mut keys, mut held) = (self.failing(), vec![], vec![]);
        while keys.len() < most {
            let Some(key) = self.order.pop_front() else { break };
            match self.waiting.get(&key) {
                Some(kind) if failing.contains(kind) => held.push(key),
                Some(_) => keys.push(key),
                None => {}
            }
        }
        self.order.extend(held);
        keys
    }
}

/// Who waits, by the place of the provider.
pub(crate) struct Refresh {
    pub(super) first: usize,
    pub(super) rounds: Mutex<BTreeMap<usize, Round>>,
    pub(super) changed: Notify,
    waiting: Gauge,
}

impl Refresh {
    /// `first` go first; with none, nobody waits. `waiting` counts those that do.
    pub(crate) fn new(first: usize, waiting: Gauge) -> Self {
        // Another one may have counted before.
        waiting.set(0);
        Self { first, rounds: Mutex::default(), changed: Notify::new(), waiting }
    }

    /// Whether a Service need not wait (any longer) for this provider.
    pub(crate) fn may_begin(&self, key: &Key, provider: &Provider) -> bool {
        let has_begun = |round: &Round| round.provider.is_same(provider) && round.begun.contains_key(key);
        self.first == 0 || self.rounds.lock().get(&provider.member).is_some_and(has_begun)
    }

    /// A Service of this kind waits for the provider, which is the one of the moment.
    pub(super) fn waits(&self, key: &Key, kind: Digest, provider: &Arc<Provider>) {
        let mut rounds = self.rounds.lock();
        let round = rounds.entry(provider.member).or_insert_with(|| Round::new(provider));
        if !round.provider.is_same(provider) {
            *round = Round::new(provider);
        }
        if round.waiting.insert(key.clone(), kind).is_none() {
            round.order.push_back(key.clone());
        }
        self.count(&rounds);
        self.changed.notify_one();
    }

    /// A Service has another reason to be ensured, or none.
    pub(super) fn leaves(&self, key: &Key, provider: &Provider) {
        let mut rounds = self.rounds.lock();
        let left = rounds.get_mut(&provider.member).and_then(|round| round.waiting.remove(key));
        if left.is_some() {
            self.count(&rounds);
        }
    }

    /// A run has ended.
    pub(super) fn ran(&self, key: &Key, provider: &Provider, progress: Progress) {
        let mut rounds = self.rounds.lock();
        let round = rounds.get_mut(&provider.member).filter(|round| round.provider.is_same(provider));
        let Some(round) = round else { return };
        let Some((_, at)) = round.begun.get_mut(key) else { return };
        *at = progress;
        if progress == Progress::Done {
            round.begun.remove(key);
            round.done += 1;
        }
        self.changed.notify_one();
    }

    pub(super) fn count(&self, rounds: &BTreeMap<usize, Round>) {
        let waiting: usize = rounds.values().map(|round| round.waiting.len()).sum();
        self.waiting.set(i64::try_from(waiting).unwrap_or(i64::MAX));
    }

    pub(super) fn is_idle(&self) -> bool {
        self.rounds.lock().values().all(|round| round.waiting.is_empty())
    }
}
