//! Carries out a plan: makes a load balancer, changes it, or takes over what the cloud has.
//!
//! The finalizer stands before the cloud is asked for anything. What was done is recorded only after it was
//! ([`recording`](super::recording)).

use std::collections::BTreeMap;
use std::sync::Arc;

use ccm_apiserver::ApiError;
use ccm_cloud::{Failure, Ingress, Outcome, Reaction};
use tokio::time::{Duration, Instant};

use super::annotations::{ENSURE, annotation, written, written_after};
use super::ensured_record::Record;
use super::error::{SyncError, Task, may_need_ensure};
use super::fingerprint;
use super::job::Job;
use super::key::Key;
use super::offer::Offer;
use super::operation::Operation;
use super::ownership::Work;
use super::plan::{Action, Reason};
use super::predicates::has_finalizer;
use super::syncer::Syncer;
use super::write::{Changes, Written};
use super::writers::Writers;
use crate::queue::Verdict;

impl Syncer {
    /// Carries out the plan of a job whose turn has come.
    pub(crate) async fn act(&self, key: &Key, job: Job) -> Verdict {
        self.tell_offer(key, &job.service, &job.provider).await;
        match job.plan.action.clone() {
            Action::Adopt(ingress) => self.adopt(key, job, Some(ingress)).await,
            Action::UpdateHosts => self.update(key, job).await,
            Action::Ensure => {
                if let Reason::Drifted(drift) = &job.plan.reason {
                    self.reporter(key, &job.service).drifted(drift.clone()).await;
                }
                self.ensure(key, job).await
            }
            // The Service may lack its finalizer.
            _ => self.adopt(key, job, None).await,
        }
    }

    /// Brings the cloud to what the Service asks for.
    pub(crate) async fn ensure(&self, key: &Key, mut job: Job) -> Verdict {
        self.reporter(key, &job.service).announce(job.purpose()).await;
        let provider = Arc::clone(&job.provider);
        if job.is_taken_back {
            tracing::info!(by = %job.by, "a component that wrote the load balancer was refused: it is ensured again");
        }
        job.by.add(&provider.component);
        // What is noted of a takeover before the call makes the offer its own.
        let view = self.told_of_offer(key, &job);
        if let Some(verdict) = self.guard(key, &mut job, true).await {
            return verdict;
        }
        // What is asked for from here on is asked for again.
        job.request = annotation(&job.service, ENSURE).map(ToOwned::to_owned);
        if job.backends.list.is_empty() {
            self.reporter(key, &job.service).no_backends().await;
        }
        if self.is_withdrawn(&provider) {
            return Verdict::After(Duration::ZERO);
        }
        job.by = Writers::only(&provider.component);
        self.memory.with(key, |entry| entry.ensure_begins());
        let backends = Arc::clone(&job.backends.list);
        let asked = match job.is_outdated {
            true => provider.load_balancers.ensure_unhurried(view, backends),
            false => provider.load_balancers.ensure(view, backends),
        };
        let outcome = self.call(Operation::Ensure, &provider, asked, |outcome| outcome.failure.as_ref()).await;
        let mut outcome = outcome.unwrap_or_else(Outcome::failed);
        if outcome.failure.is_none() && outcome.ingress.is_empty() {
            let why = "the provider says that it is done, and names no address";
            outcome.failure = Some(Failure::new(Reaction::Retry, why));
        }
        self.chose(key, &mut job, &mut outcome);
        let purpose = job.purpose();
        let may_be_hosts = self.memory.with(key, |entry| entry.may_be_hosts(purpose)) == Some(true);
        self.ended(key, job, if may_be_hosts { Task::EnsureHosts } else { Task::Ensure }, outcome).await
    }

    /// Gives a load balancer the backends of now.
    pub(crate) async fn update(&self, key: &Key, mut job: Job) -> Verdict {
        // The record stays: an update for a Node that joins would be two writes per load balancer, which every kube-proxy
        // reads, against a process that is killed at that moment and Nodes that then are as before.
        let view = self.told_of_offer(key, &job);
        if let Some(verdict) = self.guard(key, &mut job, false).await {
            return verdict;
        }
        let provider = Arc::clone(&job.provider);
        if self.is_withdrawn(&provider) {
            return Verdict::After(Duration::ZERO);
        }
        job.by.add(&provider.component);
        self.memory.with(key, |entry| entry.update_begins());
        self.metrics.updates.inc();
        let begun = Instant::now();
        let asked = provider.load_balancers.update_backends(view, Arc::clone(&job.backends.list));
        let outcome = self.call(Operation::Update, &provider, asked, |outcome| outcome.failure.as_ref()).await;
        let mut outcome = outcome.unwrap_or_else(Outcome::failed);
        self.chose(key, &mut job, &mut outcome);
        let gone = match &outcome.failure {
            Some(failure) => self.is_gone(&job, failure).await,
            None => false,
        };
        self.metrics.update_latency.observe(begun.elapsed().as_secs_f64());
        if gone {
            tracing::warn!("the load balancer whose Nodes were to be updated does not exist, it is made again");
            self.metrics.drifted.inc();
            return Box::pin(self.ensure(key, job)).await;
        }
        self.ended(key, job, Task::Update, outcome).await
    }

