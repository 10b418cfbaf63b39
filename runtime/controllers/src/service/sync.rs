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

use super::backends::{Backends, Current};
use super::condition::{self, Difference, Readiness};
use super::error::{SyncError, Task};
use super::fingerprint::{self, Record, Target};
use super::locks::{Held, Locks};
use super::memory::{Doubt, Entry, Key, Memory, Purpose};
use super::metrics::ServiceMetrics;
use super::ownership::Work;
use super::predicates::{has_finalizer, is_load_balancer};
use super::view::{as_stored, ingress, told};
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
    pub(crate) metrics: ServiceMetrics,
    pub(crate) settings: ServiceSettings,
}

/// What serving comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// All is as it was ensured.
    Nothing,
    /// The cloud has it as the Service asks for; only the Service does not say so.
    Adopt(Vec<ccm_cloud::Ingress>),
    /// Nothing but the backends differs.
    Update,
    /// Anything differs, or nobody knows.
    Ensure {
        /// What was found in the cloud that should not be so.
        drift: Option<String>,
    },
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
    /// It is the Service's status that is wrong: all is recorded as ensured.
    pub(crate) is_repair: bool,
    /// The provider as it was when this was decided: another component may be there before the work ends.
    pub(crate) asked: Asked,
}

/// What a provider says of itself that decides whether its work is done.
pub(crate) struct Asked {
    pub(crate) descriptor: Arc<Descriptor>,
    configuration: String,
}

impl Asked {
    fn of(provider: &dyn LoadBalancers) -> Self {
        Self { descriptor: provider.descriptor(), configuration: provider.configuration() }
    }

    /// What a Service comes to for this provider.
    pub(crate) fn spec(&self, view: &ccm_cloud::Service, wrong: Option<&str>) -> fingerprint::Digest {
        fingerprint::spec(view, wrong, &self.descriptor, &self.configuration)
    }

    /// Whether another component has taken its place, or another configuration.
    pub(crate) fn is_past(&self, provider: &dyn LoadBalancers) -> bool {
        let (then, now) = (&self.descriptor, provider.descriptor());
        (&then.name, &then.revision, &self.configuration) != (&now.name, &now.revision, &provider.configuration())
    }
}

