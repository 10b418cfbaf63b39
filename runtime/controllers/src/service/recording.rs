//! What follows from the end of a call: the record, the addresses and the condition, in one write.

use std::collections::BTreeMap;
use std::sync::Arc;

use ccm_cloud::{Descriptor, Failure, Ingress, Outcome, Reaction, Severity};

use super::annotations::{is_written, set, written_after};
use super::condition::ReadyCondition;
use super::ensured_record::Record;
use super::error::{SyncError, Task};
use super::fingerprint::{self, Target};
use super::found::Unsaid;
use super::job::Job;
use super::key::Key;
use super::predicates::class;
use super::report::NOT_SYNCED;
use super::syncer::Syncer;
use super::write::{Changes, Written};
use crate::queue::Verdict;

/// Most names of Nodes in a log line, as upstream.
const MAX_NAMES: usize = 20;

impl Syncer {
    /// Records the outcome of a call, or of a plan that needs none.
    pub(crate) async fn ended(&self, key: &Key, mut job: Job, task: Task, outcome: Outcome) -> Verdict {
        let descriptor = Arc::clone(&job.provider.descriptor);
        let outcome = self.vetted(&job, outcome);
        self.progressed(key, &outcome);
        match task {
            _ if outcome.changes.is_empty() => {}
            // The pass has a line for all of them.
            Task::Update => tracing::debug!(changes = ?outcome.changes, "changed in the cloud"),
            _ => tracing::info!(changes = ?outcome.changes, "changed in the cloud"),
        }
        let annotations = self.remember(key, &descriptor, outcome.annotations);
        for (name, value) in &annotations {
            set(&mut job.view.annotations, name.clone(), value.clone());
        }
        // What the provider wrote may change how the Service looks to it: that alone is no reason for another try.
        let written_for = job.purpose();
        job.target.spec = job.provider.spec(&job.view, None);
        let now = job.purpose();
        self.memory.with(key, |entry| entry.announced_as(written_for, now));
        match outcome.failure {
            Some(failure) if failure.reaction == Reaction::Elsewhere => self.elsewhere(key, &job, &failure, task).await,
            Some(failure) => {
                if task == Task::Update && failure.reaction != Reaction::Pending {
                    self.metrics.update_failures.inc();
                }
                self.failed(key, job, SyncError::Cloud { task, failure }).await
            }
            None => {
                let ingress = Some(outcome.ingress).filter(|ingress| !ingress.is_empty());
                self.done(key, job, task, ingress, annotations).await
            }
        }
    }

    /// Remembers how far the cloud is, where it is at work.
    pub(crate) fn progressed(&self, key: &Key, outcome: &Outcome) {
        if outcome.failure.as_ref().is_some_and(|failure| failure.reaction == Reaction::Pending) {
            self.memory.with(key, |entry| entry.progressed(outcome));
        }
    }

    /// Somebody else takes care of it: no addresses, no condition, and the finalizer stays as it is.
    async fn elsewhere(&self, key: &Key, job: &Job, failure: &Failure, task: Task) -> Verdict {
        tracing::debug!(%failure, "left to another controller");
        self.memory.with(key, |entry| entry.left_elsewhere());
        self.memory.not_ready(key, None);
        self.memory.waits(key, false);
        let error = SyncError::Cloud { task, failure: failure.clone() };
        self.later(key, &job.tried(None), &error)
    }

    pub(crate) async fn failed(&self, key: &Key, job: Job, error: SyncError) -> Verdict {
        let is_update = matches!(error, SyncError::Cloud { task: Task::Update, .. });
        let warning = if is_update {
            log_names(&job, &error);
            ("UpdateLoadBalancerFailed", "Error updating load balancer with new hosts")
        } else {
            NOT_SYNCED
        };
        let blames_hosts = matches!(error, SyncError::Cloud { task: Task::Update | Task::EnsureHosts, .. });
        // What is there must follow its hosts, whatever else is wrong with the Service, or takes long in the cloud. What is still
        // being made waits with its hosts.
        let is_there = !job.view.ingress.is_empty();
        let is_wrong = error.reaction() == Reaction::Invalid.as_str();
        let follows = if error.is_pending() { is_there } else { blames_hosts || (is_wrong && is_there) };
        let backends = follows.then_some(job.target.backends);
        self.reporter(key, &job.service).failed(&job.tried(backends), warning, &error).await
    }

