//! One Service, once: decides what is to be done, waits for its turn, and does it.
//!
//! Everything is decided from the newest state, never from what has changed: it does not matter what woke the Service, and a
//! change while it waits or while the cloud works counts at the next run, which follows at once.

use std::collections::BTreeSet;
use std::sync::Arc;

use ccm_cloud::{Descriptor, Failure, LoadBalancers, Reaction, Severity, Standing};
use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt as _;
use kube::runtime::reflector::Store;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Duration, Instant, timeout};

use super::annotations::{ENSURE, annotation, set};
use super::asked::Asked;
use super::backends::{Backends, Current, Seen};
use super::claims::Claims;
use super::condition::{self, Difference, Readiness};
use super::error::{SyncError, Task};
use super::fingerprint::{self, Target};
use super::living::Living;
use super::locks::{Held, Locks};
use super::memory::{Doubt, Entry, Key, Memory, Purpose, Unsaid};
use super::metrics::ServiceMetrics;
use super::offer::Offer;
use super::ownership::{Stranded, Work};
use super::predicates::{has_finalizer, is_load_balancer};
use super::record::Record;
use super::step::{Step, step};
use super::view::{ingress, told};
use super::write::ServiceWriter;
use super::{LoadBalancerMember, ServiceSettings};
use crate::events::{EventRecorder, EventRequest, service_reference};
use crate::queue::Verdict;
use crate::reaction::{self, MIN_SLOW_RETRY};

/// Upstream's name of this controller in Events.
const REPORTER: &str = "service-controller";

/// Reason and beginning of the usual warning, as upstream.
pub(crate) const NOT_SYNCED: (&str, &str) = ("SyncLoadBalancerFailed", "Error syncing load balancer");

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
    pub(crate) metrics: ServiceMetrics,
    pub(crate) settings: ServiceSettings,
}

/// A Service that wants a load balancer, as it is now.
pub(crate) struct Job {
    pub(crate) member: usize,
    pub(crate) service: Arc<Service>,
    pub(crate) view: ccm_cloud::Service,
    pub(crate) wrong: Option<Failure>,
    pub(crate) backends: Arc<Backends>,
    pub(crate) target: Target,
    pub(crate) step: Step,
    /// "Once more, please": what this work answers.
    pub(crate) request: Option<String>,
    /// It is the Service's status that is wrong: all is recorded as ensured.
    pub(crate) is_repair: bool,
    /// Nobody knows yet what the provider's annotations lead to.
    pub(crate) is_undecided: bool,
    /// They lead to the load balancer of another Service.
    pub(crate) is_anothers: bool,
    /// The last try at it failed.
    pub(crate) has_failed: bool,
    /// The provider as it was when this was decided: another component may be there before the work ends.
    pub(crate) asked: Asked,
}

impl Job {
    /// Whoever asks for it once more does not wait for another try at the same.
    pub(crate) fn purpose(&self) -> Purpose {
        let spec = self.target.spec;
        let again = self.request.as_ref().map(|value| fingerprint::Digest::of(&(spec.to_string(), value)));
        Purpose::Serve(again.unwrap_or(spec))
    }
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

    /// A member by its index.
    pub(crate) fn provider(&self, member: usize) -> Option<&dyn LoadBalancers> {
        self.members.get(member).map(|member| &*member.provider)
    }

