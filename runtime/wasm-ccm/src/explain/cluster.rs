//! What the object says of itself, and what its Events say: that holds whoever leads, or nobody.

use std::cmp::Reverse;
use std::time::Duration;

use ccm_apiserver::{NODE_EVENTS, api_error_text};
use k8s_openapi::api::core::v1::{Node, Service};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::jiff::Timestamp;
use kube::api::ListParams;
use kube::{Api, Client};

use super::target::Target;

/// For one question.
const PATIENCE: Duration = Duration::from_secs(10);
/// So many Events are shown, the newest.
const EVENTS: usize = 5;
/// So many are read.
const READ: u32 = 200;
const UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";
const FINALIZER: &str = "service.kubernetes.io/load-balancer-cleanup";

/// The object, as far as it matters.
#[derive(Debug)]
pub(super) enum Object {
    /// The API server does not have it.
    Missing,
    /// The API server does not say.
    Unread,
    Service(ServiceFacts),
    Node(NodeFacts),
}

/// What a Service says.
#[derive(Debug, Default)]
pub(super) struct ServiceFacts {
    pub(super) uid: String,
    pub(super) is_load_balancer: bool,
    pub(super) is_deleting: bool,
    pub(super) has_finalizer: bool,
    pub(super) class: Option<String>,
    pub(super) addresses: Vec<String>,
    /// Status, reason and message of the condition `LoadBalancerReady`.
    pub(super) ready: Option<(String, String, String)>,
}

/// What a Node says.
#[derive(Debug, Default)]
pub(super) struct NodeFacts {
    pub(super) uid: String,
    pub(super) provider_id: Option<String>,
    pub(super) is_uninitialised: bool,
    pub(super) is_deleting: bool,
    /// Status and message of the condition `Ready`.
    pub(super) ready: Option<(String, String)>,
}

/// One Event.
#[derive(Debug, Default, Clone)]
pub(super) struct EventTold {
    pub(super) is_warning: bool,
    /// A kubelet tells of other things: disks, memory, images.
    pub(super) is_of_kubelet: bool,
    pub(super) reason: String,
    pub(super) note: String,
    pub(super) at: Option<Timestamp>,
}

impl ServiceFacts {
    /// Whether its load balancer has to go, if it has one.
    pub(super) const fn is_going(&self) -> bool {
        self.is_deleting || (!self.is_load_balancer && self.has_finalizer)
    }
}

impl EventTold {
    fn of(event: Event) -> Self {
        let at =
            event.series.as_ref().map(|series| series.last_observed_time.0).or(event.event_time.map(|time| time.0));
        let at = at.or_else(|| event.deprecated_last_timestamp.map(|time| time.0));
        Self {
            is_warning: event.type_.as_deref() == Some("Warning"),
            is_of_kubelet: event.reporting_controller.as_deref() == Some("kubelet"),
            reason: event.reason.unwrap_or_default(),
            note: event.note.unwrap_or_default(),
            at,
        }
    }

    /// In one line.
    pub(super) fn text(&self) -> String {
        let kind = if self.is_warning { "Warning" } else { "Normal" };
        let ago = self.at.map(|at| Timestamp::now().duration_since(at).as_secs().max(0));
        let ago = ago.map(|seconds| format!(", {seconds} s ago")).unwrap_or_default();
        format!("{kind} {}{ago}: {}", self.reason, self.note)
    }
}

/// The API server, for questions.
pub(super) struct Cluster {
    pub(super) client: Client,
}

impl Cluster {
    pub(super) const fn new(client: Client) -> Self {
        Self { client }
    }

    /// The object.
    ///
    /// # Errors
    ///
    /// The API server does not say, and why.
    pub(super) async fn object(&self, target: &Target) -> Result<Object, String> {
        let client = self.client.clone();
        let object = match target {
            Target::Service { namespace, name } => {
                let service =
                    limited(&target.to_string(), Api::<Service>::namespaced(client, namespace).get_opt(name)).await?;
                service.map(|service| Object::Service(service_facts(service)))
            }
            Target::Node { name } => {
                let node = limited(&target.to_string(), Api::<Node>::all(client).get_opt(name)).await?;
                node.map(|node| Object::Node(node_facts(node)))
            }
        };
        Ok(object.unwrap_or(Object::Missing))
    }

    /// Its newest Events, the newest first.
    ///
    /// # Errors
    ///
    /// The API server does not say, and why.
    pub(super) async fn events(&self, target: &Target) -> Result<Vec<EventTold>, String> {
        let namespace = match target {
            Target::Service { namespace, .. } => namespace.as_str(),
            Target::Node { .. } => NODE_EVENTS,
        };
        let about = format!("regarding.kind={},regarding.name={}", target.kind(), target.name());
        let params = ListParams::default().fields(&about).limit(READ);
        let events = Api::<Event>::namespaced(self.client.clone(), namespace);
        let listed = limited(&format!("Events of {target}"), events.list(&params)).await?;
        let mut told: Vec<EventTold> = listed.items.into_iter().map(EventTold::of).collect();
        told.sort_by_key(|event| Reverse(event.at));
        told.truncate(EVENTS);
        Ok(told)
    }
}

async fn limited<T>(what: &str, asked: impl Future<Output = kube::Result<T>>) -> Result<T, String> {
    let why = match tokio::time::timeout(PATIENCE, asked).await {
        Ok(Ok(answer)) => return Ok(answer),
        Ok(Err(error)) => api_error_text(&error),
        Err(_elapsed) => format!("no answer within {PATIENCE:?}"),
    };
    Err(format!("{what} cannot be read: {why}"))
}

fn service_facts(service: Service) -> ServiceFacts {
    let (metadata, spec) = (service.metadata, service.spec.unwrap_or_default());
    let status = service.status.unwrap_or_default();
    let ingress = status.load_balancer.and_then(|balancer| balancer.ingress).unwrap_or_default();
    let ready =
        status.conditions.unwrap_or_default().into_iter().find(|condition| condition.type_ == "LoadBalancerReady");
    ServiceFacts {
        uid: metadata.uid.unwrap_or_default(),
        is_load_balancer: spec.type_.as_deref() == Some("LoadBalancer"),
        is_deleting: metadata.deletion_timestamp.is_some(),
        has_finalizer: metadata.finalizers.iter().flatten().any(|finalizer| finalizer == FINALIZER),
        class: spec.load_balancer_class,
        addresses: ingress.into_iter().filter_map(|place| place.ip.or(place.hostname)).collect(),
        ready: ready.map(|condition| (condition.status, condition.reason, condition.message)),
    }
}

fn node_facts(node: Node) -> NodeFacts {
    let (metadata, spec) = (node.metadata, node.spec.unwrap_or_default());
    let conditions = node.status.and_then(|status| status.conditions).unwrap_or_default();
    let ready = conditions.into_iter().find(|condition| condition.type_ == "Ready");
    NodeFacts {
        uid: metadata.uid.unwrap_or_default(),
        provider_id: spec.provider_id.filter(|id| !id.is_empty()),
        is_uninitialised: spec.taints.iter().flatten().any(|taint| taint.key == UNINITIALIZED),
        is_deleting: metadata.deletion_timestamp.is_some(),
        ready: ready.map(|condition| (condition.status, condition.message.unwrap_or_default())),
    }
}
