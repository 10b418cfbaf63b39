//! The reconcilers of the cloud controller manager: Kubernetes on one side, the traits of `ccm-cloud` on the other.
//!
//! ```text
//! API server ──watch──▶ Reflector ──keys──▶ queue ──▶ controller ──▶ Lookups (ccm-cloud)
//!      ▲                    └──────store──────────────▶   │
//!      └────────────── WriteGate ◀── patches, Events ─────┘
//! ```
//!
//! The owner (the binary) makes each part, runs its future, and stops them in this order: controllers, reflectors, the
//! [`EventWriter`].

mod admission;
mod api_status;
mod cluster;
mod events;
mod in_log;
mod metrics;
mod node;
mod node_lifecycle;
mod queue;
mod reaction;
mod series;
mod service;
mod shrink;
mod store;
mod warnings;
mod write_gate;

#[cfg(test)]
mod testing;

pub use admission::{AdmissionMetrics, Outcome as AdmissionOutcome, Ruling, ServiceAdmission};
pub use api_status::{is_namespace_ending, lacks_right};
pub use cluster::{
    ClusterController, ClusterControllerParts, ClusterMember, ClusterMetrics, ClusterNodes, ClusterSettings,
};
pub use events::{EventRecorder, EventRequest, EventSettings, EventWriter, node_reference, service_reference};
pub use metrics::{
    ApiMetrics, EventMetrics, FloatGauge, Metrics, NodeLifecycleMetrics, NodeMetrics, QueueMetrics, StoreMetrics,
};
pub use node::view::cloud_node;
pub use node::{NodeController, NodeControllerParts, NodeLabels, NodeSettings, ProvidedIpError};
pub use node_lifecycle::{DeletionBudget, NodeLifecycleController, NodeLifecycleParts, NodeLifecycleSettings};
pub use queue::{GivenUp, QueueSettings};
pub use reaction::MIN_SLOW_RETRY;
pub use service::inventory::{cloud_backends, recorded_service};
pub use service::predicates::balanced_service;
pub use service::{LoadBalancerMember, ServiceController, ServiceControllerParts, ServiceMetrics, ServiceSettings};
pub use store::{FirstList, Node, Reflector, ReflectorHandle, Stored, api_error_text, causes};
pub use write_gate::{ApiError, WriteGate, WriteGateSettings};
