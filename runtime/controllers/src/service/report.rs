//! What the Service and people are told: the condition, Events, and the log; and when a try that failed is made again.

use ccm_apiserver::{ApiError, EventRequest, service_reference};
use ccm_cloud::{Reaction, Severity};
use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt as _;
use tokio::time::Duration;

use super::annotations::written_after;
use super::condition::{self, Difference, ReadyCondition};
use super::digest::Digest;
use super::ensured_record::{Record, is_foreign};
use super::entry::{Doubt, Purpose, ServiceEntry};
use super::error::SyncError;
use super::fingerprint;
use super::key::Key;
use super::provider::Provider;
use super::syncer::Syncer;
use super::write::{Changes, Written};
use super::writers::Writers;
use crate::queue::Verdict;
use crate::reaction;
use crate::view::service::ingress;

/// Upstream's name of this controller in Events.
pub(super) const REPORTER: &str = "service-controller";

/// Reason and beginning of the usual warning, as upstream.
pub(crate) const NOT_SYNCED: (&str, &str) = ("SyncLoadBalancerFailed", "Error syncing load balancer");

/// What was tried.
pub(crate) struct Tried<'a> {
    /// With whom, if anybody was asked.
    pub(crate) provider: Option<&'a Provider>,
    pub(crate) purpose: Purpose,
    /// With which backends, if others do not wait for the next try.
    pub(crate) backends: Option<Digest>,
}

/// Tells the Service and people about one Service: its condition, and Events.
#[derive(Clone, Copy)]
pub(crate) struct Reporter<'a> {
    syncer: &'a Syncer,
    key: &'a Key,
    service: &'a Service,
}

impl Syncer {
    /// Who tells about this Service.
    pub(crate) const fn reporter<'a>(&'a self, key: &'a Key, service: &'a Service) -> Reporter<'a> {
        Reporter { syncer: self, key, service }
    }

    /// Whether another component is there by now: it need not wait for what this one could not do, and it need not be said.
    fn is_past(&self, tried: &Tried<'_>) -> bool {
        tried.provider.is_some_and(|provider| self.still(provider).is_none())
    }

    /// When the next try is.
    pub(crate) fn later(&self, key: &Key, tried: &Tried<'_>, error: &SyncError) -> Verdict {
        self.later_at(key, tried, error, error.verdict(self.settings.slow_retry))
    }

    /// As [`later`](Self::later), with another verdict than the usual one.
    pub(crate) fn later_at(&self, key: &Key, tried: &Tried<'_>, error: &SyncError, verdict: Verdict) -> Verdict {
        let queue = &self.settings.queue;
        tracing::debug!(%error, reaction = error.reaction(), ?verdict, "not done");
        if self.is_past(tried) {
            return Verdict::After(Duration::ZERO);
        }
        let failed = self.memory.with(key, |entry| {
            let why = condition::why(error);
            entry.fails(error);
            entry.failed(tried.purpose, tried.backends, error.is_pending(), why, verdict, queue)
        });
        failed.unwrap_or(verdict)
    }
}