    async fn done(
        &self,
        key: &Key,
        job: Job,
        task: Task,
        ingress: Option<Vec<Ingress>>,
        mut annotations: BTreeMap<String, Option<String>>,
    ) -> Verdict {
        let Target { spec, backends } = job.target;
        let record = Record {
            provider: job.provider.descriptor.name.clone(),
            class: class(&job.service).map(ToOwned::to_owned),
            spec: Some(job.held.unwrap_or(spec)),
            backends: Some(backends),
            addresses: Some(fingerprint::addresses(ingress.as_deref().unwrap_or(&job.view.ingress))),
            written: Some(written_after(&job.service, &job.provider.descriptor, &annotations)),
            taken_over: None,
            view: match job.held {
                // It was not ensured for what it asks for now.
                Some(_) => Record::of(&job.service).and_then(|record| record.view),
                None => job.provider.view(&job.view),
            },
            by: job.by.clone(),
        };
        annotations.extend(super::annotations::done(&job.service).map(|name| (name, None)));
        let (readiness, answered) = (Some(ReadyCondition::ensured()), job.request.clone());
        let changes = Changes { annotations, ingress, readiness, record: Some(record.clone()), answered };
        let is_news = match self.writer.set(&job.service, &changes).await {
            Ok(Written::Changed(written)) => {
                drop(self.wrote(key, *written));
                true
            }
            Ok(Written::Nothing) => false,
            Ok(Written::Gone) => return Verdict::Done,
            Err(error) => {
                // Only the write is tried again.
                let (request, by, target) = (job.request.clone(), job.by.clone(), job.target);
                // Whoever waits was not ensured for this target.
                let ingress = changes.ingress.filter(|_| job.held.is_none());
                let unsaid = ingress.map(|ingress| Unsaid { target, ingress, task, request, by });
                self.memory.with(key, |entry| entry.is_unsaid(unsaid));
                let error = SyncError::Api { task: Task::WriteStatus, error };
                return self.not_served(key, &job, error).await;
            }
        };
        self.memory.recorded(key, record);
        let wanted = self.memory.with(key, |entry| entry.was_recorded(job.is_repair)).flatten();
        self.memory.not_ready(key, None);
        self.memory.waits(key, false);
        if let Some(wanted) = wanted {
            self.metrics.address_delay.observe(wanted.elapsed().as_secs_f64());
        }
        let reporter = self.reporter(key, &job.service);
        match task {
            // Asked for once more after a restart, and the same.
            Task::Update if !is_news => {}
            Task::Update if job.backends.list.is_empty() => reporter.no_backends().await,
            Task::Update => {
                let message = "Updated load balancer with new hosts".into();
                reporter.event(Severity::Normal, "UpdatedLoadBalancer", message).await;
            }
            Task::Ensure | Task::EnsureHosts => {
                reporter.event(Severity::Normal, "EnsuredLoadBalancer", "Ensured load balancer".into()).await;
            }
            _ => {}
        }
        Verdict::Done
    }

    /// Keeps the annotations that a provider wants to be written, as far as it may write them. Returns all that wait.
    pub(crate) fn remember(
        &self,
        key: &Key,
        descriptor: &Descriptor,
        annotations: Vec<(String, Option<String>)>,
    ) -> BTreeMap<String, Option<String>> {
        let (known, unknown): (Vec<_>, Vec<_>) =
            annotations.into_iter().partition(|(name, _)| is_written(descriptor, name));
        for (name, _) in unknown {
            tracing::warn!(name, "the provider wants to write an annotation that it has not declared as its own");
        }
        self.memory.with(key, |entry| entry.wants_written(known)).unwrap_or_default()
    }
}

fn log_names(job: &Job, error: &SyncError) {
    let names: Vec<&str> = job.backends.list.iter().take(MAX_NAMES).map(|backend| backend.name.as_str()).collect();
    tracing::debug!(%error, first = ?names, hosts = job.backends.list.len(), "hosts not updated");
}
