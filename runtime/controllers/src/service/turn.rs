//! The turn of a Service: nobody else changes the same things, there is a permit to work, and the plan still holds.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::sync::SemaphorePermit;
use tokio::time::Instant;

use super::backends::Seen;
use super::claims::Taking;
use super::error::{SyncError, Task};
use super::job::Job;
use super::key::Key;
use super::locks::Held;
use super::offer::Offer;
use super::operation::Operation;
use super::plan::Action;
use super::provider::Provider;
use super::syncer::Syncer;
use crate::queue::Verdict;

/// The turn of one run: it holds the locks of its load balancer, and one of the permits to work.
pub(crate) struct Turn<'a> {
    _held: Held,
    _permit: Option<SemaphorePermit<'a>>,
}

impl Syncer {
    /// Waits until nobody else changes the same things, then for a permit to work.
    pub(crate) async fn turn(
        &self,
        key: &Key,
        provider: &Provider,
        view: &ccm_cloud::Service,
    ) -> Result<Turn<'_>, SyncError> {
        let asked = provider.load_balancers.locks(view.clone());
        let names = self.call(Operation::Locks, provider, asked, |answer| answer.as_ref().err()).await;
        let names = names.and_then(|names| names).map_err(|failure| SyncError::Cloud { task: Task::Lock, failure })?;
        // Two providers may use the same word for different things.
        let names: BTreeSet<String> = names.into_iter().map(|name| format!("{}/{name}", provider.member)).collect();
        let waits = |since| self.memory.with(key, |entry| entry.last_run.waits_for_turn = since);
        waits(Some(Instant::now()));
        let held = self.locks.hold(names).await;
        // Never closed.
        let permit = self.width.acquire().await.ok();
        waits(None);
        Ok(Turn { _held: held, _permit: permit })
    }

    /// The job as it is when its turn has come, with the provider of that moment. None where it is another one by then:
    /// another target waits for its own turn, and so does another component, whose locks may be others.
    pub(crate) fn revalidated(&self, key: &Key, job: &Job) -> Option<Job> {
        let provider = self.still(&job.provider)?;
        self.job(key, &provider).filter(|now| now.target.spec == job.target.spec)
    }

    /// Judges an offer once more before it is taken, because the run may have waited long for its turn; and a name that leads to a load
    /// balancer, where there is no offer. Until what this returns is dropped, nobody else takes it over.
    ///
    /// # Errors
    ///
    /// It is not what it was, or another's, or nobody can tell.
    pub(crate) async fn is_still_free(&self, key: &Key, job: &Job) -> Result<Option<Taking<'_>>, Verdict> {
        if job.is_undecided {
            return Err(Verdict::After(Duration::ZERO));
        }
        let offer = self.offer(key, &job.service, &job.provider);
        match self.is_as_before(key, &job.service, &job.provider).await {
            Ok(()) => {}
            Err(None) => return Err(Verdict::After(Duration::ZERO)),
            Err(Some(error)) => return Err(self.not_served(key, job, error).await),
        }
        let taking = match offer {
            Some(Offer::Free { load_balancer, .. }) => {
                let holder = (key.clone(), job.service.metadata.uid.clone());
                let taking = self.claims.taking(job.provider.member, &load_balancer, holder);
                Some(taking.ok_or(Verdict::After(Duration::ZERO))?)
            }
            Some(Offer::Own | Offer::Nothing | Offer::Anothers { .. }) | None => None,
        };
        if job.plan.action != Action::Ensure {
            return Ok(taking);
        }
        let by_name =
            self.in_time(Task::Adopt, self.is_not_anothers_by_name(&job.service, &job.provider, job.is_anothers)).await;
        match by_name.and_then(|by_name| by_name) {
            Ok(()) => Ok(taking),
            Err(error) => Err(self.not_served(key, job, error).await),
        }
    }

    /// Finds out what the offer of a job comes to. The job may be another one then.
    ///
    /// # Errors
    ///
    /// It is not to be done, or not now.
    pub(crate) async fn decided(&self, key: &Key, job: &Job) -> Result<Job, Verdict> {
        if let Err(error) = self.decide(key, &job.service, &job.provider).await {
            return Err(self.not_served(key, job, error).await);
        }
        let now = self.job(key, &job.provider).filter(|now| !now.is_undecided);
        now.ok_or(Verdict::After(Duration::ZERO))
    }

    /// The verdict of a run that has `seen` these Nodes. If they have changed since, the Service runs again: the pass that follows a
    /// change compares with the record, and does not know which hosts a call under way was given.
    pub(crate) fn unless_past(&self, key: &Key, seen: Seen, verdict: Verdict) -> Verdict {
        let is_end = matches!(verdict, Verdict::Done | Verdict::Change);
        let is_past = |chooses| seen.is_past(self.backends.seen(), chooses);
        match self.memory.with(key, |entry| entry.chooses()) {
            Some(chooses) if is_end && is_past(chooses) => Verdict::After(Duration::ZERO),
            _ => verdict,
        }
    }
}
