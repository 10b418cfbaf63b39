//! One Service, once: decides what is to be done, waits for its turn, and does it.
//!
//! Everything is decided from the newest state, never from what has changed: it does not matter what woke the Service, and a
//! change while it waits or while the cloud works counts at the next run, which follows at once.

use std::collections::BTreeSet;
use std::sync::Arc;

use ccm_cloud::{Failure, Reaction};
use k8s_openapi::api::core::v1::Service;
use kube::runtime::reflector::Store;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Duration, Instant, timeout};

use super::backends::{Current, Seen};
use super::claims::Claims;
use super::error::{SyncError, Task};
use super::job::Job;
use super::living::Living;
use super::locks::{Held, Locks};
use super::memory::{Entry, Key, Memory};
use super::metrics::ServiceMetrics;
use super::ownership::{Stranded, Work};
use super::predicates::{has_finalizer, is_load_balancer};
use super::provider::Provider;
use super::record::Record;
use super::refresh::Refresh;
use super::step::Step;
use super::view::ingress;
use super::write::ServiceWriter;
use super::{LoadBalancerMember, ServiceSettings};
use crate::events::EventRecorder;
use crate::queue::Verdict;
use crate::reaction::MIN_SLOW_RETRY;

/// Everything that a sync uses, shared by all of them.
pub(crate) struct Syncer {
    pub(crate) store: Store<Service>,
    pub(crate) members: Vec<LoadBalancerMember>,
    pub(crate) backends: Current,
    pub(crate) locks: Locks,
    /// One permit per Service that is being worked on.
    pub(crate) width: Semaphore,
    pub(crate) writer: ServiceWriter,
    pub(crate) recorder: EventRecorder,
    pub(crate) memory: Memory,
    pub(crate) living: Living,
    pub(crate) claims: Claims,
    pub(crate) refresh: Refresh,
    pub(crate) metrics: ServiceMetrics,
    pub(crate) settings: ServiceSettings,
}

/// Nobody else works on the same things, and not too many work at all.
pub(crate) struct Turn<'a> {
    _held: Held,
    _permit: Option<SemaphorePermit<'a>>,
}

impl Syncer {
    /// Works on a Service.
    pub(crate) async fn sync(&self, key: &Key) -> Verdict {
        // Whoever measures the pass waits until this ends, whichever way.
        let _pass = self.memory.with(key, |entry| entry.pass.take());
        let Some(seen) = self.store.get(key) else { return Box::pin(self.gone(key)).await };
        if let Some((old, member)) = self.memory.predecessor(key, &seen) {
            let verdict = Box::pin(self.delete_gone(key, &old, member)).await;
            if verdict != Verdict::Done {
                return verdict;
            }
        }
        let service = self.memory.newest(key, Arc::clone(&seen));
        match self.work(key, &service) {
            Work::Serve(member) => {
                self.memory.enter(key, &service, member, has_finalizer(&service) || Record::of(&service).is_some());
                let is_elsewhere = self.memory.with(key, |entry| entry.is_elsewhere) == Some(true);
                self.memory.waits(key, ingress(&service).is_empty() && !is_elsewhere);
                self.serve(key, member).await
            }
            Work::Cleanup(member) => {
                self.memory.enter(key, &service, member, true);
                self.memory.waits(key, false);
                Box::pin(self.cleanup(key, member)).await
            }
            Work::Orphan(member) => {
                self.memory.enter(key, &service, member.unwrap_or_default(), false);
                self.memory.waits(key, false);
                Box::pin(self.orphan(key, &service, member)).await
            }
            Work::Ask(member) => {
                self.memory.enter(key, &service, member, false);
                Box::pin(self.ask(key, &service, member)).await
            }
            Work::Stranded(why) => {
                let (member, owned) = match why {
                    Stranded::Class(holder) => (holder, true),
                    Stranded::Provider => (0, false),
                };
                self.memory.enter(key, &service, member, owned);
                self.memory.waits(key, is_load_balancer(&service) && ingress(&service).is_empty());
                Box::pin(self.stranded(key, &service, why)).await
            }
            Work::Nothing => {
                self.memory.waits(key, false);
                // Until the store has what we wrote, it shows a Service that asks for work.
                if service.metadata.resource_version == seen.metadata.resource_version {
                    self.memory.forget(key);
                }
                Verdict::Done
            }
        }
    }

    async fn serve(&self, key: &Key, member: usize) -> Verdict {
        let job = self.provider(member).and_then(|provider| self.job(key, &provider));
        let Some(job) = job else { return Verdict::After(Duration::ZERO) };
        let provider = Arc::clone(&job.provider);
        let verdict = Box::pin(self.bring(key, job)).await;
        self.refreshed(key, &provider, verdict);
        verdict
    }

