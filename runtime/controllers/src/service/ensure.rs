//! Makes a load balancer, or changes it, and writes down what has come of it.
//!
//! The finalizer stands before the cloud is asked for anything; what was ensured is recorded only after it was, and together
//! with the addresses, in one write.

use std::collections::BTreeMap;
use std::sync::Arc;

use ccm_cloud::{Descriptor, Failure, Ingress, Outcome, Reaction, Severity};
use k8s_openapi::api::core::v1::Service;
use tokio::time::{Duration, Instant};

use super::annotations::{ENSURE, annotation, is_written, set, written, written_after};
use super::condition::{Difference, Readiness};
use super::error::{SyncError, Task, may_need_ensure};
use super::fingerprint::{self, Target};
use super::job::Job;
use super::memory::{Doubt, Entry, Key};
use super::offer::Offer;
use super::predicates::{class, has_finalizer};
use super::record::{Record, is_foreign};
use super::report::{NOT_SYNCED, Tried};
use super::step::{Step, Unsaid};
use super::sync::Syncer;
use super::view::ingress;
use super::write::{Changes, Written};
use super::writers::Writers;
use crate::queue::Verdict;
use crate::write_gate::ApiError;

/// Most names of Nodes in a log line, as upstream.
const MAX_NAMES: usize = 20;

impl Syncer {
    /// Brings the cloud to what the Service asks for.
    pub(crate) async fn ensure(&self, key: &Key, mut job: Job) -> Verdict {
        self.announce(key, &job.service, job.purpose()).await;
        let provider = Arc::clone(&job.provider);
        if job.is_refused {
            tracing::info!(by = %job.by, "a component that wrote the load balancer was refused: it is ensured again");
        }
        job.by.add(&provider.component);
        if let Some(verdict) = self.guard(key, &mut job, true).await {
            return verdict;
        }
        // What is asked for from here on is asked for again.
        job.request = annotation(&job.service, ENSURE).map(ToOwned::to_owned);
        if job.backends.list.is_empty() {
            self.no_backends(key, &job.service).await;
        }
        if self.is_withdrawn(&provider) {
            return Verdict::After(Duration::ZERO);
        }
        job.by = Writers::only(&provider.component);
        self.memory.with(key, |entry| {
            (entry.doubt, entry.owned, entry.is_elsewhere) = (Doubt::All, true, false);
            entry.unsaid = None;
        });
        let asked = provider.load_balancers.ensure(job.view.clone(), Arc::clone(&job.backends.list));
        let outcome = self.call("ensure", asked, |outcome| outcome.failure.as_ref()).await;
        let mut outcome = outcome.unwrap_or_else(Outcome::failed);
        if outcome.failure.is_none() && outcome.ingress.is_empty() {
            let why = "the provider says that it is done, and names no address";
            outcome.failure = Some(Failure::new(Reaction::Retry, why));
        }
        self.chose(key, &mut job, &mut outcome);
        let purpose = job.purpose();
        let may_be_hosts = |entry: &mut Entry| {
            entry.hosts_refused == Some(purpose)
                || entry.selectors.as_ref().is_some_and(|selectors| !selectors.is_empty())
        };
        let may_be_hosts = self.memory.with(key, may_be_hosts) == Some(true);
        self.ended(key, job, if may_be_hosts { Task::EnsureHosts } else { Task::Ensure }, outcome).await
    }

    /// Gives a load balancer the backends of now.
    pub(crate) async fn update(&self, key: &Key, mut job: Job) -> Verdict {
        // The record stays: an update for a Node that joins would be two writes per load balancer, which every kube-proxy
        // reads, against a process that is killed at that moment and Nodes that then are as before.
        if let Some(verdict) = self.guard(key, &mut job, false).await {
            return verdict;
        }
        let provider = Arc::clone(&job.provider);
        if self.is_withdrawn(&provider) {
            return Verdict::After(Duration::ZERO);
        }
        job.by.add(&provider.component);
        self.memory.with(key, |entry| (entry.doubt, entry.unsaid) = (entry.doubt.max(Doubt::Backends), None));
        self.metrics.updates.inc();
        let begun = Instant::now();
        let asked = provider.load_balancers.update_backends(job.view.clone(), Arc::clone(&job.backends.list));
        let outcome = self.call("update", asked, |outcome| outcome.failure.as_ref()).await;
        let mut outcome = outcome.unwrap_or_else(Outcome::failed);
        self.chose(key, &mut job, &mut outcome);
        let gone = match &outcome.failure {
            Some(failure) => self.is_gone(&job, failure).await,
            None => false,
        };
        self.metrics.update_latency.observe(begun.elapsed().as_secs_f64());
        if gone {
            tracing::warn!("the load balancer whose hosts were to be updated does not exist, it is made again");
            self.metrics.drifted.inc();
            return Box::pin(self.ensure(key, job)).await;
        }
        self.ended(key, job, Task::Update, outcome).await
    }

