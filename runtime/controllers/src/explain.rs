//! What the controllers of this process know of one object: who takes care of it, the last decision and why, the last failure, and the
//! next try. A read-only view of what they remember anyway.
//!
//! | | |
//! |---|---|
//! | cost | one look into each memory by the name of the object, and one question to each queue; passes over all objects only for [`Explainer::troubles`] |
//! | locks | those of the memories, for the time of a copy of one entry; none over a call |
//! | secrets | none: what is said of a failure is what Events and conditions say, redacted where it left the guest |
//! | not known | is not in the answer; a controller that does not run says nothing at all |

use std::fmt;
use std::sync::Arc;

use ccm_cloud::FailedRequest;
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::node::NodeView;
use crate::node_lifecycle::NodeLifecycleView;
use crate::queue::Place;
use crate::service::ServiceView;
use crate::troubles::Troubles;

/// When there is work on an object next.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "when", content = "seconds")]
pub enum Next {
    /// Nobody says.
    #[default]
    Unknown,
    /// It is being worked on, for so many seconds.
    Running(f64),
    /// In so many seconds.
    In(f64),
    /// When the object changes.
    OnChange,
    /// A permanent try that only a change of the object brings forward; looked at in so many seconds all the same.
    OnChangeOr(f64),
}

/// What was decided.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Decision {
    /// What is done, with whom, and why, in one line.
    pub text: String,
    /// How many seconds ago.
    pub seconds_ago: f64,
}

/// A try that failed, or found the cloud at work.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LastTry {
    /// What was tried and what came of it: with operation, status and request ID of the request to the cloud, where it was one.
    pub message: String,
    /// How the host reacts, by the contract's name; `api` and `absent` beside those.
    pub reaction: String,
    /// How many seconds ago.
    pub seconds_ago: f64,
    /// How many tries have failed since the last one that did not; 0 where that is not known.
    pub tries: u32,
    /// The request to the cloud behind it, where the host saw one fail.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<CloudRequest>,
}

/// A request to a cloud that was refused, or that has no answer, as the host saw it. Without secrets.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CloudRequest {
    /// The route with its variables left out, as the provider calls it, such as `POST /v2/load_balancers`.
    pub operation: String,
    /// Such as `POST`.
    pub method: String,
    /// The provider's name of the endpoint.
    pub endpoint: String,
    /// Scheme, host and port, such as `https://api.digitalocean.com`; empty where it was refused before it had any.
    pub origin: String,
    /// Without the query; empty where it was refused before it was looked at.
    pub path: String,
    /// What the cloud answered; none where it did not.
    pub status: Option<u16>,
    /// Why no use could be made of an answer, by the contract's name, such as `timeout` and `connect`.
    pub error: Option<String>,
    /// Why the host sends no more for now, and until when, in words; none where nothing holds it back.
    pub held: Option<String>,
    /// The host's own limit that held it back, by its name for `--limit`; none where that was the cloud's word.
    pub limit: Option<String>,
    /// The ID that the cloud gave the request.
    pub request_id: Option<String>,
    /// How often it was sent, the repetitions of the host included; 0 where it was not.
    pub sent: u32,
    /// How many seconds ago it was over.
    pub seconds_ago: f64,
    /// When that was, in UTC by the clock of the host, such as `2026-11-26T10:00:00Z`: the log of the host has it, and the support of a cloud asks for it.
    pub at: String,
}

impl From<&FailedRequest> for CloudRequest {
    fn from(request: &FailedRequest) -> Self {
        let FailedRequest { endpoint, origin, operation, method, path, status, error, .. } = request;
        let FailedRequest { held, limit, request_id, sent, at, .. } = request;
        let passed = SignedDuration::try_from(at.elapsed()).unwrap_or(SignedDuration::MAX);
        let at_utc = Timestamp::now().checked_sub(passed).map(|at| format!("{at:.0}")).unwrap_or_default();
        Self {
            operation: operation.clone(),
            method: (*method).to_owned(),
            endpoint: endpoint.clone(),
            origin: origin.clone(),
            path: path.clone(),
            status: *status,
            error: error.map(ToOwned::to_owned),
            held: held.clone(),
            limit: limit.map(ToOwned::to_owned),
            request_id: request_id.clone(),
            sent: *sent,
            seconds_ago: ago(*at),
            at: at_utc,
        }
    }
}

