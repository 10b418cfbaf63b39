//! Judges a Service before the API server takes it: what the provider that would make its load balancer says of it.
//!
//! Nothing but a clear no denies: whoever cannot be asked, does not answer in time or fails must not keep anybody from
//! changing a Service. Such a Service is let through with a warning, and the service controller has its say afterwards.

mod metrics;
mod outcome;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use ccm_apiserver::cut;
use ccm_cloud::{Descriptor, Failure, Problem, Reaction, is_plain};
use k8s_openapi::api::core::v1::Service;
use kube::runtime::reflector::ObjectRef;
use parking_lot::RwLock;
use tokio::time::timeout;

pub use metrics::AdmissionMetrics;
pub use outcome::AdmissionOutcome;

use crate::object_name::ObjectName as _;
use crate::service::provider::Provider;
use crate::service::{LoadBalancerMembers, ownership, unknown_annotations, view};
use crate::view::service::{is_deleting, is_load_balancer};

/// Most problems that are told of one Service.
const MAX_PROBLEMS: usize = 16;
/// Most bytes of one: the API server may cut longer warnings.
const MAX_PROBLEM: usize = 256;
/// The same in a denial.
const MAX_REASON: usize = 1_024;

/// What the API server is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ruling {
    /// What became of it.
    pub outcome: AdmissionOutcome,
    /// Why it is denied, if it is.
    pub denial: Option<String>,
    /// For whoever changes the Service: what has no effect, or why nobody judged it.
    pub warnings: Vec<String>,
}

impl Ruling {
    const fn silent(outcome: AdmissionOutcome) -> Self {
        Self { outcome, denial: None, warnings: vec![] }
    }

    fn unjudged(why: &str) -> Self {
        let warning = format!("the load balancer was not checked, and the Service is let through: {why}");
        Self { warnings: vec![readable(&warning, MAX_PROBLEM)], ..Self::silent(AdmissionOutcome::Unjudged) }
    }

    fn of(problems: Vec<Problem>) -> Self {
        let (fatal, others): (Vec<_>, Vec<_>) = problems.into_iter().partition(|problem| problem.fatal);
        let tell = |problem: &Problem, most| readable(&format!("{}: {}", problem.field, problem.message), most);
        let warnings = others.iter().take(MAX_PROBLEMS).map(|problem| tell(problem, MAX_PROBLEM)).collect();
        if fatal.is_empty() {
            return Self { warnings, ..Self::silent(AdmissionOutcome::Valid) };
        }
        let mut told: Vec<_> = fatal.iter().take(MAX_PROBLEMS).map(|problem| tell(problem, MAX_REASON)).collect();
        if let Some(more) = fatal.len().checked_sub(MAX_PROBLEMS).filter(|more| *more > 0) {
            told.push(format!("and {more} more"));
        }
        Self { outcome: AdmissionOutcome::Denied, denial: Some(told.join("; ")), warnings }
    }
}

/// What a provider or a cloud wrote, on one line.
fn readable(text: &str, most: usize) -> String {
    let line: String = text.chars().map(|c| if is_plain(c) { c } else { ' ' }).collect();
    match line.len() > most {
        true => format!("{}…", cut(&line, most.saturating_sub('…'.len_utf8()))),
        false => line,
    }
}

/// Judges Services. Every replica can: nothing is changed, neither here nor in the cloud.
pub struct ServiceAdmission {
    /// None before there is a provider.
    members: RwLock<Option<Arc<LoadBalancerMembers>>>,
    online: bool,
    metrics: AdmissionMetrics,
}

impl ServiceAdmission {
    /// Knows no provider yet. `online` lets providers ask their clouds.
    #[must_use]
    pub const fn new(online: bool, metrics: AdmissionMetrics) -> Self {
        Self { members: RwLock::new(None), online, metrics }
    }

    /// The providers are there, all at once: before, whose a Service is cannot be told. The last call counts.
    pub fn serve(&self, members: LoadBalancerMembers) {
        *self.members.write() = Some(Arc::new(members));
    }