    /// Remembers by which labels the provider chose among the Nodes, and what the backends came to.
    pub(crate) fn chose(&self, key: &Key, job: &mut Job, outcome: &mut Outcome) {
        let selected = std::mem::take(&mut outcome.selected);
        let has_failed = outcome.failure.is_some();
        let selectors = self.memory.with(key, |entry| {
            let known = entry.selectors.take().filter(|_| has_failed).unwrap_or_default();
            entry.selectors.insert(known.into_iter().chain(selected.keys().cloned()).collect()).clone()
        });
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
        let found = self.call("get", asked, |found| found.as_ref().err()).await;
        matches!(found, Ok(Ok(None)))
    }

    /// The cloud has what the Service asks for: only the Service may not say so. Without `ingress` nothing is to be said.
    pub(crate) async fn adopt(&self, key: &Key, mut job: Job, ingress: Option<Vec<Ingress>>) -> Verdict {
        if let Some(verdict) = self.guard(key, &mut job, false).await {
            return verdict;
        }
        let Some(ingress) = ingress else { return Verdict::Done };
        self.memory.with(key, |entry| entry.found = None);
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

    /// Sees to it that the Service has the finalizer and nothing that leads to the load balancer of another one; and, if anything
    /// may `change`, that it does not say of what is half-changed that all is well. Returns how it ended, if it did.
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
        let takes_over = taken_over.is_some() && !is_new && matches!(job.step, Step::Update | Step::Ensure { .. });
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
            Ok(Written::Changed(written)) => job.service = self.memory.wrote(key, *written),
            Ok(Written::Nothing) => {}
            Ok(Written::Gone) => return Some(Verdict::Done),
            Err(error) => return Some(self.not_served(key, job, SyncError::Api { task, error }).await),
        }
        None
    }

    /// A call has ended, or need not be made: writes down what has come of it.
    async fn ended(&self, key: &Key, mut job: Job, task: Task, outcome: Outcome) -> Verdict {
        let descriptor = Arc::clone(&job.provider.descriptor);
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
        self.memory.with(key, |entry| {
            if entry.announced == Some(written_for) {
                entry.announced = Some(job.purpose());
            }
        });
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
        self.memory.with(key, |entry| entry.is_elsewhere = true);
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
        self.report(key, &job.service, &job.tried(backends), warning, &error).await
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
            by: job.by.clone(),
        };
        annotations.extend(super::annotations::done(&job.service).map(|name| (name, None)));
        let (readiness, answered) = (Some(Readiness::ensured()), job.request.clone());
        let changes = Changes { annotations, ingress, readiness, record: Some(record.clone()), answered };
        let is_news = match self.writer.set(&job.service, &changes).await {
            Ok(Written::Changed(written)) => {
                drop(self.memory.wrote(key, *written));
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
                self.memory.with(key, |entry| entry.unsaid = unsaid);
                let error = SyncError::Api { task: Task::WriteStatus, error };
                return self.not_served(key, &job, error).await;
            }
        };
        self.memory.recorded(key, record);
        self.memory.with(key, |entry| {
            entry.succeeded();
            entry.unwritten.clear();
            if job.is_repair {
                entry.repaired = Some(Instant::now());
            }
        });
        self.memory.not_ready(key, None);
        self.memory.waits(key, false);
        if let Some(wanted) = self.memory.with(key, |entry| entry.wanted.take()).flatten() {
            self.metrics.address_delay.observe(wanted.elapsed().as_secs_f64());
        }
        match task {
            // Asked for once more after a restart, and the same.
            Task::Update if !is_news => {}
            Task::Update if job.backends.list.is_empty() => self.no_backends(key, &job.service).await,
            Task::Update => {
                let message = "Updated load balancer with new hosts".into();
                self.tell(&job.service, Severity::Normal, "UpdatedLoadBalancer", message).await;
            }
            Task::Ensure | Task::EnsureHosts => {
                self.tell(&job.service, Severity::Normal, "EnsuredLoadBalancer", "Ensured load balancer".into()).await;
            }
            _ => {}
        }
        Verdict::Done
    }

    /// Tells the Service why it waits, with whatever the provider wants to find again. When that cannot be written, it is kept
    /// in memory until it can. Returns whether the Service says something new now.
    pub(crate) async fn note(&self, key: &Key, service: &Service, tried: &Tried<'_>, error: &SyncError) -> bool {
        let Some(readiness) = Readiness::failed(error) else { return false };
        self.memory.not_ready(key, Some(readiness.reason));
        let known = self.memory.with(key, |entry| {
            let recorded = entry.recorded.clone();
            (entry.unwritten.clone(), entry.doubt, entry.condition, entry.owned.then_some(entry.member), recorded)
        });
        let Some((annotations, doubt, condition, holder, recorded)) = known else { return false };
        let before = Record::of(service);
        let is_replaced = recorded.is_some_and(|recorded| before.as_ref().is_none_or(|old| !old.is_like(&recorded)));
        let record = tried.provider.filter(|provider| holder == Some(provider.member)).and_then(|provider| {
            let descriptor = &provider.descriptor;
            let wrote = (!annotations.is_empty() && !self.is_anothers(key, service, provider))
                .then(|| written_after(service, descriptor, &annotations));
            // A call may have changed something before it failed.
            let by = if doubt == Doubt::None { Writers::default() } else { Writers::only(&provider.component) };
            let Some(record) = before else {
                // What was written here is not to look as if others had.
                let seen = if is_foreign(service) { vec![] } else { ingress(service) };
                let addresses = fingerprint::addresses(&seen);
                let begun = |wrote| Record { by, ..Record::begun(&descriptor.name, service, addresses, wrote) };
                return wrote.map(begun);
            };
            // What failed half-way is not what was recorded, even if the Service goes back to that.
            let (spec, backends) = match doubt {
                Doubt::None if !is_replaced => (record.spec, record.backends),
                Doubt::Backends if !is_replaced => (record.spec, None),
                _ => (None, None),
            };
            let by = record.by.clone().and(&by);
            Some(Record { spec, backends, written: wrote.or(record.written), by, ..record })
        });
        // A message can hold a time or a share that is another one at each try; what is not tried again says what it says.
        let is_tried = error.reaction() != Reaction::Invalid.as_str();
        let young = is_tried
            && condition.is_some_and(|(of, at)| of == tried.purpose && at.elapsed() < self.settings.condition_interval);
        let readiness = match readiness.differs(service) {
            Difference::None => None,
            Difference::Message if young => None,
            Difference::Message | Difference::Other => Some(readiness),
        };
        let is_news = readiness.is_some();
        let changes = Changes { annotations, readiness, record: record.clone(), ..Changes::default() };
        match self.writer.set(service, &changes).await {
            Ok(Written::Gone) => false,
            Ok(written) => {
                if let Written::Changed(written) = written {
                    drop(self.memory.wrote(key, *written));
                    if let Some(record) = record {
                        self.memory.recorded(key, record);
                    }
                }
                self.memory.with(key, |entry| {
                    entry.unwritten.clear();
                    if is_news {
                        entry.condition = Some((tried.purpose, Instant::now()));
                    }
                });
                is_news
            }
            Err(error) => {
                tracing::warn!(%error, "cannot write why the load balancer is not ready");
                false
            }
        }
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
        let unwritten = self.memory.with(key, |entry| {
            entry.unwritten.extend(known);
            entry.unwritten.clone()
        });
        unwritten.unwrap_or_default()
    }

    /// The cluster itself has no Node for load balancers: this is known, since the list of Nodes is complete.
    async fn no_backends(&self, key: &Key, service: &Service) {
        let message = "There are no available nodes for LoadBalancer";
        if self.is_news(key, message) {
            self.tell(service, Severity::Warning, "UnAvailableLoadBalancer", message.into()).await;
        }
    }
}

fn log_names(job: &Job, error: &SyncError) {
    let names: Vec<&str> = job.backends.list.iter().take(MAX_NAMES).map(|backend| backend.name.as_str()).collect();
    tracing::debug!(%error, first = ?names, hosts = job.backends.list.len(), "hosts not updated");
}
