//! Ensures Services again when their provider has another revision or configuration: a few first, the rest behind everything else.
//!
//! | who | when |
//! |---|---|
//! | the first few, of as many kinds as there are | once it is known which Services there are |
//! | the rest, two at a time | when as many have succeeded, the component is proven, and there are places left |
//! | the others of a kind, if one of it fails | when that one has succeeded |
//! | nobody | while as many fail as go first |
//!
//! A Service does not wait if someone changes it, if a refused component wrote its load balancer, or if it has no address. Hosts do
//! not wait: a Service that waits gets the hosts of now.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::sleep;

use super::fingerprint::kind;
use super::job::Job;
use super::key::{Key, send};
use super::provider::Provider;
use super::rounds::Progress;
use super::syncer::Syncer;
use crate::queue::Verdict;

/// How often it is looked at whether the component is proven, and whether others leave places.
const LOOK: Duration = Duration::from_secs(1);

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
        for (&member, known) in &self.members {
            let is_proven = !known.provider.is_on_probation();
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
            keys.extend(released);
        }
        // Also after a round that is gone: with it went those that waited.
        self.refresh.count(&self.refresh.rounds.lock());
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
