//! What a Service is to this controller, and which Nodes are backends. Nothing here reads or writes anything.

use k8s_openapi::api::core::v1::Service;
use kube::runtime::reflector::{ObjectRef, Store};

use crate::object_name::ObjectName as _;
use crate::store::Node;
use crate::view::service::{is_deleting, is_load_balancer};

/// Keeps a Service until its load balancer is gone.
pub const FINALIZER: &str = "service.kubernetes.io/load-balancer-cleanup";
/// Keeps a Node out of load balancers.
const EXCLUDE: &str = "node.kubernetes.io/exclude-from-external-load-balancers";
/// The cluster autoscaler is about to delete this Node.
const AUTOSCALER_TAINT: &str = "ToBeDeletedByClusterAutoscaler";
/// What Go's `strconv.ParseBool`, and so upstream, takes for false.
const FALSE: [&str; 6] = ["0", "f", "F", "false", "FALSE", "False"];

/// `spec.loadBalancerClass`. An empty one is a class too.
#[must_use]
pub fn class(service: &Service) -> Option<&str> {
    service.spec.as_ref()?.load_balancer_class.as_deref()
}

/// Whether it keeps the Service until its load balancer is gone.
#[must_use]
pub fn has_finalizer(service: &Service) -> bool {
    service.metadata.finalizers.iter().flatten().any(|finalizer| finalizer == FINALIZER)
}

/// A Service that has a load balancer, or may have one: what its provider must be able to take away again. Of several always
/// the same.
#[must_use]
pub fn balanced_service(services: &Store<Service>) -> Option<String> {
    let all = services.state();
    let having = all.iter().filter(|service| has_finalizer(service));
    having.map(|service| ObjectRef::from_obj(&**service).object_name()).min()
}

/// The finalizer is there, and the load balancer is not wanted any more.
#[must_use]
pub fn needs_cleanup(service: &Service) -> bool {
    has_finalizer(service) && (is_deleting(service) || !is_load_balancer(service))
}

/// Not kept out by its label.
pub(crate) fn is_included(node: &Node) -> bool {
    node.labels.get(EXCLUDE).is_none_or(|value| FALSE.contains(&value))
}

/// Whether load balancers send traffic to it. Neither readiness nor cordon matter: health checks see the one, the other is
/// about new pods.
pub(crate) fn is_backend(node: &Node) -> bool {
    !node.is_deleting && is_included(node) && !node.taints.iter().any(|taint| taint.key == AUTOSCALER_TAINT)
}