    /// What serving a Service comes to now. None when it is not to be served by `member` any more.
    pub(crate) fn job(&self, key: &Key, member: usize) -> Option<Job> {
        let service = self.memory.newest(key, self.store.get(key)?);
        if self.work(key, &service) != Work::Serve(member) {
            return None;
        }
        let provider = self.provider(member)?;
        let (doubt, standing, unsaid, recorded, has_failed) = self.memory.with(key, |entry| {
            (entry.doubt, entry.standing.clone(), entry.unsaid.clone(), entry.recorded.clone(), entry.has_failed())
        })?;
        let selectors = self.memory.with(key, |entry| entry.selectors.clone()).flatten();
        let backends = self.backends.get();
        let asked = Asked::of(provider);
        let offer = self.offer(key, &service, &asked.descriptor);
        let is_anothers = self.is_anothers(key, &service, &asked.descriptor);
        let (view, wrong) = self.view(key, &service, &asked.descriptor);
        let spec = asked.spec(&view, wrong.as_ref().map(ToString::to_string).as_deref());
        let chosen = selectors.as_ref().map_or(backends.digest, |selectors| self.backends.target(&backends, selectors));
        let target = Target { spec, backends: chosen };
        let record = Record::of(&service).filter(|record| record.provider == asked.descriptor.name);
        let hosts = record.as_ref().and_then(|record| record.backends);
        let is_open = selectors.is_none() && backends.may_be_chosen(hosts, provider.selects_nodes());
        let standing = standing.filter(|(found_for, _)| *found_for == target).map(|(_, standing)| standing);
        let standing = standing.filter(|standing| !is_open || !matches!(standing, Standing::InStep(_)));
        let is_told = Readiness::ensured().differs(&service) == Difference::None;
        let is_recorded = doubt == Doubt::None
            && recorded
                .as_ref()
                .or(record.as_ref())
                .is_some_and(|record| (record.spec, record.backends) == (Some(spec), Some(target.backends)));
        // Somebody who may write the status has put another record there, or none; somebody asks for it; or it has the mark of
        // another Service, whatever else is as it should be.
        let is_replaced = recorded.is_some() && recorded != record;
        let request = annotation(&service, ENSURE).map(ToOwned::to_owned);
        let is_asked = request.is_some();
        let is_taken_over = record.as_ref().is_some_and(|record| record.taken_over.is_some());
        let is_marked = is_taken_over || matches!(&offer, Some(Offer::Free { uid: Some(_), .. }));
        let doubt = if is_replaced || is_asked || is_marked { Doubt::All } else { doubt };
        let is_undecided = offer.is_none();
        let is_known = standing.is_none() && unsaid.is_none();
        let is_answered = |unsaid: &Unsaid| unsaid.target == target && (!is_asked || unsaid.request == request);
        let step = match unsaid.filter(is_answered) {
            Some(unsaid) => Step::Adopt(unsaid.ingress),
            None => step(record.as_ref(), doubt, target, standing, &view.ingress, is_told),
        };
        let is_repair = is_recorded && is_known && !is_asked && step != Step::Nothing;
        Some(Job {
            member,
            service,
            view,
            wrong,
            backends,
            target,
            step,
            request,
            is_repair,
            is_undecided,
            is_anothers,
            has_failed,
            asked,
        })
    }

    /// A Service as a provider is told, with the annotations that could not be written yet; and what is wrong with it.
    pub(crate) fn view(
        &self,
        key: &Key,
        service: &Service,
        descriptor: &Descriptor,
    ) -> (ccm_cloud::Service, Option<Failure>) {
        let (mut view, wrong) = told(service, descriptor, self.is_anothers(key, service, descriptor));
        for (name, value) in self.memory.with(key, |entry| entry.unwritten.clone()).unwrap_or_default() {
            set(&mut view.annotations, name, value);
        }
        (view, wrong)
    }

