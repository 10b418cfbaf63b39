//! What operators see of the cluster controller. One label: the provider.

use ccm_cloud::Reaction;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use crate::metrics::FloatGauge;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ProviderLabel {
    provider: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabels {
    provider: String,
    outcome: &'static str,
}

/// What the cluster controller does.
#[derive(Debug, Clone)]
pub struct ClusterMetrics {
    syncs: Family<OutcomeLabels, Counter>,
    duration: Family<ProviderLabel, Histogram, fn() -> Histogram>,
    failing: Family<ProviderLabel, Gauge>,
    last_success: Family<ProviderLabel, FloatGauge>,
}

/// [`ClusterMetrics`] of one provider.
#[derive(Debug, Clone)]
pub(crate) struct ClusterMeters {
    provider: String,
    syncs: Family<OutcomeLabels, Counter>,
    pub(crate) duration: Histogram,
    /// Objects that failed in the last call that had an answer.
    pub(crate) failing: Gauge,
    pub(crate) last_success: FloatGauge,
}

impl ClusterMetrics {
    /// Registers the metrics of the cluster controller.
    pub fn register(registry: &mut Registry) -> Self {
        // 10 ms to 164 s.
        let duration: fn() -> Histogram = || Histogram::new(exponential_buckets(0.01, 4.0, 8));
        let this = Self {
            syncs: Family::default(),
            duration: Family::new_with_constructor(duration),
            failing: Family::default(),
            last_success: Family::default(),
        };
        let help = "Rounds of work for the cluster as a whole, by outcome: `ok`, `partial` (single objects failed), or the reaction to the failure. A round that waits for an object that cannot be read counts as `invalid`, without a call";
        registry.register("ccm_cluster_syncs", help, this.syncs.clone());
        registry.register(
            "ccm_cluster_sync_duration_seconds",
            "Time of calls for the cluster as a whole",
            this.duration.clone(),
        );
        let help = "Nodes and Services that failed in the last call that had an answer";
        registry.register("ccm_cluster_objects_failing", help, this.failing.clone());
        let help = "Time of the last call that served all objects, except for objects that are wrong themselves, in seconds since the epoch";
        registry.register("ccm_cluster_sync_last_success_timestamp_seconds", help, this.last_success.clone());
        this
    }

    pub(crate) fn of(&self, provider: &str) -> ClusterMeters {
        let label = ProviderLabel { provider: provider.to_owned() };
        // What alerts count is there before the first time.
        for reaction in [Reaction::Unauthorized, Reaction::Invalid] {
            let (provider, outcome) = (provider.to_owned(), reaction.as_str());
            drop(self.syncs.get_or_create(&OutcomeLabels { provider, outcome }));
        }
        ClusterMeters {
            syncs: self.syncs.clone(),
            duration: self.duration.get_or_create_owned(&label),
            failing: self.failing.get_or_create_owned(&label),
            last_success: self.last_success.get_or_create_owned(&label),
            provider: label.provider,
        }
    }
}

impl ClusterMeters {
    pub(crate) fn ended(&self, outcome: &'static str) {
        self.syncs.get_or_create(&OutcomeLabels { provider: self.provider.clone(), outcome }).inc();
    }
}