impl Reporter<'_> {
    /// A try has failed, or the cloud is still at work: says so on the Service and in Events, and when the next one is. A `warning`
    /// is its reason and what has failed.
    pub(crate) async fn failed(&self, tried: &Tried<'_>, warning: (&str, &str), error: &SyncError) -> Verdict {
        let Self { syncer, key, .. } = *self;
        if error.needs_ensure() {
            let refused = (error.reaction() == Reaction::Invalid.as_str()).then_some(tried.purpose);
            syncer.memory.with(key, |entry| entry.needs_ensure(refused));
        }
        let verdict = syncer.later(key, tried, error);
        let noted = self.note(tried, error, verdict).await;
        if syncer.is_past(tried) {
            return Verdict::After(Duration::ZERO);
        }
        // What waits for a change would not say why before that: an API server that has just started forbids it for a moment.
        let is_passing = |refusal: &ApiError| refusal.is_denied() || refusal.is_unanswered();
        let next = match &noted {
            Err(refusal) if verdict == Verdict::Change && is_passing(refusal) => {
                let (why, soon) = (condition::why(error), syncer.settings.slow_retry.max(reaction::MIN_SLOW_RETRY));
                let (queue, soon) = (&syncer.settings.queue, Verdict::After(soon));
                let failed = |entry: &mut ServiceEntry| {
                    entry.failed(tried.purpose, tried.backends, error.is_pending(), why, soon, queue)
                };
                syncer.memory.with(key, failed).unwrap_or(soon)
            }
            _ => verdict,
        };
        let is_noted = noted.unwrap_or(false);
        // The condition does not stand in what `kubectl describe` shows of a Service.
        if is_noted && error.is_pending() && self.is_news(&condition::told(error, "")) {
            let message = condition::told(error, &format!("checked again{}", after(verdict)));
            self.event(Severity::Normal, "LoadBalancerPending", message).await;
        }
        self.warn(warning, error.next_try(), error, verdict).await;
        next
    }

    /// Tells the Service why it waits, with whatever the provider wants to find again. When that cannot be written, it is kept
    /// in memory until it can. `next` is when it is tried again. Returns whether the Service says something new now.
    ///
    /// # Errors
    ///
    /// It could not be written.
    async fn note(&self, tried: &Tried<'_>, error: &SyncError, next: Verdict) -> Result<bool, ApiError> {
        let Self { syncer, key, service } = *self;
        let Some(readiness) = ReadyCondition::failed(error) else { return Ok(false) };
        syncer.memory.not_ready(key, Some(readiness.reason));
        let interval = syncer.settings.condition_interval;
        let known = syncer.memory.with(key, |entry| {
            let is_told = entry.is_told_lately(tried.purpose, interval);
            (entry.unwritten(), entry.doubt(), is_told, entry.holder(), entry.recorded())
        });
        let Some((annotations, doubt, is_told, holder, recorded)) = known else { return Ok(false) };
        let before = Record::of(service);
        let is_replaced = recorded.is_some_and(|recorded| before.as_ref().is_none_or(|old| !old.is_like(&recorded)));
        let record = tried.provider.filter(|provider| holder == Some(provider.member)).and_then(|provider| {
            let descriptor = &provider.descriptor;
            let wrote = (!annotations.is_empty() && !syncer.is_anothers(key, service, provider))
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
        // A message can hold a time or a share that is another one at each try. What is tried much later, or not at all, says what it
        // says: nobody would write it until then.
        let young = is_told && matches!(next, Verdict::After(delay) if delay <= interval);
        let readiness = match readiness.differs(service) {
            Difference::None => None,
            Difference::Message if young => None,
            Difference::Message | Difference::Other => Some(readiness),
        };
        let is_news = readiness.is_some();
        let changes = Changes { annotations, readiness, record: record.clone(), ..Changes::default() };
        match syncer.writer.set(service, &changes).await {
            Ok(Written::Gone) => Ok(false),
            Ok(written) => {
                if let Written::Changed(written) = written {
                    drop(syncer.wrote(key, *written));
                    if let Some(record) = record {
                        syncer.memory.recorded(key, record);
                    }
                }
                let told = is_news.then_some(tried.purpose);
                syncer.memory.with(key, |entry| entry.was_noted(told));
                Ok(is_news)
            }
            Err(error) => {
                tracing::warn!(%error, "cannot write why the load balancer is not ready");
                Err(error)
            }
        }
    }

    /// The Service waits until the load balancer of `old`, which had its name before, is deleted: `kubectl describe` shows nothing of
    /// what becomes of that, since the Service is another one.
    pub(crate) async fn waits_for_predecessor(&self, old: &Service) {
        let Self { syncer, key, service } = *self;
        let why = syncer.memory.with(key, |entry| entry.why().map(ToOwned::to_owned)).flatten();
        let mut message = format!(
            "the load balancer of the Service that had this name before, with UID {}, is deleted first",
            old.metadata.uid.as_deref().unwrap_or_default()
        );
        if let Some(why) = why {
            message.push_str(&format!(", which is tried again: {why}"));
        }
        let repeat = syncer.settings.repeat_warning;
        let is_news = syncer.memory.with(key, |entry| entry.is_wait_news(&message, repeat)).unwrap_or(true);
        let readiness = ReadyCondition { is_ready: false, reason: "CloudPending", message: message.clone() };
        let is_due = match readiness.differs(service) {
            Difference::None => false,
            Difference::Message => is_news,
            Difference::Other => true,
        };
        if is_due {
            let changes = Changes { readiness: Some(readiness), ..Changes::default() };
            if let Err(error) = syncer.writer.set(service, &changes).await {
                tracing::warn!(%error, "cannot write why the load balancer is not ready");
            }
        }
        if !is_news {
            return;
        }
        tracing::warn!("{message}");
        self.event(Severity::Warning, NOT_SYNCED.0, format!("{}: {message}", NOT_SYNCED.1)).await;
    }

    /// Warns of a failure, unless the same was said lately: `next` says what comes next in words that are the same each time,
    /// `verdict` when.
    pub(crate) async fn warn(
        &self,
        (reason, what): (&str, &str),
        next: Option<&str>,
        error: &SyncError,
        verdict: Verdict,
    ) {
        if !error.deserves_warning() {
            return;
        }
        let usual = || reaction::describe(error.verdict(self.syncer.settings.slow_retry));
        if !self.is_news(&format!("{what}: {}", condition::told(error, &next.map_or_else(usual, ToOwned::to_owned)))) {
            return;
        }
        let next = match (next, verdict) {
            (Some(next), Verdict::After(_)) => format!("{next}, next{}", after(verdict)),
            (None, Verdict::After(_)) => format!("retried{}", after(verdict)),
            (next, _) => next.map_or_else(usual, ToOwned::to_owned),
        };
        let message = format!("{what}: {}", condition::told(error, &next));
        let retry_in = if let Verdict::After(delay) = verdict { Some(delay) } else { None };
        tracing::warn!(error = message, retry_in = retry_in.map(tracing::field::debug), "load balancer not synced");
        self.event(Severity::Warning, reason, message).await;
    }

    /// Whether a warning was not given lately.
    pub(crate) fn is_news(&self, message: &str) -> bool {
        let repeat = self.syncer.settings.repeat_warning;
        self.syncer.memory.with(self.key, |entry| entry.is_news(message, repeat)).unwrap_or(true)
    }

    /// Whether the last that was said of annotations which nobody declares is something else.
    pub(crate) fn is_unknown_news(&self, message: &str) -> bool {
        let is_recorded = Record::of(self.service).is_some();
        self.syncer.memory.with(self.key, |entry| entry.is_unknown_news(message, is_recorded)).unwrap_or(false)
    }

    /// Says once what is going to be done.
    pub(crate) async fn announce(&self, purpose: Purpose) {
        let before = self.syncer.memory.with(self.key, |entry| entry.announces(purpose)).flatten();
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
        self.event(Severity::Normal, reason, message.into()).await;
    }

    /// The load balancer is not as it was made.
    pub(crate) async fn drifted(&self, drift: String) {
        self.syncer.metrics.drifted.inc();
        tracing::warn!(drift, "load balancer is not as it was made");
        self.event(Severity::Warning, "LoadBalancerDrifted", drift).await;
    }

    /// The cluster itself has no Node for load balancers: this is known, since the list of Nodes is complete.
    pub(crate) async fn no_backends(&self) {
        let message = "There are no available nodes for LoadBalancer";
        if self.is_news(message) {
            self.event(Severity::Warning, "UnAvailableLoadBalancer", message.into()).await;
        }
    }

    /// Queues an Event.
    pub(crate) async fn event(&self, severity: Severity, reason: &str, message: String) {
        let metadata = &self.service.metadata;
        let part = |part: &Option<String>| part.clone().unwrap_or_default();
        let about = service_reference(&part(&metadata.namespace), &self.service.name_any(), &part(&metadata.uid));
        let (reason, action, annotations) = (reason.into(), "SyncLoadBalancer", Default::default());
        let request = EventRequest { about, severity, reason, action, message, reporter: REPORTER, annotations };
        self.syncer.recorder.record(request).await;
    }
}

/// When something is done again, for people.
fn after(verdict: Verdict) -> String {
    match verdict {
        Verdict::After(delay) => format!(" in {:.0} s", delay.as_secs_f64().ceil()),
        _ => String::new(),
    }
}
