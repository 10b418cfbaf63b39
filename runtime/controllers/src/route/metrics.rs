//! What operators see of the route controller.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use crate::metrics::FloatGauge;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SyncLabels {
    trigger: &'static str,
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ProviderLabel {
    provider: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StateLabels {
    provider: String,
    state: &'static str,
}

/// What the route controller does.
#[derive(Debug, Clone)]
pub struct RouteMetrics {
    syncs: Family<SyncLabels, Counter>,
    duration: Family<ProviderLabel, Histogram, fn() -> Histogram>,
    routes: Family<StateLabels, Gauge>,
    last_success: Family<ProviderLabel, FloatGauge>,
}

/// [`RouteMetrics`] of one provider.
#[derive(Debug, Clone)]
pub(crate) struct RouteMeters {
    syncs: Family<SyncLabels, Counter>,
    pub(crate) duration: Histogram,
    pub(crate) in_place: Gauge,
    pub(crate) pending: Gauge,
    pub(crate) failing: Gauge,
    pub(crate) last_success: FloatGauge,
}

impl RouteMetrics {
    /// Registers the metrics of the route controller.
    pub fn register(registry: &mut Registry) -> Self {
        // 10 ms to 164 s.
        let duration: fn() -> Histogram = || Histogram::new(exponential_buckets(0.01, 4.0, 8));
        let this = Self {
            syncs: Family::default(),
            duration: Family::new_with_constructor(duration),
            routes: Family::default(),
            last_success: Family::default(),
        };
        let help = "Comparisons of all routes with the Nodes, by trigger (`node_change`, `periodic`) and outcome (`changed`, `noop`, `error`)";
        registry.register("route_controller_route_sync", help, this.syncs.clone());
        let help = "Time of one such comparison, with the changes that it led to";
        registry.register("ccm_route_sync_duration_seconds", help, this.duration.clone());
        let help = "Routes that Nodes should have, by state: `in_place`, `pending`, `failing`";
        registry.register("ccm_routes", help, this.routes.clone());
        let help = "Time of the last comparison after which every Node had its routes, in seconds since the epoch";
        registry.register("ccm_route_sync_last_success_timestamp_seconds", help, this.last_success.clone());
        this
    }

    pub(crate) fn of(&self, provider: &str) -> RouteMeters {
        let label = ProviderLabel { provider: provider.to_owned() };
        let routes = |state| self.routes.get_or_create_owned(&StateLabels { provider: provider.to_owned(), state });
        RouteMeters {
            syncs: self.syncs.clone(),
            duration: self.duration.get_or_create_owned(&label),
            in_place: routes("in_place"),
            pending: routes("pending"),
            failing: routes("failing"),
            last_success: self.last_success.get_or_create_owned(&label),
        }
    }
}

impl RouteMeters {
    pub(crate) fn ended(&self, trigger: &'static str, outcome: &'static str) {
        self.syncs.get_or_create(&SyncLabels { trigger, outcome }).inc();
    }
}