    /// The Service, with what its offer comes to: a provider can tell what it wrote for this one from what came with a backup.
    fn told_of_offer(&self, key: &Key, job: &Job) -> ccm_cloud::Service {
        let mut view = job.view.clone();
        let has_begun = || Record::of(&job.service).is_some_and(|record| record.taken_over.is_some());
        let whose = match self.offer(key, &job.service, &job.provider) {
            Some(Offer::Free { uid, .. }) => Some(uid.unwrap_or_default()),
            _ => has_begun().then(String::new),
        };
        view.more.extend(whose.map(|uid| (ccm_cloud::Service::TAKEN_OVER.to_owned(), uid)));
        view
    }

    /// Remembers by which labels the provider chose among the Nodes, and what the backends came to.
    pub(crate) fn chose(&self, key: &Key, job: &mut Job, outcome: &mut Outcome) {
        let selected = std::mem::take(&mut outcome.selected);
        let has_failed = outcome.failure.is_some();
        let asked = selected.keys().cloned().collect();
        let selectors = self.memory.with(key, |entry| entry.chose(asked, has_failed));
        job.target.backends = match selectors {
            // It may have failed before it had asked for all.
            Some(selectors) if has_failed && !selectors.iter().all(|selector| selected.contains_key(selector)) => {
                self.backends.target(&job.backends, &selectors)
            }
            _ => job.backends.told(&selected),
        };
    }

    /// Whether an update failed since there is nothing to update.
    pub(crate) async fn is_gone(&self, job: &Job, failure: &Failure) -> bool {
        if !may_need_ensure(failure.reaction) {
            return false;
        }
        let asked = job.provider.load_balancers.get(job.view.clone());
        let found = self.call(Operation::Get, &job.provider, asked, |found| found.as_ref().err()).await;
        matches!(found, Ok(Ok(None)))
    }

    /// The cloud has what the Service asks for: only the Service may not say so. Without `ingress` nothing is to be said.
    pub(crate) async fn adopt(&self, key: &Key, mut job: Job, ingress: Option<Vec<Ingress>>) -> Verdict {
        if let Some(verdict) = self.guard(key, &mut job, false).await {
            return verdict;
        }
        let Some(ingress) = ingress else { return Verdict::Done };
        self.memory.with(key, |entry| entry.forget_found());
        let mut task = Task::Read;
        if let Some(unsaid) = job.unsaid.take() {
            (task, job.by) = (unsaid.task, unsaid.by);
        }
        if job.is_found {
            job.by.add(&job.provider.component);
        }
        let outcome = Outcome { ingress, ..Outcome::default() };
        self.ended(key, job, task, outcome).await
    }

    /// Prepares the Service for a call: adds the finalizer, and removes annotations that lead to the load balancer of another Service. If
    /// the call may `change` more than hosts, marks the record as not certain first. Returns a verdict if the run ends here.
    pub(crate) async fn guard(&self, key: &Key, job: &mut Job, change: bool) -> Option<Verdict> {
        let descriptor = Arc::clone(&job.provider.descriptor);
        let record = Record::of(&job.service);
        let is_certain = record.as_ref().is_some_and(|record| record.spec.is_some());
        let addresses = record.as_ref().and_then(|record| record.addresses);
        let addresses = addresses.unwrap_or_else(|| fingerprint::addresses(&job.view.ingress));
        let foreign = written(&job.service, &descriptor).into_keys().filter(|_| job.is_anothers);
        let annotations: BTreeMap<String, Option<String>> = foreign.map(|name| (name.to_owned(), None)).collect();
        let kept = written_after(&job.service, &descriptor, &annotations);
        let known = record.as_ref().and_then(|record| record.written);
        let (written, taken_over) = match self.offer(key, &job.service, &job.provider) {
            Some(Offer::Free { .. }) => (known, Some(kept)),
            Some(Offer::Nothing) | None => (known, None),
            Some(Offer::Own | Offer::Anothers { .. }) => (Some(kept), None),
        };
        // A finalizer that is added brings the record along.
        let is_new = record.is_none() && !has_finalizer(&job.service);
        let takes_over = taken_over.is_some() && !is_new && job.plan.action.changes_the_cloud();
        let begun = Record::begun(&descriptor.name, &job.service, addresses, kept);
        let begun = Record { written, taken_over, by: job.by.clone(), ..begun };
        if !annotations.is_empty() || (change && is_certain) || takes_over {
            let changes = Changes { annotations, record: Some(begun.clone()), ..Changes::default() };
            let written = self.writer.set(&job.service, &changes).await;
            if let Some(verdict) = self.guarded(key, job, Task::WriteStatus, written).await {
                return Some(verdict);
            }
            self.memory.recorded(key, begun.clone());
        }
        if has_finalizer(&job.service) {
            return None;
        }
        let is_first = Record::of(&job.service).is_none();
        let written = self.writer.add_finalizer(&job.service, &begun).await;
        let ended = self.guarded(key, job, Task::AddFinalizer, written).await;
        if ended.is_none() && is_first {
            self.memory.recorded(key, begun);
        }
        ended
    }

    async fn guarded(
        &self,
        key: &Key,
        job: &mut Job,
        task: Task,
        written: Result<Written, ApiError>,
    ) -> Option<Verdict> {
        match written {
            Ok(Written::Changed(written)) => {
                job.service = self.wrote(key, *written);
                // The store may be behind, and the Service want no load balancer any more.
                let is_to_do = self.work(key, &job.service) == Work::Serve(job.provider.member);
                (!is_to_do).then_some(Verdict::After(Duration::ZERO))
            }
            Ok(Written::Nothing) => None,
            Ok(Written::Gone) => Some(Verdict::Done),
            Err(error) => Some(self.not_served(key, job, SyncError::Api { task, error }).await),
        }
    }
}
