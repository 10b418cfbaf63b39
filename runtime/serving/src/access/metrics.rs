//! What operators see of those who do not get a page.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Reason {
    reason: &'static str,
}

/// Requests that were refused at a port with a wall.
#[derive(Debug, Clone, Default)]
pub struct AccessMetrics {
    refusals: Family<Reason, Counter>,
}

impl AccessMetrics {
    /// Registers the metrics of the wall.
    pub fn register(registry: &mut Registry) -> Self {
        let this = Self::default();
        let help = "Requests to the health port that got no page, by reason: `no-token`, `wrong-token`, `forbidden`, `too-many` (new tokens or \
                    pages in this second), `away` (the API server has not answered), `method`";
        registry.register("ccm_health_port_refusals", help, this.refusals.clone());
        this
    }

    pub(super) fn refused(&self, reason: &'static str) {
        self.refusals.get_or_create(&Reason { reason }).inc();
    }
}
