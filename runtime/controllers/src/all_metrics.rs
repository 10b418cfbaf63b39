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

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;

    use super::*;

    #[test]
    fn what_alerts_count_begins_at_zero_wherever_it_is_met() {
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry);
        drop(metrics.cluster.of("cloud"));
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        for series in [
            r#"ccm_node_initialization_failures_total{reaction="unauthorized"}"#,
            r#"ccm_load_balancer_operations_total{operation="ensure",outcome="unauthorized"}"#,
            r#"ccm_load_balancer_operations_total{operation="survey",outcome="unauthorized"}"#,
            r#"ccm_cluster_syncs_total{provider="cloud",outcome="unauthorized"}"#,
            r#"ccm_cluster_syncs_total{provider="cloud",outcome="invalid"}"#,
            r#"ccm_node_lifecycle_looks_total{answer="unauthorized"}"#,
        ] {
            assert!(text.contains(&format!("{series} 0\n")), "{series}: {text}");
        }
    }
}