/// What the service controller knows of a Service.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceExplanation {
    /// Its UID; none where this process knows no such Service.
    pub uid: Option<String>,
    /// The provider that takes care of it, if one does.
    pub provider: Option<String>,
    /// `spec.loadBalancerClass`.
    pub class: Option<String>,
    /// Whether it is wanted to have a load balancer.
    pub is_wanted: bool,
    /// The last decision; none where none was made.
    pub decision: Option<Decision>,
    /// The last try, where it failed or found the cloud at work.
    pub last_try: Option<LastTry>,
    /// The reason of the condition `LoadBalancerReady`, where it is false.
    pub not_ready: Option<String>,
    /// When there is work on it next.
    pub next: Next,
    /// For how many seconds the try under way has waited for its turn; none where it does not wait, and from hosts that do not say it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits_for_turn_seconds: Option<f64>,
}

/// What the node controller knows of a Node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeExplanation {
    /// Its UID; none where this process knows no such Node.
    pub uid: Option<String>,
    /// `spec.providerID`.
    pub provider_id: Option<String>,
    /// The provider that takes care of it; none while its provider ID does not say, or is nobody's.
    pub provider: Option<String>,
    /// Whether it has no uninitialized taint any more.
    pub is_initialised: bool,
    /// Whether it never had one, and has no provider ID: no manager is asked to initialise it. False from hosts that do not say it.
    pub asks_no_manager: bool,
    /// Whether its kubelet says that it is Ready, and nobody deletes it. False from hosts that do not say it.
    pub is_ready: bool,
    /// The last try to initialise it, where it failed.
    pub last_try: Option<LastTry>,
    /// For how many seconds every provider has said that it is not its own.
    pub unclaimed_seconds: Option<f64>,
    /// When there is work on it next.
    pub next: Next,
}

/// What the node lifecycle controller knows of a Node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LifecycleExplanation {
    /// Its UID; none where this process knows no such Node, and from hosts that do not say it.
    pub uid: Option<String>,
    /// `ready`, `not-ready`, `deleting` or `foreign`; empty where this process knows no such Node.
    pub state: String,
    /// The cloud's last answer about its machine, such as `running` and `absent`, or the reaction of the failure; none where it was not asked.
    pub answer: Option<String>,
    /// How many seconds ago that came.
    pub answered_seconds_ago: Option<f64>,
    /// Why the cloud gave no answer, or is not asked.
    pub failure: Option<String>,
    /// The request to the cloud behind that, where the host saw one fail.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<CloudRequest>,
    /// How many seconds ago the cloud first said that there is no machine: a second proof is asked for before the Node is deleted.
    pub absent_seconds_ago: Option<f64>,
    /// Its deletion exceeds the budget.
    pub held: Option<HeldDeletion>,
    /// When it is looked at next.
    pub next: Next,
}

/// Why a Node without a machine is not deleted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HeldDeletion {
    /// Whose budget is used up; empty for Nodes without a provider ID.
    pub provider: String,
    /// No more Nodes than this are deleted,
    pub limit: usize,
    /// of so many,
    pub nodes: usize,
    /// within so many seconds.
    pub period_seconds: u64,
}

impl fmt::Display for HeldDeletion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { provider, limit, nodes, period_seconds } = self;
        write!(f, "no more than {limit} of the {nodes} nodes ")?;
        match provider.as_str() {
            "" => write!(f, "without a provider ID")?,
            provider => write!(f, "of provider {provider}")?,
        }
        write!(f, " are deleted within {period_seconds} s")
    }
}

/// Asks the controllers that run. Cheap to clone; each controller that begins takes the place of the one before.
#[derive(Clone, Default)]
pub struct Explainer(Arc<Mutex<Views>>);