    async fn bring(&self, key: &Key, mut job: Job) -> Verdict {
        if let Some(wait) = self.must_wait(key, &job) {
            return wait;
        }
        if job.is_undecided {
            let decided = Box::pin(self.decided(key, &job)).await;
            job = match decided {
                Ok(job) => job,
                Err(verdict) => return verdict,
            };
        }
        self.wait_or_leave(key, &job);
        if job.is_repair {
            let pause = self.settings.slow_retry.max(MIN_SLOW_RETRY);
            if let Some(wait) = self.memory.with(key, |entry| entry.must_not_repair(pause)).flatten() {
                return wait;
            }
        }
        if job.step == Step::Nothing && has_finalizer(&job.service) {
            self.memory.with(key, |entry| entry.succeeded());
            self.memory.not_ready(key, None);
            return Verdict::Done;
        }
        if let Some(failure) = job.wrong.clone() {
            return Box::pin(self.unreadable(key, job, failure)).await;
        }
        let _turn = match self.turn(&job.provider, &job.view).await {
            Ok(turn) => turn,
            Err(error) => return Box::pin(self.not_served(key, &job, error)).await,
        };
        // Waiting has taken its time. What holds now is what counts.
        let seen = self.backends.seen();
        let now = self.revalidated(key, &job).filter(|now| now.held.is_some() == job.held.is_some());
        let Some(now) = now else { return Verdict::After(Duration::ZERO) };
        if let Err(verdict) = Box::pin(self.is_still_free(key, &now)).await {
            return verdict;
        }
        let task = if now.step == Step::Update { Task::Update } else { Task::Ensure };
        let verdict = match Box::pin(self.in_time(task, self.take(key, now))).await {
            Ok(verdict) => verdict,
            Err(error) => Box::pin(self.not_served(key, &job, error)).await,
        };
        self.unless_past(key, seen, verdict)
    }

    /// The verdict of work by what was `seen` of the Nodes. Where they have changed meanwhile it is looked at again: whoever wakes
    /// Services compares with what is recorded, and does not know what a call that is under way was told.
    pub(crate) fn unless_past(&self, key: &Key, seen: Seen, verdict: Verdict) -> Verdict {
        let is_end = matches!(verdict, Verdict::Done | Verdict::Change);
        let chooses = |entry: &mut Entry| entry.selectors.as_ref().is_some_and(|selectors| !selectors.is_empty());
        let is_past = |chooses| seen.is_past(self.backends.seen(), chooses);
        match self.memory.with(key, chooses) {
            Some(chooses) if is_end && is_past(chooses) => Verdict::After(Duration::ZERO),
            _ => verdict,
        }
    }

    async fn take(&self, key: &Key, job: Job) -> Verdict {
        self.tell_offer(key, &job.service, &job.provider).await;
        match job.step.clone() {
            Step::Nothing => self.adopt(key, job, None).await,
            Step::Adopt(ingress) => self.adopt(key, job, Some(ingress)).await,
            Step::Update => self.update(key, job).await,
            Step::Ensure { drift } => {
                if let Some(drift) = drift {
                    self.drifted(&job.service, drift).await;
                }
                self.ensure(key, job).await
            }
        }
    }

    /// Work after its turn has come, within the limit of a run: waiting does not count, or the last of many would never be
    /// served.
    ///
    /// # Errors
    ///
    /// It was not done in time, and was dropped.
    pub(crate) async fn in_time<T>(&self, task: Task, work: impl Future<Output = T>) -> Result<T, SyncError> {
        let limit = self.settings.queue.max_run;
        timeout(limit, work).await.map_err(|_elapsed| {
            let failure = Failure::new(Reaction::Retry, format!("it was not done within {limit:?} and was dropped"));
            SyncError::Cloud { task, failure }
        })
    }

    /// Waits until nobody else changes the same things, then for a place among those who work.
    pub(crate) async fn turn(&self, provider: &Provider, view: &ccm_cloud::Service) -> Result<Turn<'_>, SyncError> {
        let asked = provider.load_balancers.locks(view.clone());
        let names = self.call("locks", asked, |answer| answer.as_ref().err()).await;
        let names = names.and_then(|names| names).map_err(|failure| SyncError::Cloud { task: Task::Lock, failure })?;
        // Two providers may use the same word for different things.
        let names: BTreeSet<String> = names.into_iter().map(|name| format!("{}/{name}", provider.member)).collect();
        let held = self.locks.hold(names).await;
        // Never closed.
        Ok(Turn { _held: held, _permit: self.width.acquire().await.ok() })
    }

    /// Asks a provider, within the time limit.
    ///
    /// # Errors
    ///
    /// There was no answer in time.
    pub(crate) async fn call<T>(
        &self,
        operation: &'static str,
        answer: impl Future<Output = T>,
        failure: impl FnOnce(&T) -> Option<&Failure>,
    ) -> Result<T, Failure> {
        let begun = Instant::now();
        let limit = self.settings.call_timeout;
        let answer = timeout(limit, answer)
            .await
            .map_err(|_elapsed| Failure::new(Reaction::Retry, format!("the provider gave no answer within {limit:?}")));
        let failed = answer.as_ref().map_or_else(Some, failure);
        self.metrics.called(operation, failed, begun.elapsed());
        answer
    }
}