impl Job {
    pub(crate) const fn purpose(&self) -> Purpose {
        Purpose::Serve(self.target.spec)
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
            Work::Stranded(member) => {
                self.memory.enter(key, &service, member, false);
                self.memory.waits(key, is_load_balancer(&service) && ingress(&service).is_empty());
                Box::pin(self.stranded(key, &service)).await
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
        let (doubt, standing, unsaid) =
            self.memory.with(key, |entry| (entry.doubt, entry.standing.clone(), entry.unsaid.clone()))?;
        let backends = self.backends.get();
        let asked = Asked::of(provider);
        let (view, wrong) = self.view(key, &service, &asked.descriptor);
        let spec = asked.spec(&view, wrong.as_ref().map(ToString::to_string).as_deref());
        let target = Target { spec, backends: backends.digest };
        let record = Record::of(&service).filter(|record| record.provider == asked.descriptor.name);
        let standing = standing.filter(|(found_for, _)| *found_for == target).map(|(_, standing)| standing);
        let is_told = Readiness::ensured().differs(&service) == Difference::None
            && record.as_ref().is_some_and(|record| record.addresses.is_some());
        let is_recorded = doubt == Doubt::None
            && record
                .as_ref()
                .is_some_and(|record| (record.spec, record.backends) == (Some(spec), Some(backends.digest)));
        let is_known = standing.is_none() && unsaid.is_none();
        let step = match unsaid.filter(|unsaid| unsaid.target == target) {
            Some(unsaid) => Step::Adopt(unsaid.ingress),
            None => step(record.as_ref(), doubt, target, standing, &view.ingress, is_told),
        };
        let is_repair = is_recorded && is_known && step != Step::Nothing;
        Some(Job { member, service, view, wrong, backends, target, step, is_repair, asked })
    }

    /// A Service as a provider is told, with the annotations that could not be written yet; and what is wrong with it.
    pub(crate) fn view(
        &self,
        key: &Key,
        service: &Service,
        descriptor: &Descriptor,
    ) -> (ccm_cloud::Service, Option<Failure>) {
        let (mut view, wrong) = told(service, descriptor);
        for (name, value) in self.memory.with(key, |entry| entry.unwritten.clone()).unwrap_or_default() {
            set(&mut view.annotations, name, value);
        }
        (view, wrong)
    }

    async fn serve(&self, key: &Key, member: usize) -> Verdict {
        let Some(job) = self.job(key, member) else { return Verdict::After(Duration::ZERO) };
        if let Some(wait) = self.must_wait(key, &job) {
            return wait;
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
        let turn = match &job.wrong {
            Some(failure) => Err(SyncError::Cloud { task: Task::Read, failure: failure.clone() }),
            None => self.turn(member, &job.view).await,
        };
        let _turn = match turn {
            Ok(turn) => turn,
            Err(error) => return Box::pin(self.not_served(key, &job, error)).await,
        };
        // Waiting has taken its time. What holds now is what counts; another target waits for its own turn.
        let Some(now) = self.job(key, member).filter(|now| now.target.spec == job.target.spec) else {
            return Verdict::After(Duration::ZERO);
        };
        let task = if now.step == Step::Update { Task::Update } else { Task::Ensure };
        match Box::pin(self.in_time(task, self.take(key, now))).await {
            Ok(verdict) => verdict,
            Err(error) => Box::pin(self.not_served(key, &job, error)).await,
        }
    }

    async fn take(&self, key: &Key, job: Job) -> Verdict {
        self.memory.with(key, |entry| entry.tried = Some(job.target.backends));
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
        let (purpose, backends) = (job.purpose(), job.target.backends);
        let is_there = !job.view.ingress.is_empty();
        let wait = |entry: &mut Entry| {
            let follows = is_there && entry.may_follow(purpose, backends);
            entry.must_wait(purpose, Some(backends)).filter(|_| !follows)
        };
        self.memory.with(key, wait).flatten()
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
    /// `backends` are those that are to blame, if they are; a `warning` is its reason and what has failed.
    pub(crate) async fn report(
        &self,
        key: &Key,
        service: &Service,
        purpose: Purpose,
        backends: Option<fingerprint::Digest>,
        warning: (&str, &str),
        error: &SyncError,
    ) -> Verdict {
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

    /// When the next try is. `backends` are those that are to blame, if they are.
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
        let failed = |entry: &mut Entry| {
            let verdict = if error.is_pending() { entry.patiently(purpose, verdict) } else { verdict };
            entry.failed(purpose, backends, verdict, queue)
        };
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
        let action = "SyncLoadBalancer";
        let request = EventRequest { about, severity, reason: reason.into(), action, message, reporter: REPORTER };
        self.recorder.record(request).await;
    }
}

/// What serving comes to. `ingress` is what the status says, as far as it was written here; `is_told` whether it says besides that
/// all is well.
fn step(
    record: Option<&Record>,
    doubt: Doubt,
    target: Target,
    standing: Option<Standing>,
    ingress: &[ccm_cloud::Ingress],
    is_told: bool,
) -> Step {
    let same_spec = doubt < Doubt::All && record.is_some_and(|record| record.spec == Some(target.spec));
    let same_backends =
        doubt < Doubt::Backends && record.is_some_and(|record| record.backends == Some(target.backends));
    let unchanged = same_spec && same_backends;
    let drift = |drift: String| Step::Ensure { drift: unchanged.then_some(drift) };
    match standing {
        Some(Standing::InStep(found)) if unchanged && as_stored(&found) == as_stored(ingress) => {}
        Some(Standing::InStep(found)) if doubt == Doubt::None && !found.is_empty() => return Step::Adopt(found),
        Some(Standing::Differs(what)) => {
            return drift(format!("the cloud differs from the Service: {}", what.join("; ")));
        }
        Some(Standing::Missing) => return drift("the cloud has no such load balancer any more".into()),
        Some(Standing::InStep(_) | Standing::Unknown(_)) | None => {}
    }
    match (same_spec, same_backends) {
        // Whatever was ensured has an address: somebody took it out of the status, or wrote another one.
        _ if ingress.is_empty() => Step::Ensure { drift: None },
        (true, true) if is_told => Step::Nothing,
        (true, true) => Step::Adopt(ingress.to_vec()),
        (true, false) => Step::Update,
        (false, _) => Step::Ensure { drift: None },
    }
}

/// When something is done again, for people.
fn after(verdict: Verdict) -> String {
    match verdict {
        Verdict::After(delay) => format!(" in {:.0} s", delay.as_secs_f64().ceil()),
        _ => String::new(),
    }
}

/// Sets a value, or removes it.
pub(crate) fn set(annotations: &mut ccm_cloud::Attributes, name: String, value: Option<String>) {
    match value {
        Some(value) => drop(annotations.insert(name, value)),
        None => drop(annotations.remove(&name)),
    }
}
