//! The metrics of the whole crate, registered at once. Each part knows its own: this is the one place that knows them all.

use ccm_apiserver::{ApiMetrics, EventMetrics};
use prometheus_client::registry::Registry;

use crate::cluster::ClusterMetrics;
use crate::metrics::{QueueMetrics, StoreMetrics};
use crate::node::NodeMetrics;
use crate::node_lifecycle::NodeLifecycleMetrics;
use crate::route::RouteMetrics;
use crate::service::ServiceMetrics;

/// The metrics of all components of this crate.
#[derive(Debug, Clone)]
pub struct Metrics {
    /// Reflectors.
    pub store: StoreMetrics,
    /// Work queues.
    pub queue: QueueMetrics,
    /// Requests to the API server.
    pub api: ApiMetrics,
    /// Events.
    pub events: EventMetrics,
    /// Node controller.
    pub node: NodeMetrics,
    /// Service controller.
    pub service: ServiceMetrics,
    /// Node lifecycle controller.
    pub node_lifecycle: NodeLifecycleMetrics,
    /// Route controller.
    pub route: RouteMetrics,
    /// Cluster controller.
    pub cluster: ClusterMetrics,
}

impl Metrics {
    /// Registers everything.
    pub fn register(registry: &mut Registry) -> Self {
        Self {
            store: StoreMetrics::register(registry),
            queue: QueueMetrics::register(registry),
            api: ApiMetrics::register(registry),
            events: EventMetrics::register(registry),
            node: NodeMetrics::register(registry),
            service: ServiceMetrics::register(registry),
            node_lifecycle: NodeLifecycleMetrics::register(registry),
            route: RouteMetrics::register(registry),
            cluster: ClusterMetrics::register(registry),
        }
    }
}
