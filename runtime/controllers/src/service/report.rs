//! What the Service and people are told of a try that failed, or of what is going to be done; and when the next try is.

use ccm_cloud::{Reaction, Severity};
use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt as _;
use tokio::time::Duration;

use super::condition;
use super::error::SyncError;
use super::fingerprint::Digest;
use super::job::Job;
use super::memory::{Doubt, Entry, Key, Purpose};
use super::provider::Provider;
use super::sync::Syncer;
use crate::events::{EventRequest, service_reference};
use crate::queue::Verdict;
use crate::reaction;

/// Upstream's name of this controller in Events.
const REPORTER: &str = "service-controller";

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

impl Syncer {
    /// A try to serve a Service has failed: says so in Events, and when the next one is.
    pub(crate) async fn not_served(&self, key: &Key, job: &Job, error: SyncError) -> Verdict {
        self.report(key, &job.service, &job.tried(None), NOT_SYNCED, &error).await
    }

    /// A try has failed, or the cloud is still at work: says so on the Service and in Events, and when the next one is. A `warning`
    /// is its reason and what has failed.
    pub(crate) async fn report(
        &self,
        key: &Key,
        service: &Service,
        tried: &Tried<'_>,
        warning: (&str, &str),
        error: &SyncError,
    ) -> Verdict {
        if error.needs_ensure() {
            self.memory.with(key, |entry| {
                entry.doubt = Doubt::All;
                entry.hosts_refused = (error.reaction() == Reaction::Invalid.as_str()).then_some(tried.purpose);
            });
        }
        let is_noted = self.note(key, service, tried, error).await;
        if self.is_past(tried) {
            return Verdict::After(Duration::ZERO);
        }
        let verdict = self.later(key, tried, error);
        // The condition does not stand in what `kubectl describe` shows of a Service.
        if is_noted && error.is_pending() && self.is_news(key, &condition::told(error, "")) {
            let message = condition::told(error, &format!("looked at again{}", after(verdict)));
            self.tell(service, Severity::Normal, "LoadBalancerPending", message).await;
        }
        self.warn(key, service, warning, error.next_try(), error, verdict).await;
        verdict
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
        let failed =
            |entry: &mut Entry| entry.failed(tried.purpose, tried.backends, error.is_pending(), verdict, queue);
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

    pub(crate) async fn drifted(&self, service: &Service, drift: String) {
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
