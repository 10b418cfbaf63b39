//! The condition `LoadBalancerReady` of a Service: why it waits for its address, and what happens next.
//!
//! `kubectl wait --for=condition=LoadBalancerReady service/NAME`

use ccm_apiserver::cut;
use ccm_cloud::Reaction;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use serde_json::{Value, json};

use super::error::SyncError;

/// Its type.
pub const READY: &str = "LoadBalancerReady";
/// Most bytes of a failure, which leaves room for what is done about it: the same text goes into an Event.
const MAX_ERROR: usize = 800;

/// What the configuration does not serve any more. The condition stays as it is: a restart with a typing error must not write to
/// every Service.
pub(crate) const STRANDED: &str = "Stranded";

/// The reason of the condition for each reaction: what is written, and how it is read again. A Service that is elsewhere has no condition.
const REASON_OF: [(Reaction, &str); 8] = [
    (Reaction::Retry, "CloudFailed"),
    (Reaction::Throttled, "CloudThrottled"),
    (Reaction::Pending, "CloudPending"),
    (Reaction::Unauthorized, "CredentialsRefused"),
    (Reaction::Invalid, "InvalidService"),
    (Reaction::Conflict, "CloudConflict"),
    (Reaction::Quota, "QuotaExceeded"),
    (Reaction::Unsupported, "Unsupported"),
];

/// Reasons of a Service that is not ready.
pub(crate) fn reasons() -> impl Iterator<Item = &'static str> {
    REASON_OF.into_iter().map(|(_, reason)| reason).chain([STRANDED])
}

/// The reaction that a reason of the condition `LoadBalancerReady` comes from. None where it comes from no failure of the cloud.
#[must_use]
pub fn reaction_of(reason: &str) -> Option<Reaction> {
    REASON_OF.into_iter().find(|(_, one)| *one == reason).map(|(reaction, _)| reaction)
}

/// What the condition should say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReadyCondition {
    pub(crate) is_ready: bool,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

impl ReadyCondition {
    pub(crate) fn ensured() -> Self {
        let message = "the load balancer is as this Service asks for".into();
        Self { is_ready: true, reason: "Ensured", message }
    }

    /// None for a failure of the API server, which is not about the load balancer.
    pub(crate) fn failed(error: &SyncError) -> Option<Self> {
        let SyncError::Cloud { failure, .. } = error else { return None };
        let (_, reason) = REASON_OF.into_iter().find(|(reaction, _)| *reaction == failure.reaction)?;
        Some(Self { is_ready: false, reason, message: told(error, error.next_try()?) })
    }

    const fn status(&self) -> &'static str {
        if self.is_ready { "True" } else { "False" }
    }

    /// How it differs from what the Service says.
    pub(crate) fn differs(&self, service: &Service) -> Difference {
        match existing(service, READY).map(|(_, condition)| condition) {
            Some(old) if old.status != self.status() || old.reason != self.reason => Difference::Other,
            Some(old) if old.message != self.message => Difference::Message,
            Some(_) => Difference::None,
            None => Difference::Other,
        }
    }

    /// The entry of `status.conditions`.
    pub(crate) fn entry(&self, service: &Service) -> Value {
        let since = existing(service, READY).filter(|(_, old)| old.status == self.status());
        let since = since.map_or_else(|| Time(Timestamp::now()), |(_, old)| old.last_transition_time.clone());
        let (status, reason, message) = (self.status(), self.reason, &self.message);
        json!({ "type": READY, "status": status, "reason": reason, "message": message, "lastTransitionTime": since })
    }
}

/// How much a condition differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Difference {
    None,
    /// In nothing but its message.
    Message,
    Other,
}

/// The error, its reaction and the next try; or that the cloud is at work, which is no error.
pub(crate) fn told(error: &SyncError, next: &str) -> String {
    if let (true, SyncError::Cloud { failure, .. }) = (error.is_pending(), error) {
        return format!("the cloud is at work: {}: {next}", cut(&failure.to_string(), MAX_ERROR));
    }
    format!("{}: {next}", why(error))
}

/// The error and its reaction.
pub(crate) fn why(error: &SyncError) -> String {
    format!("{} ({})", cut(&error.to_string(), MAX_ERROR), error.reaction())
}

/// The condition that says whether its load balancer is as it asks for. None where nobody has taken care of it.
#[must_use]
pub fn ready_condition(service: &Service) -> Option<&Condition> {
    existing(service, READY).map(|(_, condition)| condition)
}

/// The condition of a type and its place in the list.
pub(crate) fn existing<'a>(service: &'a Service, kind: &str) -> Option<(usize, &'a Condition)> {
    let conditions = service.status.as_ref()?.conditions.as_deref()?;
    conditions.iter().enumerate().find(|(_, condition)| condition.type_ == kind)
}