#[derive(Default)]
struct Views {
    service: Option<ServiceView>,
    node: Option<NodeView>,
    lifecycle: Option<NodeLifecycleView>,
}

impl Explainer {
    /// A service controller begins.
    pub fn has_services(&self, view: ServiceView) {
        self.0.lock().service = Some(view);
    }

    /// A node controller begins.
    pub fn has_nodes(&self, view: NodeView) {
        self.0.lock().node = Some(view);
    }

    /// A node lifecycle controller begins.
    pub fn has_lifecycle(&self, view: NodeLifecycleView) {
        self.0.lock().lifecycle = Some(view);
    }

    /// What is known of a Service; none where no service controller runs.
    pub async fn service(&self, namespace: &str, name: &str) -> Option<ServiceExplanation> {
        let view = self.0.lock().service.clone()?;
        view.explain(namespace, name).await
    }

    /// What the node controller knows of a Node; none where none runs.
    pub async fn node(&self, name: &str) -> Option<NodeExplanation> {
        let view = self.0.lock().node.clone()?;
        view.explain(name).await
    }

    /// What the node lifecycle controller knows of a Node; none where none runs.
    pub async fn lifecycle(&self, name: &str) -> Option<LifecycleExplanation> {
        let view = self.0.lock().lifecycle.clone()?;
        view.explain(name).await
    }

    /// What is not as it should be, of all objects: at most so many of each kind. In contrast to all else here, this passes over all of them.
    pub async fn troubles(&self, most: usize) -> Troubles {
        let (service, node, lifecycle) = {
            let views = self.0.lock();
            (views.service.clone(), views.node.clone(), views.lifecycle.clone())
        };
        let (services, of_nodes, of_lifecycle) =
            tokio::join!(async { service?.troubles(most).await }, async { node?.troubles(most).await }, async {
                lifecycle?.troubles(most).await
            },);
        let ((uninitialised, unmanaged), (unready, held)) = (of_nodes.unzip(), of_lifecycle.unzip());
        Troubles { services, uninitialised, unmanaged, unready, held }
    }
}

impl Next {
    /// As a queue says it. What `waits_for_change` is looked at much later all the same.
    pub(crate) fn of(place: Option<Place>, waits_for_change: bool) -> Self {
        match place {
            None => Self::Unknown,
            Some(Place::Running(since)) => Self::Running(since.as_secs_f64()),
            Some(Place::Planned(rest)) if waits_for_change => Self::OnChangeOr(rest.as_secs_f64()),
            Some(Place::Planned(rest)) => Self::In(rest.as_secs_f64()),
            Some(Place::Idle) => Self::OnChange,
        }
    }
}

/// How long ago, in seconds.
pub(crate) fn ago(then: Instant) -> f64 {
    then.elapsed().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    #[test]
    fn a_place_in_a_queue_says_when_the_next_try_is() {
        let rest = Duration::from_secs(7);
        for (place, waits_for_change, next) in [
            (None, false, Next::Unknown),
            (Some(Place::Running(rest)), true, Next::Running(7.0)),
            (Some(Place::Planned(rest)), false, Next::In(7.0)),
            (Some(Place::Planned(rest)), true, Next::OnChangeOr(7.0)),
            (Some(Place::Idle), true, Next::OnChange),
        ] {
            assert_eq!(Next::of(place, waits_for_change), next, "{place:?} {waits_for_change}");
        }
    }

    /// What another version says, or leaves out, is not an error.
    #[test]
    fn an_explanation_is_read_as_far_as_it_is_understood() {
        let told = json!({ "uid": "1", "isWanted": true, "next": { "when": "in", "seconds": 2.5 }, "newer": [1] });
        let read: ServiceExplanation = serde_json::from_value(told).unwrap();
        let wanted =
            ServiceExplanation { uid: Some("1".into()), is_wanted: true, next: Next::In(2.5), ..Default::default() };
        assert_eq!(read, wanted);
        assert_eq!(serde_json::to_value(Next::OnChange).unwrap(), json!({ "when": "onChange" }));
    }
}
