//! Hosts that follow the Nodes, whatever else is wrong with the Service or happens meanwhile.

use std::sync::Arc;
use std::time::Duration;

use ccm_cloud::{Failure, Outcome, Reaction, Severity};
use tokio::time::Instant;

use super::annotations::written_after;
use super::ensured_record::Record;
use super::entry::Doubt;
use super::error::{SyncError, Task};
use super::fingerprint;
use super::job::Job;
use super::key::Key;
use super::operation::Operation;
use super::report::NOT_SYNCED;
use super::syncer::Syncer;
use super::write::{Changes, Written};
use crate::queue::Verdict;

impl Syncer {
    /// A part of the Service cannot be read: nothing is made or changed for it, but a load balancer that is there gets the backends
    /// of now.
    pub(crate) async fn unreadable(&self, key: &Key, job: Job, failure: Failure) -> Verdict {
        // Without its ports no provider could tell what belongs to it. No API server lets such a Service through.
        let may_follow = !job.view.ingress.is_empty() && !job.view.ports.is_empty();
        if !may_follow {
            let error = SyncError::Cloud { task: Task::Read, failure };
            return self.not_served(key, &job, error).await;
        }
        let _turn = match self.turn(key, &job.provider, &job.view).await {
            Ok(turn) => turn,
            Err(error) => return self.not_served(key, &job, error).await,
        };
        let seen = self.backends.seen();
        let Some(now) = self.revalidated(key, &job) else { return Verdict::After(Duration::ZERO) };
        let _taking = match Box::pin(self.is_still_free(key, &now)).await {
            Ok(taking) => taking,
            Err(verdict) => return verdict,
        };
        let verdict = match Box::pin(self.in_time(Task::Update, self.follow(key, now))).await {
            Ok(Ok(now)) => {
                let error = SyncError::Cloud { task: Task::Read, failure };
                let backends = Some(now.target.backends);
                self.reporter(key, &now.service).failed(&now.tried(backends), NOT_SYNCED, &error).await
            }
            Ok(Err(verdict)) => verdict,
            Err(error) => self.not_served(key, &job, error).await,
        };
        self.unless_past(key, seen, verdict)
    }

    /// Gives a load balancer the backends of now, if it was not recorded with them.
    ///
    /// # Errors
    ///
    /// It has not got them: when that is tried again.
    async fn follow(&self, key: &Key, mut job: Job) -> Result<Job, Verdict> {
        if let Some(verdict) = self.guard(key, &mut job, false).await {
            return Err(verdict);
        }
        let record = Record::of(&job.service).filter(|record| record.provider == job.provider.descriptor.name);
        let Some(record) = record.filter(|record| record.backends != Some(job.target.backends)) else { return Ok(job) };
        let provider = Arc::clone(&job.provider);
        if self.is_withdrawn(&provider) {
            return Err(Verdict::After(Duration::ZERO));
        }
        job.by.add(&provider.component);
        // As it is: a provider that was told of no ranges at all would let everybody in.
        let spec = job.service.spec.as_ref();
        job.view.source_ranges = spec.and_then(|spec| spec.load_balancer_source_ranges.clone()).unwrap_or_default();
        let doubt = self.memory.with(key, |entry| entry.update_begins());
        self.metrics.updates.inc();
        let begun = Instant::now();
        let asked = provider.load_balancers.update_backends(job.view.clone(), Arc::clone(&job.backends.list));
        let outcome = self.call(Operation::Update, &provider, asked, |outcome| outcome.failure.as_ref()).await;
        let mut outcome = outcome.unwrap_or_else(Outcome::failed);
        self.metrics.update_latency.observe(begun.elapsed().as_secs_f64());
        self.chose(key, &mut job, &mut outcome);
        let outcome = self.vetted(&job, outcome);
        let annotations = self.remember(key, &provider.descriptor, outcome.annotations);
        match outcome.failure {
            // What is wrong with the Service is said anyway.
            Some(failure) if failure.reaction == Reaction::Invalid => return Ok(job),
            Some(failure) if self.is_gone(&job, &failure).await => return Ok(job),
            Some(failure) => {
                self.metrics.update_failures.inc();
                return Err(self.failed(key, job, SyncError::Cloud { task: Task::Update, failure }).await);
            }
            None => {}
        }
        let ingress = Some(outcome.ingress).filter(|ingress| !ingress.is_empty());
        let record = Record {
            // What was recorded besides still counts, unless something of it was being changed.
            spec: record.spec.filter(|_| doubt < Some(Doubt::All)),
            backends: Some(job.target.backends),
            addresses: ingress.as_deref().map(fingerprint::addresses).or(record.addresses),
            written: Some(written_after(&job.service, &provider.descriptor, &annotations)),
            by: job.by.clone(),
            ..record
        };
        let changes = Changes { annotations, ingress, record: Some(record.clone()), ..Changes::default() };
        match self.writer.set(&job.service, &changes).await {
            Ok(Written::Changed(written)) => job.service = self.wrote(key, *written),
            Ok(Written::Nothing) => {}
            Ok(Written::Gone) => return Err(Verdict::Done),
            Err(error) => {
                let error = SyncError::Api { task: Task::WriteStatus, error };
                return Err(self.not_served(key, &job, error).await);
            }
        }
        self.memory.recorded(key, record);
        self.memory.with(key, |entry| entry.hosts_recorded());
        let message = "Updated load balancer with new hosts".into();
        self.reporter(key, &job.service).event(Severity::Normal, "UpdatedLoadBalancer", message).await;
        Ok(job)
    }
}