    async fn serve(&self, key: &Key, member: usize) -> Verdict {
        let Some(mut job) = self.job(key, member) else { return Verdict::After(Duration::ZERO) };
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
        let _turn = match self.turn(member, &job.view).await {
            Ok(turn) => turn,
            Err(error) => return Box::pin(self.not_served(key, &job, error)).await,
        };
        // Waiting has taken its time. What holds now is what counts; another target waits for its own turn.
        let seen = self.backends.seen();
        let Some(now) = self.job(key, member).filter(|now| now.target.spec == job.target.spec) else {
            return Verdict::After(Duration::ZERO);
        };
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
        self.tell_offer(key, &job.service, &job.asked.descriptor).await;
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

    fn must_wait(&self, key: &Key, job: &Job) -> Option<Verdict> {
        self.memory.with(key, |entry| entry.must_wait(job.purpose(), Some(job.target.backends))).flatten()
    }

    /// Waits until nobody else changes the same things, then for a place among those who work.
    pub(crate) async fn turn(&self, member: usize, view: &ccm_cloud::Service) -> Result<Turn<'_>, SyncError> {
        let Some(provider) = self.provider(member) else {
            let failure = Failure::new(Reaction::Retry, "the provider is not there any more");
            return Err(SyncError::Cloud { task: Task::Lock, failure });
        };
        let names = self.call("locks", provider.locks(view.clone()), |answer| answer.as_ref().err()).await;
        let names = names.and_then(|names| names).map_err(|failure| SyncError::Cloud { task: Task::Lock, failure })?;
        // Two providers may use the same word for different things.
        let names: BTreeSet<String> = names.into_iter().map(|name| format!("{member}/{name}")).collect();
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

    /// A try to serve a Service has failed: says so in Events, and when the next one is.
    pub(crate) async fn not_served(&self, key: &Key, job: &Job, error: SyncError) -> Verdict {
        self.report(key, &job.service, job.purpose(), None, NOT_SYNCED, &error).await
    }

    /// A try has failed, or the cloud is still at work: says so on the Service and in Events, and when the next one is.
    /// `backends` are those of the try, if others do not wait for the next one; a `warning` is its reason and what has failed.
    pub(crate) async fn report(
        &self,
        key: &Key,
        service: &Service,
        purpose: Purpose,
        backends: Option<fingerprint::Digest>,
        warning: (&str, &str),
        error: &SyncError,
    ) -> Verdict {
        if error.needs_ensure() {
            self.memory.with(key, |entry| {
                entry.doubt = Doubt::All;
                entry.hosts_refused = (error.reaction() == Reaction::Invalid.as_str()).then_some(purpose);
            });
        }
        let is_noted = self.note(key, service, purpose, error).await;
        let verdict = self.later(key, purpose, backends, error);
        // The condition does not stand in what `kubectl describe` shows of a Service.
        if is_noted && error.is_pending() && self.is_news(key, &condition::told(error, "")) {
            let message = condition::told(error, &format!("looked at again{}", after(verdict)));
            self.tell(service, Severity::Normal, "LoadBalancerPending", message).await;
        }
        self.warn(key, service, warning, error.next_try(), error, verdict).await;
        verdict
    }

    /// When the next try is. `backends` are those of this one, if others do not wait for it.
    pub(crate) fn later(
        &self,
        key: &Key,
        purpose: Purpose,
        backends: Option<fingerprint::Digest>,
        error: &SyncError,
    ) -> Verdict {
        self.later_at(key, purpose, backends, error, error.verdict(self.settings.slow_retry))
    }

    /// As [`later`](Self::later), with another verdict than the usual one.
    pub(crate) fn later_at(
        &self,
        key: &Key,
        purpose: Purpose,
        backends: Option<fingerprint::Digest>,
        error: &SyncError,
        verdict: Verdict,
    ) -> Verdict {
        let queue = &self.settings.queue;
        tracing::debug!(%error, reaction = error.reaction(), ?verdict, "not done");
        let failed = |entry: &mut Entry| entry.failed(purpose, backends, error.is_pending(), verdict, queue);
        self.memory.with(key, failed).unwrap_or(verdict)
    }

    /// Warns of a failure, unless the same was said lately: `next` says what comes next in words that are the same each time,
    /// `verdict` when.
    pub(crate) async fn warn(
        &self,
        key: &Key,
        service: &Service,
        (reason, what): (&str, &str),
        next: Option<&str>,
        error: &SyncError,
        verdict: Verdict,
    ) {
        if !error.deserves_warning() {
            return;
        }
        let usual = || reaction::describe(error.verdict(self.settings.slow_retry));
        if !self
            .is_news(key, &format!("{what}: {}", condition::told(error, &next.map_or_else(usual, ToOwned::to_owned))))
        {
            return;
        }
        let next = match (next, verdict) {
            (Some(next), Verdict::After(_)) => format!("{next}, next{}", after(verdict)),
            (None, Verdict::After(_)) => format!("tried again{}", after(verdict)),
            (next, _) => next.map_or_else(usual, ToOwned::to_owned),
        };
        let message = format!("{what}: {}", condition::told(error, &next));
        let retry_in = if let Verdict::After(delay) = verdict { Some(delay) } else { None };
        tracing::warn!(error = message, ?retry_in, "load balancer not synced");
        self.tell(service, Severity::Warning, reason, message).await;
    }

    /// Whether a warning was not given lately.
    pub(crate) fn is_news(&self, key: &Key, message: &str) -> bool {
        let repeat = self.settings.repeat_warning;
        self.memory.with(key, |entry| entry.warnings.is_news(message, repeat)).unwrap_or(true)
    }

    /// Says once what is going to be done.
    pub(crate) async fn announce(&self, key: &Key, service: &Service, purpose: Purpose) {
        let before = self.memory.with(key, |entry| entry.announced.replace(purpose)).flatten();
        let is_same = match (before, purpose) {
            (Some(Purpose::Delete(_)), Purpose::Delete(_)) => true,
            (before, purpose) => before == Some(purpose),
        };
        if is_same {
            return;
        }
        let (reason, message) = match purpose {
            Purpose::Serve(_) => ("EnsuringLoadBalancer", "Ensuring load balancer"),
            Purpose::Delete(_) => ("DeletingLoadBalancer", "Deleting load balancer"),
        };
        self.tell(service, Severity::Normal, reason, message.into()).await;
    }

    async fn drifted(&self, service: &Service, drift: String) {
        self.metrics.drifted.inc();
        tracing::warn!(drift, "load balancer is not as it was made");
        self.tell(service, Severity::Warning, "LoadBalancerDrifted", drift).await;
    }

    /// Queues an Event about a Service.
    pub(crate) async fn tell(&self, service: &Service, severity: Severity, reason: &str, message: String) {
        let metadata = &service.metadata;
        let part = |part: &Option<String>| part.clone().unwrap_or_default();
        let about = service_reference(&part(&metadata.namespace), &service.name_any(), &part(&metadata.uid));
        let (reason, action, annotations) = (reason.into(), "SyncLoadBalancer", Default::default());
        let request = EventRequest { about, severity, reason, action, message, reporter: REPORTER, annotations };
        self.recorder.record(request).await;
    }
}

/// When something is done again, for people.
fn after(verdict: Verdict) -> String {
    match verdict {
        Verdict::After(delay) => format!(" in {:.0} s", delay.as_secs_f64().ceil()),
        _ => String::new(),
    }
}
