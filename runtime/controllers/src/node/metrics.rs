//! What operators see of the node controller.

use ccm_cloud::Reaction;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::metrics::FloatGauge;

/// Upstream's buckets of both delay histograms, in seconds.
const DELAY_BUCKETS: [f64; 6] = [1.0, 4.0, 16.0, 64.0, 256.0, 1024.0];
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct ReactionLabel {
    reaction: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct OutcomeLabel {
    outcome: &'static str,
}

/// What the node controller does.
#[derive(Debug, Clone)]
pub struct NodeMetrics {
    pub(crate) taint_removal_delay: Histogram,
    pub(crate) initial_sync_delay: Histogram,
    failures: Family<ReactionLabel, Counter>,
    pub(crate) uninitialized: Gauge,
    refreshed: Family<OutcomeLabel, Counter>,
    pub(crate) last_refresh: FloatGauge,
}

impl NodeMetrics {
    /// Registers the metrics of the node controller.
    pub fn register(registry: &mut Registry) -> Self {
        let this = Self {
            taint_removal_delay: Histogram::new(DELAY_BUCKETS),
            initial_sync_delay: Histogram::new(DELAY_BUCKETS),
            failures: Family::default(),
            uninitialized: Gauge::default(),
            refreshed: Family::default(),
            last_refresh: FloatGauge::default(),
        };
        let help = "Time from the creation of a Node until its uninitialized taint was removed";
        registry.register(
            "node_controller_cloud_provider_taint_removal_delay_seconds",
            help,
            this.taint_removal_delay.clone(),
        );
        let help = "Time from the creation of a Node until it was initialised";
        registry.register("node_controller_initial_node_sync_delay_seconds", help, this.initial_sync_delay.clone());
        // What alerts count is there before the first time.
        drop(this.failures.get_or_create(&ReactionLabel { reaction: Reaction::Unauthorized.as_str() }));
        let help = "Failed attempts to initialise a Node, by reaction: what the host does about the failure";
        registry.register("ccm_node_initialization_failures", help, this.failures.clone());
        let help = "Nodes that wait for their initialisation";
        registry.register("ccm_nodes_uninitialized", help, this.uninitialized.clone());
        let help = "Nodes whose addresses the periodic refresh looked at";
        registry.register("ccm_node_refreshes", help, this.refreshed.clone());
        let help = "Time at which a refresh last had an answer about every Node, except for Nodes that are wrong themselves, in seconds since the epoch";
        registry.register("ccm_node_refresh_last_success_timestamp_seconds", help, this.last_refresh.clone());
        this
    }

    /// `reaction` is one of the contract's, or `absent` or `api`.
    pub(crate) fn failed(&self, reaction: &'static str) {
        self.failures.get_or_create(&ReactionLabel { reaction }).inc();
    }

    #[cfg(test)]
    pub(crate) fn failures(&self, reaction: Reaction) -> u64 {
        self.failures.get_or_create(&ReactionLabel { reaction: reaction.as_str() }).get()
    }

    pub(crate) fn refreshed(&self, outcome: &'static str) {
        self.refreshed.get_or_create(&OutcomeLabel { outcome }).inc();
    }

    #[cfg(test)]
    pub(crate) fn refreshes(&self, outcome: &'static str) -> u64 {
        self.refreshed.get_or_create(&OutcomeLabel { outcome }).get()
    }
}
