//! Services that are ensured again only since the provider is of another revision, or has another configuration: a few first, the
//! rest behind everything else.
//!
//! | who | when |
//! |---|---|
//! | the first few, of as many kinds as there are | once it is known which Services there are |
//! | the rest, two at a time | when as many have succeeded, the component is proven, and there are places left |
//! | a kind of which one fails | not before that one has succeeded |
//! | nobody | as long as as many fail as go first |
//!
//! A Service that somebody changes, that a refused component wrote or that has no address does not wait; nor do the hosts of
//! whoever waits.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, sleep};

use super::fingerprint::{Digest, kind};
use super::job::Job;
use super::memory::Key;
use super::provider::Provider;
use super::sync::Syncer;
use super::wake::send;
use crate::queue::Verdict;

/// Most at a time, once the first few have succeeded.
const AT_A_TIME: usize = 2;
/// From the first Service that waits until the first few are chosen, so that they are of several kinds.
const GATHERING: Duration = Duration::from_secs(1);
/// How often it is looked at whether the component is proven, and whether others leave places.
const LOOK: Duration = Duration::from_secs(1);

/// How far a Service is that was let go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// It is being ensured, or the cloud is at work.
    Running,
    Failed,
    Done,
}

/// What one provider has to do.
struct Round {
    provider: Arc<Provider>,
    since: Instant,
    /// In order of arrival. Some of them do not wait any more.
    order: VecDeque<Key>,
    waiting: HashMap<Key, Digest>,
    begun: HashMap<Key, (Digest, Progress)>,
    /// How many have succeeded.
    done: usize,
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
    fn release(&mut self, first: usize, is_proven: bool, has_places: bool) -> Vec<Key> {
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
    first: usize,
    rounds: Mutex<BTreeMap<usize, Round>>,
    changed: Notify,
    waiting: Gauge,
}

impl Refresh {
    /// `first` go first; with none, nobody waits. `waiting` counts those that do.
    pub(crate) fn new(first: usize, waiting: Gauge) -> Self {
        Self { first, rounds: Mutex::default(), changed: Notify::new(), waiting }
    }

    /// Whether a Service need not wait (any longer) for this provider.
    pub(crate) fn may_begin(&self, key: &Key, provider: &Provider) -> bool {
        let has_begun = |round: &Round| round.provider.is_same(provider) && round.begun.contains_key(key);
        self.first == 0 || self.rounds.lock().get(&provider.member).is_some_and(has_begun)
    }

    /// A Service of this kind waits for the provider, which is the one of the moment.
    fn waits(&self, key: &Key, kind: Digest, provider: &Arc<Provider>) {
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
    fn leaves(&self, key: &Key, provider: &Provider) {
        let mut rounds = self.rounds.lock();
        let left = rounds.get_mut(&provider.member).and_then(|round| round.waiting.remove(key));
        if left.is_some() {
            self.count(&rounds);
        }
    }

    /// A run has ended.
    fn ran(&self, key: &Key, provider: &Provider, progress: Progress) {
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

    fn count(&self, rounds: &BTreeMap<usize, Round>) {
        let waiting: usize = rounds.values().map(|round| round.waiting.len()).sum();
        self.waiting.set(i64::try_from(waiting).unwrap_or(i64::MAX));
    }

    fn is_idle(&self) -> bool {
        self.rounds.lock().values().all(|round| round.waiting.is_empty())
    }
}

impl Syncer {
    /// Notes whether a Service waits.
    pub(crate) fn wait_or_leave(&self, key: &Key, job: &Job) {
        let provider = &job.provider;
        match job.held {
            None => self.refresh.leaves(key, provider),
            Some(_) if self.still(provider).is_none() => {}
            Some(_) => self.refresh.waits(key, kind(&job.view, &provider.descriptor), provider),
        }
    }

    /// A run for a Service has ended.
    pub(crate) fn refreshed(&self, key: &Key, provider: &Provider, verdict: Verdict) {
        let has_failed = self.memory.with(key, |entry| entry.has_failed()) == Some(true);
        let progress = match verdict {
            _ if has_failed => Progress::Failed,
            Verdict::Done | Verdict::Change => Progress::Done,
            Verdict::After(_) | Verdict::Backoff => Progress::Running,
        };
        self.refresh.ran(key, provider, progress);
    }

    /// Services that waited and need not any longer.
    pub(crate) fn released(&self) -> Vec<Key> {
        let mut keys = vec![];
        for (member, known) in self.members.iter().enumerate() {
            let is_proven = !known.provider.is_on_trial();
            let provider = Arc::new(known.take(member));
            let under_way: Vec<Key> = {
                let mut rounds = self.refresh.rounds.lock();
                if rounds.get(&member).is_some_and(|round| !round.provider.is_same(&provider)) {
                    rounds.remove(&member);
                }
                rounds.get(&member).map(|round| round.begun.keys().cloned().collect()).unwrap_or_default()
            };
            // Whoever is gone, or is another one's, comes to no end.
            let gone: Vec<Key> = under_way.into_iter().filter(|key| self.job(key, &provider).is_none()).collect();
            let has_places = self.width.available_permits() > 0;
            let mut rounds = self.refresh.rounds.lock();
            let Some(round) = rounds.get_mut(&member) else { continue };
            for key in &gone {
                round.begun.remove(key);
            }
            let (before, done) = (round.waiting.len(), round.done);
            let released = round.release(self.refresh.first, is_proven, has_places);
            if before > 0 && !released.is_empty() && done <= self.refresh.first {
                let (provider, waiting) = (&provider.descriptor.name, round.waiting.len());
                tracing::info!(
                    provider,
                    begin = released.len(),
                    waiting,
                    done,
                    "load balancers are ensured again for another revision or configuration"
                );
            }
            self.refresh.count(&rounds);
            keys.extend(released);
        }
        keys
    }
}

/// Sends those to `queue` that need not wait any longer, until it is dropped.
pub(super) async fn run(syncer: &Syncer, queue: mpsc::Sender<Key>) {
    loop {
        let is_idle = syncer.refresh.is_idle();
        tokio::select! {
            () = syncer.refresh.changed.notified() => {}
            () = sleep(LOOK), if !is_idle => {}
        }
        if !send(&queue, syncer.released()).await {
            return;
        }
    }
}