    /// Judges a Service; `before` is the Service as it was. Takes no longer than `limit`.
    pub async fn review(&self, service: &Service, before: Option<&Service>, limit: Duration) -> Ruling {
        let ruling = self.rule(service, before, limit).await;
        self.metrics.reviewed(ruling.outcome);
        let object = || ObjectRef::from_obj(service).object_name();
        match (&ruling.denial, ruling.outcome) {
            (Some(why), _) => tracing::info!(object = object(), why, "Service denied"),
            (None, AdmissionOutcome::Unjudged) => {
                let why = ruling.warnings.join("; ");
                tracing::warn!(object = object(), why, "Service let through unchecked");
            }
            (None, _) => {}
        }
        ruling
    }

    async fn rule(&self, service: &Service, before: Option<&Service>, limit: Duration) -> Ruling {
        let wants = |service: &Service| is_load_balancer(service) && !is_deleting(service);
        if !wants(service) {
            return Ruling::silent(AdmissionOutcome::Foreign);
        }
        let Some(members) = self.members.read().clone() else { return Ruling::unjudged("no provider is loaded yet") };
        // What it was before it wanted a load balancer is no wish.
        let before = before.filter(|before| wants(before));
        let owner = ownership::owner(&members, service, before);
        let Some(provider) = owner.and_then(|owner| members.get(&owner).map(|member| member.take(owner))) else {
            return Ruling::silent(AdmissionOutcome::Foreign);
        };
        let unknown = |service| unknown_annotations::unknown(service, &provider.descriptor);
        let (told, now) = (before.map(unknown).unwrap_or_default(), unknown(service));
        let mut ruling = self.judge(&provider, service, before, limit).await;
        if ruling.outcome == AdmissionOutcome::Foreign {
            return ruling;
        }
        // What was there before was told before.
        let news = now.iter().filter(|unknown| !told.contains(unknown));
        ruling.warnings.extend(news.take(MAX_PROBLEMS).map(|unknown| readable(&unknown.message, MAX_PROBLEM)));
        ruling
    }

    async fn judge(&self, provider: &Provider, service: &Service, before: Option<&Service>, limit: Duration) -> Ruling {
        let descriptor = &provider.descriptor;
        let told = |service: &Service| view::told(service, descriptor, false);
        let digest = |(view, wrong): &(ccm_cloud::Service, Option<Failure>)| provider.spec(view, wrong.as_ref());
        let (now, before) = (told(service), before.map(told));
        // Also of one that is wrong: it was so before, and whoever changes a label cannot be made to mend it.
        if before.as_ref().is_some_and(|before| digest(before) == digest(&now)) {
            return Ruling::silent(AdmissionOutcome::Unchanged);
        }
        let (view, wrong) = now;
        if let Some(wrong) = wrong {
            return Ruling::of(vec![fatal(wrong)]);
        }
        let judging = provider.load_balancers.validate(view, before.map(|(view, _)| view), self.online);
        match timeout(limit, judging).await {
            Err(_elapsed) => Ruling::unjudged(&format!("{} gave no answer within {limit:?}", descriptor.name)),
            Ok(answer) => answered(descriptor, answer),
        }
    }
}

fn answered(descriptor: &Descriptor, answer: Result<Vec<Problem>, Failure>) -> Ruling {
    match answer {
        Ok(problems) => Ruling::of(problems),
        Err(failure) => match failure.reaction {
            Reaction::Invalid => Ruling::of(vec![fatal(failure)]),
            Reaction::Elsewhere => Ruling::silent(AdmissionOutcome::Foreign),
            Reaction::Retry
            | Reaction::Throttled
            | Reaction::Pending
            | Reaction::Unauthorized
            | Reaction::Conflict
            | Reaction::Quota
            | Reaction::Unsupported => Ruling::unjudged(&format!("{}: {failure}", descriptor.name)),
        },
    }
}

fn fatal(failure: Failure) -> Problem {
    Problem { field: failure.field.unwrap_or_else(|| "spec".to_owned()), message: failure.message, fatal: true }
}
