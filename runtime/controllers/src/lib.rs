//! The reconcilers of the cloud controller manager: Kubernetes on one side, the traits of `ccm-cloud` on the other.
//!
//! ```text
//! API server ──watch──▶ Reflector ──keys──▶ queue ──▶ controller ──▶ Lookups (ccm-cloud)
//!      ▲                    └──────store──────────────▶   │
//!      └────────────── ApiGate ◀── patches, Events ─────┘
//! ```
//!
//! [`ApiGate`](ccm_apiserver::ApiGate) and Events are those of `ccm-apiserver`. The owner (the binary) makes each part, runs its
//! future, and stops them in this order: controllers, reflectors, the [`EventWriter`](ccm_apiserver::EventWriter).

mod admission;
mod all_metrics;
mod backoff;
mod cluster;
mod cluster_addresses;
mod explain;
mod hold;
mod metrics;
mod node;
mod node_lifecycle;
mod object_name;
mod pulse;
mod queue;
mod reaction;
mod rehearsal;
mod route;
mod service;
mod shrink;
mod store;
mod troubles;
mod unknown_annotations;
mod view;
mod waking;
mod warnings;

#[cfg(test)]
mod testing;

pub use admission::{AdmissionMetrics, AdmissionOutcome, Ruling, ServiceAdmission};
pub use all_metrics::Metrics;
pub use cluster::{
    ClusterController, ClusterControllerParts, ClusterMember, ClusterMetrics, ClusterNodes, ClusterRehearsal,
    ClusterSettings, told_of_service,
};
pub use cluster_addresses::{AddressClash, AddressSources, ClusterAddresses, Lookup, ReservedRange, ServiceRange};
pub use explain::{
    CloudRequest, Decision, Explainer, HeldDeletion, LastTry, LifecycleExplanation, Next, NodeExplanation,
    ServiceExplanation,
};
pub use metrics::{FloatGauge, QueueMetrics, StoreMetrics};
pub use node::{
    NodeController, NodeControllerParts, NodeMetrics, NodeRehearsal, NodeSettings, NodeView, ProvidedIpError,
    RefusedAddress,
};
pub use node_lifecycle::{
    DeletionBudget, JournalPlace, NodeLifecycleController, NodeLifecycleMetrics, NodeLifecycleParts,
    NodeLifecycleRehearsal, NodeLifecycleSettings, NodeLifecycleView, node_state::SHUTDOWN as SHUTDOWN_TAINT,
};
pub use pulse::{Pulse, Pulses};
pub use queue::{GivenUp, QueueSettings};
pub use reaction::MIN_SLOW_RETRY;
pub use rehearsal::Rehearsed;
pub use route::{
    PodRanges, PodRangesError, RouteController, RouteControllerParts, RouteMember, RouteMetrics, RouteRehearsal,
    RouteSettings, has_route_condition, routed_node,
};
pub use service::annotations::ORPHAN;
pub use service::condition::{READY as LOAD_BALANCER_READY, reaction_of, ready_condition};
pub use service::ensured_record::RECORDED as LOAD_BALANCER_RECORDED;
pub use service::inventory::{cloud_backends, recorded_provider, recorded_service, was_ensured_here};
pub use service::predicates::{
    FINALIZER as LOAD_BALANCER_CLEANUP, balanced_service, class as load_balancer_class, has_finalizer, needs_cleanup,
};
pub use service::{
    LoadBalancerMember, LoadBalancerMembers, ServiceController, ServiceControllerParts, ServiceMemory, ServiceMetrics,
    ServiceRehearsal, ServiceSettings, ServiceView,
};
pub use store::{FirstList, Node, Reflector, ReflectorHandle, Stored};
pub use troubles::{HeldNode, Listed, ServiceTrouble, Troubles, UninitialisedNode, UnreadyNode};
pub use unknown_annotations::annotation_prefixes;
pub use view::node::{UNINITIALIZED as UNINITIALIZED_TAINT, asks_no_manager, cloud_node, is_uninitialized};
pub use view::selector::NodeLabels;
pub use view::service::{is_deleting, is_load_balancer, published_addresses};
